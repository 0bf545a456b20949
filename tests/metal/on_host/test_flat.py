"""Few channels: a thread moves runs of whole rows' elements (w, c), as vectors."""

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
    exact_averages,
    maxima,
    on_shaders,
    records_of,
    tolerance,
)
from strategies import Data
from support import FLOATS, ORDERED, exact, geometry, max_pool, vjp

from metal import shader_host

GEOMETRIES = {
    "2/2": geometry((6, 8), 2),
    "3/1": geometry((7, 16), 3, 1, 1),
    "3/2": geometry((9, 18), 3, 2, ((1, 0), (0, 1))),
    "2/3, overhang": geometry((8, 11), (2, 2), (3, 3), 1, ceil_mode=True),
    "dilated": geometry((8, 13), 2, 1, 2, (3, 2)),
    "only padding": geometry((2, 5), 2, 1, 5),
    "1d": geometry((23,), 4, 4),
    "3d": geometry((4, 5, 7), (2, 3, 3), (1, 2, 1), 1),
}


def is_flat(kernels: list[str], name: str) -> bool:
    return any(kernel.startswith(f"{name}_flat<") for kernel in kernels)


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_maxima(name: str, channels: int):
    g = GEOMETRIES[name]
    for kind in KINDS:
        x = Data(kind, channels).array((2, *g.size, channels), mx.float32)
        kernels = assert_agree(maxima(x, g))
        assert is_flat(kernels, "max_pool")
        assert is_flat(kernels, "max_pool_scatter")


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
def test_maxima_of_every_type(dtype: mx.Dtype):
    g = GEOMETRIES["3/2"]
    for kind in KINDS:
        x = Data(kind, 1).array((2, *g.size, 3), dtype)
        # Packed vectors have four elements; 16 bytes have two of these.
        assert is_flat(assert_agree(maxima(x, g)), "max_pool") == (dtype.size < 8)


@pytest.mark.parametrize("channels", [2, 6, 12, 20])
@pytest.mark.parametrize("dtype", [mx.uint8, mx.float16], ids=str)
def test_vectors_of_more_than_four_elements(dtype: mx.Dtype, channels: int):
    """Which begin where even, or multiples of four, elements do."""
    for g in (GEOMETRIES["2/2"], GEOMETRIES["3/1"]):
        x = Data("ties", channels).array((2, *g.size, channels), dtype)
        assert_agree(maxima(x, g))


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64], ids=str)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_averages(name: str, dtype: mx.Dtype):
    limit = tolerance(dtype)
    for channels, options in (
        (1, {"count_include_pad": False}),
        (3, {}),
        (5, {"divisor_override": -3}),
    ):
        run = exact_averages(GEOMETRIES[name], channels, dtype, options)
        outputs, kernels = agreed(run)
        assert is_flat(kernels, "avg_pool") and is_flat(kernels, "avg_pool_grad")
        for actual, expected in outputs:
            np.testing.assert_allclose(
                exact(actual), exact(expected), rtol=limit, atol=limit
            )


@pytest.mark.parametrize("start", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.uint8], ids=str)
def test_views_that_start_anywhere(dtype: mx.Dtype, start: int):
    """Vectors of four do too; wider ones where a quarter of them does."""
    g = GEOMETRIES["2/2"]
    shape = (2, *g.size, 4 if dtype == mx.uint8 else 2)
    data = Data("ties", start).array((math.prod(shape) + start,), dtype)
    x = data[start:].reshape(shape)
    (kernel,) = assert_agree(lambda: [max_pool(x, g)])
    width = min(16 // dtype.size, 4 * (start & -start))
    assert f", int, {width}, {shape[-1]}, " in kernel


def test_a_vector_begins_at_a_quarter_of_its_size(monkeypatch: pytest.MonkeyPatch):
    """Of four floats at any of them; of eight halves at any two."""
    for dtype, error in (
        (mx.float32, "access past the end of a buffer"),
        (mx.float16, "misaligned access of 16 bytes"),
    ):
        x = mx.ones((1, 4, 8, 1 if dtype == mx.float32 else 2), dtype)
        fault = "from + run_at(p, tile => from + 1 + run_at(p, tile"
        run = lambda x=x: [mp.max_pool2d(x, 2)]  # noqa: E731
        assert error_of_fault(fault, run, monkeypatch) == error


# Loads to 16 bytes of the result, of MNIST, RGB images, LeNet-5 and LeNet: as of
# whole vectors of channels, where every input is loaded once.
LAYERS = {
    "MNIST": ("max", (1, 28, 28, 1), mx.float32, 4, 2),
    "RGB pyramid": ("avg", (1, 256, 256, 3), mx.float32, 4, 0.5),
    "LeNet-5": ("avg", (64, 28, 28, 6), mx.float32, 4, 0.5),
    "LeNet": ("max", (64, 24, 24, 20), mx.float16, 4, 1.25),
}


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("name", LAYERS)
def test_loads(name: str):
    kind, shape, dtype, forward, backward = LAYERS[name]
    shader_host.run_shaders(True)
    pool = getattr(mp, f"{kind}_pool2d")
    x = mx.ones(shape, dtype)
    ahead = records_of([pool(x, 2)])
    dy = mx.ones((shape[0], shape[1] // 2, shape[2] // 2, shape[3]), dtype)
    records = records_of([vjp(lambda x: pool(x, 2), x, dy)])
    back = list(filter(shader_host.is_backward, records))
    assert shader_host.loads_per_16_bytes(ahead) <= forward
    assert shader_host.loads_per_16_bytes(back) <= backward
    assert len(ahead) == len(back) == 1


@pytest.mark.parametrize(
    ("channels", "stride", "most"), [(1, 1, 4), (1, 2, 7), (3, 1, 4), (3, 2, 7)]
)
def test_loads_of_overlapping_windows(channels: int, stride: int, most: float):
    shader_host.run_shaders(True)
    x = mx.ones((1, 64, 64, channels))
    records = records_of([mp.max_pool2d(x, 3, stride, 1)])
    assert shader_host.loads_per_16_bytes(records) <= most


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    ("size", "channels", "stride", "most"),
    [
        *((192, 1, 1, 4), (364, 1, 2, 7), (256, 2, 2, 7), (224, 3, 2, 7)),
        (192, 6, 2, 7),
    ],
)
def test_loads_where_tiles_leave_2048_threads(
    size: int, channels: int, stride: int, most: float
):
    shader_host.run_shaders(True)
    x = mx.ones((1, size, size, channels))
    (record,) = records_of([mp.max_pool2d(x, 3, stride, 1)])
    assert shader_host.loads_per_16_bytes([record]) <= most
    assert 2048 <= math.prod(record["grid"]) < 8192


def test_rows_of_any_length():
    """The last vectors of a row may be whole, or have any number of elements."""
    for width in range(8, 17):
        g = geometry((3, width), 2, 1)
        x = Data("ties", width).array((2, *g.size, 1), mx.float32)
        assert_agree(maxima(x, g))


def test_an_adaptive_row_takes_vectors_of_channels():
    x = Data("ties", 0).array((2, 5, 9, 3), mx.float32)
    _, kernels = on_shaders(lambda: [mp.adaptive_max_pool2d(x, (3, 4))], "forward")
    assert not is_flat(kernels, "max_pool")
