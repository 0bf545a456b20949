"""A build of the extension whose CPU backend can run the Metal shaders instead."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import mlx.core as mx

ORDERS = ("forward", "reverse", "shuffled")
PROJECT = Path(__file__).parents[2]


def build(folder: Path, *cmake_arguments: str) -> Path:
    """Build the package with the host encoder; return the folder to import from."""
    cmake = ["cmake", "-S", str(PROJECT), "-B", str(folder / "build"), "-G", "Ninja"]
    options = [
        "-DCMAKE_BUILD_TYPE=Release",
        "-DMLX_POOLING_HOST_SHADERS=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    site = folder / "site"
    for command in (
        [*cmake, *options, *cmake_arguments],
        ["cmake", "--build", str(folder / "build")],
        ["cmake", "--install", str(folder / "build"), "--prefix", str(site)],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    package = site / "mlx_pooling"
    for source in (PROJECT / "python" / "mlx_pooling").glob("*.py*"):
        (package / source.name).write_bytes(source.read_bytes())
    return site


@cache
def library() -> ctypes.CDLL:
    import mlx_pooling

    library = ctypes.CDLL(mlx_pooling._ext.__file__)
    library.take_records.restype = ctypes.c_char_p
    return library


def run_shaders(run: bool, order: str = "forward") -> None:
    """Switch between the shaders, their threads in the given order, and the kernels."""
    library().run_shaders(run, ORDERS.index(order))


def take_records() -> list[dict]:
    """Return what the launches since the last call did."""
    mx.synchronize()
    return json.loads(library().take_records())


def environment(site: Path, cache: Path) -> dict[str, str]:
    """The environment of a process that imports the build in ``site``."""
    return {
        **os.environ,
        "PYTHONPATH": str(site),
        "MLX_POOLING_SHADER_CACHE": str(cache),
        "MLX_POOLING_TEST_SHADERS": "1",
    }
