"""A build of the extension whose CPU backend can run the Metal shaders instead."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import mlx.core as mx

# Set in a process that imports the build and tests the shaders in it.
RUNS_SHADERS = os.environ.get("MLX_POOLING_TEST_SHADERS") == "1"
# Set besides where they are to run on an NVIDIA GPU, on which nothing watches them.
ON_CUDA = os.environ.get("MLX_POOLING_SHADERS_ON") == "cuda"

ORDERS = ("forward", "reverse", "shuffled")
PROJECT = Path(__file__).parents[2]


def cmake(*arguments: str) -> None:
    command = [sys.executable, "-m", "cmake", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _embed(folder: Path) -> None:
    """Writes what the build does of the shaders."""
    script = folder / "embed.cmake"
    script.write_text(
        "cmake_minimum_required(VERSION 3.26)\n"
        f"set(CMAKE_SOURCE_DIR {PROJECT})\n"
        f"include({PROJECT}/csrc/metal/embed_shaders.cmake)\n"
        f"include({PROJECT}/csrc/metal/ready.cmake)\n"
        f"embed_shaders({folder}/shader_source.h)\n"
        f"write_ready({folder} name)\n"
    )
    cmake("-P", str(script))


def shader_source(folder: Path) -> str:
    """The shaders as the one string that the build embeds."""
    _embed(folder)
    text = (folder / "shader_source.h").read_text()
    return text[text.index('R"metal(') + len('R"metal(') : text.index(')metal"')]


def ready_source(folder: Path) -> str:
    """The source of the ahead-of-time library."""
    _embed(folder)
    return (folder / "ready.metal").read_text()


def build(folder: Path, *cmake_arguments: str) -> Path:
    """Build the package with the host encoder; return the folder to import from."""
    import ninja

    build = str(folder / "build")
    options = [
        # No build type: it is used for less time than optimising takes.
        "-DCMAKE_BUILD_TYPE=",
        "-DCMAKE_CXX_FLAGS=-O1",
        f"-DCMAKE_MAKE_PROGRAM={Path(ninja.BIN_DIR) / 'ninja'}",
        "-DMLX_POOLING_HOST_SHADERS=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
        *cmake_arguments,
    ]
    site = folder / "site"
    cmake("-S", str(PROJECT), "-B", build, "-G", "Ninja", *options)
    cmake("--build", build)
    cmake("--install", build, "--prefix", str(site))
    package = site / "mlx_pooling"
    for source in (PROJECT / "python" / "mlx_pooling").glob("*.py*"):
        (package / source.name).write_bytes(source.read_bytes())
    return site


def declared(extension: str) -> ctypes.CDLL:
    """The build, to be asked what tests/metal/host exports besides the package."""
    library = ctypes.CDLL(extension)
    texts = ("plan", "take_records", "ready_library")
    for name in (*texts, "cuda_source", "use_cuda", "cuda_device"):
        getattr(library, name).restype = ctypes.c_char_p
    library.cuda_copy_bandwidth.restype = ctypes.c_double
    return library


@cache
def library() -> ctypes.CDLL:
    import mlx_pooling

    library = declared(mlx_pooling._ext.__file__)
    if ON_CUDA:
        use_cuda(library)
    return library


def require_driver() -> None:
    """End the program where there is no GPU, before a build for nothing."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise SystemExit("[cuda] There is no libcuda.so.1.") from None


def use_cuda(library: ctypes.CDLL, repeats: int = 0) -> None:
    """Run shaders on an NVIDIA GPU, and time ``repeats`` times five of each launch."""
    if error := library.use_cuda(repeats).decode():
        raise RuntimeError(error)


def run_shaders(run: bool, order: str = "forward") -> None:
    """Switch between the shaders, their threads in the given order, and the kernels."""
    library().run_shaders(run, ORDERS.index(order))


def plan_as_released(released: bool = True) -> None:
    """Take the plans of a Mac, or those that give small arrays what large ones get."""
    library().plan_as_released(released)


def take_records() -> list[dict]:
    """Return what the launches since the last call did."""
    mx.synchronize()
    return json.loads(library().take_records())


def is_backward(record: dict) -> bool:
    return re.match("max_pool_scatter|max_scatter|avg_(pool_)?grad", record["kernel"])


def result_of(record: dict) -> dict:
    """The traffic of the result; offsets come after it."""
    return next(buffer for buffer in record["buffers"] if buffer["stores"])


def loads_of(record: dict) -> int:
    return sum(buffer["loads"] for buffer in record["buffers"])


def bytes_of_results(records: list[dict]) -> int:
    """Those of an operation; what its passes leave to each other is none."""
    results = map(result_of, records)
    return sum(result["bytes"] for result in results if not result["temporary"])


def loads_per_vector(records: list[dict]) -> float:
    """Vectors loaded to one vector of an operation's result, of whatever width.

    Those of earlier passes count for what they leave, which may be more or less.
    """
    stored = bytes_of_results(records)
    return sum(
        loads_of(record)
        / result_of(record)["stores"]
        * (result_of(record)["bytes"] / stored)
        for record in records
    )


def loads_per_16_bytes(records: list[dict]) -> float:
    """Loads to 16 bytes of an operation's result: narrow vectors take more."""
    return 16 * sum(map(loads_of, records)) / bytes_of_results(records)


def environment(site: Path, cache: Path) -> dict[str, str]:
    """The environment of a process that imports the build in ``site``."""
    return {
        **os.environ,
        "PYTHONPATH": str(site),
        "MLX_POOLING_SHADER_CACHE": str(cache),
        "MLX_POOLING_TEST_SHADERS": "1",
    }


def sanitizers() -> dict[str, str]:
    """The environment in which shaders are compiled with, and find, sanitizers."""
    libraries = []
    for name in ("libasan.so", "libstdc++.so"):
        command = [os.environ.get("CXX", "c++"), f"-print-file-name={name}"]
        libraries.append(subprocess.check_output(command, text=True).strip())
    return {
        # Compiling takes longer than running.
        "MLX_POOLING_SHADER_FLAGS": (
            "-O0 -fsanitize=address,undefined -fno-sanitize-recover=all"
        ),
        "LD_PRELOAD": " ".join(libraries),
        # Python leaves memory to the system when it ends.
        "ASAN_OPTIONS": "detect_leaks=0",
    }
