"""Agreement of CPU kernels and shaders on minima, adaptive windows and unpooling."""

from __future__ import annotations

import math

import mlx.core as mx
import mlx_pooling as mp
import numpy as np
import pytest
from agreement import KINDS, agreed, assert_agree, extremes, tolerance
from strategies import Data
from support import EVERY_DTYPE, FLOATS, ORDERED, exact, jvp, vjp

# Of every size, signed and not; each takes pipelines of its own.
SOME_DTYPES = (mx.bool_, mx.int8, mx.uint16, mx.int32, mx.uint64, *FLOATS)
AXES = {1: (9,), 2: (5, 9), 3: (3, 5, 9)}
# Of 9, 5 and 3 inputs: fewer and more, some that divide.
OUTPUTS = {1: [(4,), (13,), (3,)], 2: [(3, 7), (2, 3), (8, 5)], 3: [(2, 1, 4), 2]}


def function(name: str, axes: int):
    return getattr(mp, f"{name}{axes}d")


def every_output(axes: int) -> list[tuple[int, ...]]:
    return [o if isinstance(o, tuple) else (o,) * axes for o in OUTPUTS[axes]]


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("dtype", SOME_DTYPES, ids=str)
@pytest.mark.parametrize("axes", AXES)
def test_adaptive_maxima(axes: int, dtype: mx.Dtype, channels: int):
    for i, output in enumerate(every_output(axes)):
        x = Data(KINDS[i], i).array((2, *AXES[axes], channels), dtype)
        assert_agree(
            extremes(function("adaptive_max_pool", axes), x, output_size=output)
        )


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("dtype", ORDERED, ids=str)
@pytest.mark.parametrize("axes", AXES)
def test_minima(axes: int, dtype: mx.Dtype, channels: int):
    windows = [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        # Some without a tap in the input.
        {"kernel_size": 2, "stride": 1, "padding": 4},
    ]
    for i, options in enumerate(windows):
        for kind in KINDS:
            x = Data(kind, i).array((2, *AXES[axes], channels), dtype)
            assert_agree(extremes(function("min_pool", axes), x, **options))


@pytest.mark.parametrize("channels", [1, 4, 6])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axes", AXES)
def test_adaptive_averages(axes: int, dtype: mx.Dtype, channels: int):
    pool = function("adaptive_avg_pool", axes)
    for i, output in enumerate(every_output(axes)):
        x = Data("ties", i).array((2, *AXES[axes], channels), dtype)
        dy = Data("ties", i + 1).array((2, *output, channels), dtype)

        def run(x=x, dy=dy, output=output) -> list[mx.array]:
            values = lambda x: pool(x, output)  # noqa: E731
            return [values(x), vjp(values, x, dy)]

        # Small integers: only the shares of gradients are rounded.
        for actual, expected in agreed(run)[0]:
            np.testing.assert_allclose(
                exact(actual), exact(expected), rtol=tolerance(dtype), atol=1e-6
            )


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
@pytest.mark.parametrize("axes", AXES)
def test_unpooling(axes: int, dtype: mx.Dtype):
    """Of indices anywhere, repeated and outside the plane of 2 * 9 positions."""
    x = Data("ties", 0).array((2, *AXES[axes], 3), dtype)
    plane = tuple(2 * size for size in AXES[axes])
    indices = mx.random.randint(-3, 2 * 9, x.shape, key=mx.random.key(axes))
    indices = mx.where(indices > 15, indices + 10**6, indices)
    indices = mx.where(indices == 15, math.prod(plane), indices)
    dy = Data("ties", 3).array((2, *plane, 3), dtype)

    def unpool(x: mx.array) -> mx.array:
        return function("max_unpool", axes)(x, indices, 2)

    assert_agree(lambda: [unpool(x), jvp(unpool, x, x), vjp(unpool, x, dy)])
