"""Windows with few outputs, whose taps the lanes of a simdgroup share."""

from __future__ import annotations

import math

import mlx.core as mx
import mlx_pooling as mp
import numpy as np
import pytest
from agreement import (
    KINDS,
    agreed,
    assert_agree,
    error_of_fault,
    extremes,
    maxima,
    on_shaders,
    records_of,
    tolerance,
)
from strategies import Data
from support import FLOATS, ORDERED, avg_pool, exact, geometry, max_pool, sum_pool

from metal import shader_host

SOME_DTYPES = (mx.bool_, mx.int8, mx.uint16, mx.uint32, mx.int64, mx.uint64, *FLOATS)

GEOMETRIES = {
    "global, 1d": geometry((50,), 50),
    "global, 2d": geometry((7, 9), (7, 9)),
    "global, 3d": geometry((4, 5, 6), (4, 5, 6)),
    "global, in slices": geometry((19, 20), (19, 20)),
    "global, 3d, in slices": geometry((7, 6, 8), (7, 6, 8)),
    "3d": geometry((5, 7, 8), (3, 5, 4), 3, 1),
    "apart": geometry((16, 17), 8, 9),
    "clipped": geometry((9, 8), 7, 5, ((3, 2), (3, 3))),
    "overhang, in slices": geometry((18, 30), (17, 19), (9, 18), 0, ceil_mode=True),
    "dilated": geometry((14, 13), (5, 4), 3, (0, 2), (3, 2)),
    "only padding": geometry((4, 5), 4, 2, 9),
    "1d, one tap inside": geometry((20,), 17, 3, 16),
}


# Arrays as small as these have few outputs, for a GPU.
pytestmark = pytest.mark.usefixtures("released")


def arguments(kernel: str) -> tuple[int, int]:
    """Vector width and lanes."""
    assert "_lanes<" in kernel
    return tuple(map(int, kernel.removesuffix(">").split(", ")[-2:]))


def forward_kernels(kernels: list[str]) -> list[str]:
    found = [kernel for kernel in kernels if "_lanes<" in kernel]
    assert found
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_maxima(name: str, kind: str):
    g = GEOMETRIES[name]
    for channels in (1, 3, 8, 12, 36):
        x = Data(kind, channels).array((2, *g.size, channels), mx.float32)
        kernels = forward_kernels(assert_agree(maxima(x, g)))
        assert ("in slices" in name) == (len(kernels) > 4)


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
@pytest.mark.parametrize("name", ["global, 2d", "global, in slices"])
def test_maxima_of_every_type(name: str, dtype: mx.Dtype):
    g = GEOMETRIES[name]
    for kind in KINDS:
        x = Data(kind, 5).array((1, *g.size, 8), dtype)
        forward_kernels(assert_agree(maxima(x, g)))


@pytest.mark.parametrize("dtype", SOME_DTYPES, ids=str)
def test_minima(dtype: mx.Dtype):
    for size, kind in (((7, 8), "extremes"), ((18, 19), "nan")):
        x = Data(kind, 1).array((1, *size, 3), dtype)
        forward_kernels(assert_agree(extremes(mp.min_pool2d, x, size)))


@pytest.mark.parametrize("outputs", [(1, 1), (2, 1), (3, 4), (5, 7)])
@pytest.mark.parametrize("channels", [1, 4, 6])
def test_adaptive(outputs: tuple[int, int], channels: int):
    x = Data("nan", channels).array((1, 33, 40, channels), mx.float32)
    forward_kernels(assert_agree(extremes(mp.adaptive_max_pool2d, x, outputs)))
    x = Data("ties", channels).array((1, 33, 40, channels), mx.float16)
    ((y, expected),), kernels = agreed(lambda: [mp.adaptive_avg_pool2d(x, outputs)])
    forward_kernels(kernels)
    np.testing.assert_allclose(exact(y), exact(expected), rtol=2e-3)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_every_place_of_the_winner(axes: int):
    """The first of equal ones, and the last NaN, whichever lanes they are of."""
    size = {1: (300,), 2: (5, 7), 3: (3, 3, 4)}[axes]
    pool = getattr(mp, f"adaptive_max_pool{axes}d")
    count = math.prod(size)
    values = np.zeros((count, count), np.float32)
    for i in range(count):
        if i % 5 == 4:
            values[i, : i + 1] = np.nan
        else:
            values[i, i:] = 1
    x = mx.array(values).reshape(count, *size, 1)
    for start in range(0, count, 60):
        part = x[start : start + 60]
        run = lambda part=part: [pool(part, 1, return_indices=True)[1]]  # noqa: E731
        ((indices, _),), kernels = agreed(run)
        forward_kernels(kernels)
        expected = np.arange(start, start + len(part))
        np.testing.assert_array_equal(np.array(indices).reshape(-1), expected)


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64], ids=str)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_averages(name: str, dtype: mx.Dtype):
    """Of small integers, whose sums are exact: only quotients are rounded."""
    g = GEOMETRIES[name]
    limit = tolerance(dtype, 1e-6)
    for channels, options in (
        (1, {}),
        (3, {"count_include_pad": False}),
        (8, {"divisor_override": -3}),
        (12, {"count_include_pad": False}),
    ):
        x = Data("ties", channels).array((2, *g.size, channels), dtype)
        run = lambda x=x, options=options: [avg_pool(x, g, **options)]  # noqa: E731
        ((y, expected),), kernels = agreed(run)
        forward_kernels(kernels)
        np.testing.assert_allclose(exact(y), exact(expected), rtol=limit)


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64], ids=str)
@pytest.mark.parametrize("name", ["apart", "global, in slices"])
def test_sums(name: str, dtype: mx.Dtype):
    g = GEOMETRIES[name]
    x = Data("ties", 1).array((1, *g.size, 3), dtype) * (2 ** (8 * dtype.size - 16) + 1)
    forward_kernels(assert_agree(lambda: [sum_pool(x, g)]))


def test_a_sum_of_one_window_keeps_infinities():
    x = mx.zeros((1, 8, 16, 1))
    x[0, 3, 3] = math.inf
    x[0, 3, 12] = math.nan
    (y,), kernels = on_shaders(lambda: [mp.avg_pool2d(x, 8)], "forward")
    forward_kernels(kernels)
    assert y[0, 0, 0, 0] == math.inf and mx.isnan(y[0, 0, 1, 0])


# Shape, output, and the vector width, lanes and slices that share a window.
FEW_OUTPUTS = {
    "1x8x8x64": ((1, 8, 8, 64), 1, 4, 16, 1),
    "1x7x7x512": ((1, 7, 7, 512), 1, 4, 8, 1),
    "1x7x7x2048": ((1, 7, 7, 2048), 1, 4, 4, 1),
    "8x7x7x2048": ((8, 7, 7, 2048), 1, 4, 1, 1),
    "1x56x56x64": ((1, 56, 56, 64), 1, 4, 8, 16),
    "1x64x64x8": ((1, 64, 64, 8), 2, 4, 16, 16),
    "1x224x224x1": ((1, 224, 224, 1), 1, 1, 32, 64),
    "1x112x112x16 to 7": ((1, 112, 112, 16), 7, 4, 8, 2),
    "32x8x8x256": ((32, 8, 8, 256), 1, 4, 2, 1),
    "8x32x32x64": ((8, 32, 32, 64), 1, 4, 8, 4),
}


@pytest.mark.parametrize("name", FEW_OUTPUTS)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_threads(kind: str, name: str):
    """A few thousand, or one for every eight loads."""
    shape, output, width, lanes, slices = FEW_OUTPUTS[name]
    shader_host.run_shaders(True)
    pool = getattr(mp, f"adaptive_{kind}_pool2d")
    first, *rest = records_of([pool(mx.ones(shape), output)])
    if lanes == 1:
        assert "_lanes<" not in first["kernel"] and not rest
        return
    assert arguments(first["kernel"]) == (width, lanes)
    assert len(rest) == (slices > 1)
    threads = math.prod(first["grid"])
    outputs = shape[0] * output**2 * shape[-1]
    assert threads == outputs // width * lanes * slices
    vectors = math.prod(shape) // width
    assert threads >= min(2048, vectors / 8)
    # Each vector of the input is loaded once.
    assert first["buffers"][0]["loads"] == vectors


def test_simdgroups_are_whole():
    """8 lanes share the taps of each 4 channels."""
    shader_host.run_shaders(True)
    (record,) = records_of([mp.adaptive_max_pool2d(mx.ones((1, 7, 7, 512)), 1)])
    assert record["grid"] == [512 // 4 * 8, 1, 1]
    assert record["threadgroup"][0] % 32 == 0


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("name", ["global, 1d", "global, 2d", "3d", "clipped"])
def test_elements_beyond_the_first_2_to_the_32(name: str):
    g = GEOMETRIES[name]
    x = Data("ties", 0).array((2, *g.size, 8), mx.float32)
    for pool in (max_pool, avg_pool):
        kernels = assert_agree(lambda pool=pool: [pool(x, g)])
        assert all("_lanes<" in k and "int" in k for k in kernels)


FAULTS = {
    "inactive": (
        "for (int mask = kLanes / L; => for (int mask = kLanes / L; own.number == 0 &&",
        "shuffle with an inactive lane",
    ),
    "different": (
        "shuffled(total[i], ushort(mask)) => "
        "shuffled(total[i], ushort(lane < 16 ? mask : 1))",
        "lanes in different shuffles",
    ),
    "unknown lane": (
        "uint lane [[thread_index_in_simdgroup]] => uint lane = 0",
        "shuffle of a thread that does not know its lane",
    ),
    "written by all": (
        "return own.number == 0 && !own.is_idle => return !own.is_idle",
        "element written twice",
    ),
    "past the end": (
        "own.is_idle = own.at.channel >= Index(p.y.step[2]) => own.is_idle = false",
        "read outside every buffer",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_reported(name: str, monkeypatch: pytest.MonkeyPatch):
    fault, message = FAULTS[name]
    run = lambda: [mp.adaptive_avg_pool2d(mx.ones((1, 4, 4, 12)), 1)]  # noqa: E731
    assert error_of_fault(fault, run, monkeypatch) == message
