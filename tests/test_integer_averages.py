"""Averages of integers and bools, which are float32, as of the same numbers as
float32."""

from __future__ import annotations

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
from hypothesis import given
from strategies import Case, Data, average_options, cases
from support import (
    INPUTS,
    INTEGERS,
    NDIMS,
    adaptive_op,
    assert_identical,
    avg_op,
    avg_pool,
    exact,
    geometry,
    graph_nodes,
    jvp,
    short_name,
    sum_pool,
    unevaluated,
    vjp,
)

EACH_DTYPE = pytest.mark.parametrize("dtype", [mx.bool_, *INTEGERS], ids=short_name)
LARGE = (11, 40, 41, 70)  # worth several threads, and converted in two pieces


def values(shape: tuple[int, ...], dtype: mx.Dtype, seed: int = 0) -> mx.array:
    return Data("ties", seed).array(shape, dtype)


@EACH_DTYPE
@given(case=cases(("ties",)), options=average_options())
def test_of_any_geometry(dtype: mx.Dtype, case: Case, options: dict):
    x = case.input(dtype)
    y = avg_pool(x, case.geometry, **options)
    assert_identical(y, avg_pool(x.astype(mx.float32), case.geometry, **options))


@EACH_DTYPE
@pytest.mark.parametrize("size", [2, 7, (40, 41)])
def test_of_large_arrays(size, dtype: mx.Dtype):
    x = values(LARGE, dtype)
    for input in (x, unevaluated(x)):
        y = avg_op(2)(input, size)
        assert_identical(y, avg_op(2)(x.astype(mx.float32), size))


@EACH_DTYPE
def test_nothing_but_padding(dtype: mx.Dtype):
    y = avg_op(2)(mx.zeros((2, 0, 0, 3), dtype), 2, 2, 1)
    assert_identical(y, mx.zeros((2, 1, 1, 3)))


@EACH_DTYPE
@NDIMS
def test_adaptive(ndim: int, dtype: mx.Dtype):
    x = values(INPUTS[ndim], dtype)
    for size in (1, 3, 5):
        y = adaptive_op("avg", ndim)(x, size)
        assert_identical(y, adaptive_op("avg", ndim)(x.astype(mx.float32), size))


@EACH_DTYPE
def test_channels_first_views(dtype: mx.Dtype):
    x = values((2, 3, 30, 31), dtype)
    y = avg_op(2)(mx.moveaxis(x, 1, -1), 3, 2, 1)
    assert_identical(y, avg_op(2)(mx.moveaxis(x.astype(mx.float32), 1, -1), 3, 2, 1))


def test_extremes_of_large_integers():
    """Each is rounded to float32 before it is added."""
    for dtype in INTEGERS:
        limits = mx.iinfo(dtype)
        ends = np.array([limits.min, limits.max], np.dtype(short_name(dtype)))
        low, high = (mx.array(end.reshape(1, 1)) for end in ends)
        y = avg_op(1)(mx.concatenate([low, low, high, high]), 2)
        np.testing.assert_array_equal(
            exact(y).flatten(), np.float32([limits.min, limits.max])
        )


def test_sums_of_bytes_beyond_32_bits():
    taps = 2**31 // 255 + 2
    for dtype in (mx.uint8, mx.int8):
        highest = mx.iinfo(dtype).max
        y = avg_op(1)(mx.full((1, taps, 1), highest, dtype), taps)
        np.testing.assert_allclose(exact(y), highest, rtol=1e-5)


@EACH_DTYPE
def test_derivatives_are_those_of_a_conversion(dtype: mx.Dtype):
    g = geometry((7, 9), 3, 2, 1)
    x, t = (values((2, *g.size, 3), dtype, seed) for seed in (0, 1))
    dy = 9 * values((2, *g.output, 3), mx.float32, 2)

    def converted(x: mx.array) -> mx.array:
        return avg_pool(x.astype(mx.float32), g)

    def direct(x: mx.array) -> mx.array:
        return avg_pool(x, g)

    assert_identical(vjp(direct, x, dy), vjp(converted, x, dy))
    for tangent in (t, t.astype(mx.float16)):
        assert_identical(jvp(direct, x, tangent), jvp(converted, x, tangent))


@EACH_DTYPE
def test_under_vmap_and_compile(dtype: mx.Dtype):
    x = values((2, 3, 7, 8, 2), dtype)
    expected = avg_op(2)(x.reshape(6, 7, 8, 2), 3, 2).reshape(2, 3, 3, 3, 2)
    for pool in (
        mx.vmap(lambda x: avg_op(2)(x, 3, 2)),
        mx.compile(mx.vmap(lambda x: avg_op(2)(x, 3, 2))),
        mx.vmap(mx.vmap(lambda x: avg_op(2)(x, 3, 2))),
    ):
        assert_identical(pool(x), expected)
    shapeless = mx.compile(lambda x: avg_op(2)(x, 3, 2), shapeless=True)
    for batch in (x[0], x[:, 0], x[0, :1]):
        assert_identical(shapeless(batch), avg_op(2)(batch, 3, 2))


def test_sums_are_not_merged_with_averages_by_compile():
    g = geometry((6, 6), 2)
    x = values((1, *g.size, 3), mx.int32)

    def both(x: mx.array) -> tuple[mx.array, mx.array]:
        return sum_pool(x, g), avg_pool(x, g, divisor_override=1)

    for sums, averages in (both(x), mx.compile(both)(x)):
        assert (sums.dtype, averages.dtype) == (mx.int32, mx.float32)
        np.testing.assert_array_equal(exact(sums), exact(averages))


@EACH_DTYPE
def test_nothing_is_converted_first(dtype: mx.Dtype):
    x = values((1, 4, 4, 3), dtype)
    mx.eval(x)
    nodes = [name for name, _ in graph_nodes(avg_op(2)(unevaluated(x), 2))]
    assert "AvgPool" in nodes and "AsType" not in nodes


@EACH_DTYPE
def test_composed(dtype: mx.Dtype):
    x = values((2, 7, 8, 3), dtype)
    with mlx_pooling.composed():
        y = avg_op(2)(x, 3, 2, 1)
    assert_identical(y, avg_op(2)(x, 3, 2, 1))
