"""Runs the tests of the shaders on an NVIDIA GPU, where their threads run at once.

    python tests/metal/on_cuda.py
    python tests/metal/on_cuda.py --jobs 4

Linux, a driver and NVRTC (``pip install nvidia-cuda-nvrtc``, its folder in
LD_LIBRARY_PATH) are all of CUDA that it takes: the shaders are compiled as CUDA C++ by
tests/metal/cuda/. What the runs on the CPU test by watching each access is left out;
the memory around arrays is looked at instead. The exit status is 1 if a run fails.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))
from metal import shader_host, shader_runs

# They need what only the watching encoder can tell.
WATCHED = "test_loads or test_traffic or planted_fault or test_threads"
WATCHED += " or begins_at_a_quarter"


def runs() -> dict[str, shader_runs.Run]:
    return {
        name: replace(run, leaving_out=f"{run.leaving_out} or {WATCHED}")
        for name, run in shader_runs.RUNS.items()
        if not run.sanitized and name != "watch"
    }


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="runs side by side (default: the cores, %(default)s)",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=shader_host.PROJECT / "build" / "on_cuda",
        metavar="FOLDER",
        help="for the build of the extension (default: %(default)s)",
    )
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    shader_host.require_driver()
    console = Console(highlight=False)
    folder = args.build.resolve()
    with console.status("building the extension"):
        shader_host.build(folder)
    on_cuda = {"MLX_POOLING_SHADERS_ON": "cuda"}
    failed = 0

    def start(run: shader_runs.Run) -> shader_runs.Process:
        env = shader_runs.environment(run, folder) | on_cuda
        return shader_runs.start(run, env, [])

    with ThreadPoolExecutor(args.jobs) as pool, console.status("running"):
        futures = {pool.submit(start, run): name for name, run in runs().items()}
        for future in as_completed(futures):
            process = future.result()
            *_, last = process.stdout.splitlines() or [""]
            console.print(f"{futures[future]}: {last.strip('= ')}")
            if process.returncode != 0:
                failed += 1
                console.print(process.stdout, markup=False)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
