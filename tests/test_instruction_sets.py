"""The CPU kernels of the instruction sets that this machine would not choose."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from metal.shader_host import RUNS_SHADERS

pytestmark = pytest.mark.skipif(
    RUNS_SHADERS or sys.platform != "linux" or platform.machine() != "x86_64",
    reason="only x86-64 has more than one set of CPU kernels",
)
TESTS = (
    "test_forward.py",
    "test_gradients.py",
    "test_indices.py",
    "test_integer_averages.py",
    "test_min_pool.py",
    "test_adaptive.py",
    "test_lp_pool.py",
    "test_methods.py",
    "test_quantized.py",
)


def start(isa: str) -> subprocess.Popen[str]:
    files = [str(Path(__file__).with_name(name)) for name in TESTS]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env={**os.environ, "MLX_POOLING_ISA": isa},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_kernels_of_other_sets():
    chosen = "avx512" if "avx512bw" in Path("/proc/cpuinfo").read_text() else "avx2"
    runs = {isa: start(isa) for isa in ("baseline", "avx2") if isa != chosen}
    for isa, run in runs.items():
        output, _ = run.communicate()
        assert run.returncode == 0, f"{isa}: {output}"
