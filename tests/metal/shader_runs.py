"""Runs of the tests in other files and in on_host/ on the shaders.

Each is a process of its own, which imports a build of the extension whose encoder
takes the launches meant for a GPU.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from metal import shader_host

TESTS = Path(__file__).parents[1]
AGREEMENT = "metal/on_host/test_agreement.py"


@dataclass(frozen=True)
class Run:
    """Test files or tests, run on the shaders."""

    tests: tuple[str, ...]
    leaving_out: str = "nothing"
    sanitized: bool = False
    fault: str = ""


# Longest first.
RUNS = {
    "forward": Run(
        (
            *("test_forward.py", "test_indices.py", "test_layout.py"),
            *("test_quantized.py", "test_integer_averages.py"),
        ),
        # Watched accesses are slow; on_host/ has windows as wide with fewer taps,
        # and test_plans.py arrays as long.
        leaving_out="about_the_limits_of_an_offset_type or long_thin "
        "or by_every_method or derivative_of_the_integers "
        "or of_large_arrays or of_bytes_beyond_32_bits "
        "or max_pool_of_any_geometry",
    ),
    "backward": Run(
        ("test_gradients.py", "test_transforms.py", "test_known_bugs.py"),
        # on_host/ has 64-bit indices in arrays that are small.
        leaving_out="more_than_2_to_the_31_elements or long_thin",
    ),
    "surface": Run(
        # Padding is numbers by the time that there is a shader.
        ("test_adaptive.py", "test_lp_pool.py", "test_min_pool.py", "test_unpool.py"),
        # Minima of each number of channels take the shaders of maxima.
        leaving_out="a_long_plane or shared_out_among_threads "
        "or (test_min_pool and every_small_number_of_channels)",
    ),
    "agreement": Run((AGREEMENT,), leaving_out="any_geometry"),
    "sanitized": Run(
        (AGREEMENT,),
        # What float16 accesses, bfloat16 does.
        leaving_out="maxima or averages or bfloat16 "
        "or bool or int8 or int16 or int32 or int64",
        sanitized=True,
    ),
    "sanitized, few outputs": Run(
        ("metal/on_host/test_lanes.py",),
        # Kinds of data differ in values, which are compared elsewhere.
        leaving_out="planted or every_type or test_threads or nan or low or infinite",
        sanitized=True,
    ),
    "passes": Run(("metal/on_host/test_sweeps.py", "metal/on_host/test_traffic.py")),
    "few outputs": Run(("metal/on_host/test_lanes.py",)),
    "sanitized passes": Run(
        ("metal/on_host/test_sweeps.py",),
        leaving_out="bool or int16 or int32 or int64 or float16 or complex64",
        sanitized=True,
    ),
    "other windows": Run(("metal/on_host/test_other_windows.py",)),
    "sanitized, few channels": Run(
        ("metal/on_host/test_flat.py",),
        leaving_out="averages or every_type or test_loads or begins_at",
        sanitized=True,
    ),
    "few channels": Run(("metal/on_host/test_flat.py",)),
    "norms and quantized": Run(("metal/on_host/test_norms_and_quantized.py",)),
    "any geometry": Run((f"{AGREEMENT}::test_maxima_of_any_geometry",)),
    "any geometry, averages": Run((f"{AGREEMENT}::test_averages_of_any_geometry",)),
    "watch": Run(("metal/on_host/test_watch.py",)),
}

SMALL = f"{AGREEMENT}::test_inputs_that_start_anywhere"
# With a fault planted in the shaders, a run of a few tests must end like this.
FAULTY_RUNS = {
    "wrong value": (
        Run((SMALL,), fault="best) || is_nan(v); => best) || v != 2;"),
        "Arrays are not equal",
    ),
    "not written": (
        Run(
            (SMALL,), fault="at.first + t < end_column => at.first + t + 1 < end_column"
        ),
        'assert not [record for record in records if record["error"]]',
    ),
    "past the end of an array": (
        Run((SMALL,), fault="from + input_at => from + 160 + input_at", sanitized=True),
        "AddressSanitizer: heap-buffer-overflow",
    ),
    "past the end of registers": (
        Run((SMALL,), fault="values.v[i] = => values.v[i + 1] =", sanitized=True),
        "runtime error: index",
    ),
    "misaligned": (
        # Of a vector of four.
        Run(
            (f"{SMALL}[shaders-float32-4]",),
            fault="from + input_at => from + 1 + input_at",
            sanitized=True,
        ),
        "misaligned address",
    ),
    "signed overflow": (
        Run(
            (SMALL,),
            fault="Index(thread_at.x) * V; => 2147483647 * kernel_h;",
            sanitized=True,
        ),
        "runtime error: signed integer overflow",
    ),
}
ALL = {**RUNS, **{name: run for name, (run, _) in FAULTY_RUNS.items()}}

Process = subprocess.CompletedProcess[str]
Running = subprocess.Popen[str]


def environment(run: Run, folder: Path) -> dict[str, str]:
    env = shader_host.environment(folder / "site", folder / "shaders")
    if run.sanitized:
        env |= shader_host.sanitizers()
    if run.fault:
        env["MLX_POOLING_SHADER_FAULT"] = run.fault
    return env


def start(run: Run, env: dict[str, str], running: list[Running]) -> Process:
    """Wait for a run's end; the process is put into ``running`` before."""
    # A sanitizer ends the process, which must not be holding its message back.
    capture = "no" if run.sanitized else "fd"
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short"),
            *(f"--capture={capture}", "-k", f"not ({run.leaving_out})", *run.tests),
        ],
        cwd=TESTS,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        running.append(process)
        output, _ = process.communicate()
    return Process(process.args, process.returncode, output)
