"""Launches as CUDA C++, which on_cuda.py runs where there is a GPU; clang parses it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the tests' clang is installed on Linux only", allow_module_level=True)

from metal.plans import Shape, make_plan
from metal.shader_host import require_driver
from reference import Geometry
from support import geometry

CUDA = Path(__file__).parent / "cuda"

# What is CUDA's own, of which NVRTC knows without being told.
BUILT_IN = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __grid_constant__ __attribute__((grid_constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
struct uint3 { unsigned x, y, z; };
extern const __device__ uint3 threadIdx, blockIdx;
__device__ int __float_as_int(float);
__device__ float __int_as_float(int);
__device__ float rint(float);
__device__ float sqrtf(float);
__device__ unsigned atomicMin(unsigned*, unsigned);
template <typename T> __device__ T __shfl_xor_sync(unsigned, T, int);
#pragma clang force_cuda_host_device begin
"""
CLANG = ("--cuda-device-only", "--cuda-gpu-arch=sm_90", "-nocudainc", "-nocudalib")

TILES = geometry((32, 32), 3, 1, 1)
LARGE = geometry((32, 32), 13, 1, 6)
WHOLE = geometry((16, 16), 16)
# An operation, its shape and a kernel that it takes.
CASES = {
    "tiles": ("max_pool", TILES, 8, "float32", "max_pool<"),
    "halves": ("max_pool", TILES, 8, "float16", "max_pool<half"),
    "runs": ("max_pool", TILES, 3, "bfloat16", "max_pool_flat<bfloat"),
    "passes": ("max_pool", LARGE, 8, "float32", "max_sweep<"),
    "lanes": ("max_pool", WHOLE, 4, "int64", "max_pool_lanes<long"),
    "scatter": ("max_pool_scatter", TILES, 8, "float16", "max_pool_scatter<half"),
    "scattered passes": ("max_pool_scatter", LARGE, 8, "float32", "max_scatter_sweep<"),
    "gather": ("max_pool_gather", TILES, 8, "float32", "max_pool_gather<"),
    "unpooling": ("max_unpool", TILES, 8, "float32", "unpool_clear<"),
    "averages": ("avg_pool", TILES, 8, "float32", "avg_pool<"),
    "quantized": ("avg_pool", TILES, 8, "uint8", "avg_pool<uchar, uchar"),
    "integers": ("avg_pool_of_integers", TILES, 8, "uint8", "avg_pool<uchar, float"),
    "lanes of averages": ("avg_pool", WHOLE, 4, "float16", "avg_pool_lanes<"),
    "passes of averages": ("avg_pool", LARGE, 8, "float32", "avg_sweep<"),
    "shares": ("avg_pool_grad", TILES, 8, "float32", "avg_pool_grad<"),
    "runs of shares": ("avg_pool_grad", TILES, 3, "float32", "avg_pool_grad_flat<"),
}


def errors(source: str, folder: Path) -> str:
    file = folder / "shaders.cu"
    file.write_text(BUILT_IN + source)
    command = [
        *(sys.executable, "-m", "ziglang", "c++", *CLANG, "-std=c++17", "-w"),
        *("-isystem", str(CUDA), "-fsyntax-only", str(file)),
    ]
    return subprocess.run(command, capture_output=True, text=True).stderr


def sources(
    library: ctypes.CDLL, op: str, g: Geometry, channels: int, dtype: str, kernel: str
) -> list[str]:
    launches = make_plan(library, op, Shape(g, 1, channels, dtype))
    assert launches[0]["kernel"].startswith(kernel)
    return [library.cuda_source(i).decode() for i in range(len(launches))]


@pytest.mark.parametrize("name", CASES)
def test_clang_takes_the_source(library: ctypes.CDLL, name: str, tmp_path: Path):
    for source in sources(library, *CASES[name]):
        assert errors(source, tmp_path) == ""


def test_a_fault_is_found(library: ctypes.CDLL, tmp_path: Path):
    (source,) = sources(library, *CASES["tiles"])
    assert "constexpr int kernel_w = 3;" in source
    assert "[[" not in source
    faulty = source.replace("Buffer{b1}, ", "")
    assert "no matching function for call to 'max_pool'" in errors(faulty, tmp_path)


NO_GPU = "[cuda] There is no libcuda.so.1."
without_gpu = pytest.mark.skipif(bool(find_library("cuda")), reason="there is a GPU")


@without_gpu
def test_it_is_said_that_there_is_no_gpu(library: ctypes.CDLL):
    assert library.use_cuda(0).decode() == NO_GPU


@without_gpu
def test_programs_end_before_they_build():
    with pytest.raises(SystemExit) as end:
        require_driver()
    assert end.value.code == NO_GPU
