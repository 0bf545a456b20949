"""Adaptive and global pooling: window o is [floor(o I/O), ceil((o+1) I/O))."""

from __future__ import annotations

import math
from functools import partial

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
import reference
from checks import (
    assert_all_close,
    assert_all_identical,
    averaging,
    check_averages,
    check_compile,
    check_composed,
    check_derivatives,
    check_higher_orders,
    check_mixed_modes,
    check_vmap,
    check_winners,
    selection_of_maxima,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Adaptive
from strategies import ANY, FINITE, Case, Data, adaptive_cases
from support import (
    EVERY_DTYPE,
    FLOATS,
    INPUTS,
    NDIMS,
    ORDERED,
    adaptive_avg_pool,
    adaptive_max_pool,
    adaptive_op,
    assert_identical,
    assert_same,
    avg_op,
    every_half,
    exact,
    fixed,
    jvp,
    layer,
    max_op,
    our_primitives,
    power_sum,
    short_name,
    vjp,
)

KINDS = pytest.mark.parametrize("kind", ["avg", "max"])
ORDINARY = {"avg": avg_op, "max": max_op}
ADAPTIVE = {"avg": adaptive_avg_pool, "max": adaptive_max_pool}

# Of each dimension: sizes that do not divide, that do, and more outputs than inputs.
SHAPES = {
    1: (Adaptive((11,), (4,)), Adaptive((12,), (4,)), Adaptive((3,), (7,))),
    2: (Adaptive((9, 7), (4, 3)), Adaptive((8, 7), (4, 7)), Adaptive((5, 2), (2, 5))),
    3: (
        Adaptive((5, 7, 4), (2, 3, 3)),
        Adaptive((4, 6, 2), (2, 2, 1)),
        Adaptive((2, 5, 3), (3, 1, 5)),
    ),
}
EVERY_SHAPE = [g for shapes in SHAPES.values() for g in shapes]
OF_EVERY_SHAPE = pytest.mark.parametrize(
    "g", EVERY_SHAPE, ids=lambda g: f"{g.size}-{g.output}".replace(" ", "")
)


def derivative(kind: str, x: mx.array, g: Adaptive):
    if kind == "avg":
        return averaging(g)
    return selection_of_maxima(x, g)


def check_max(x: mx.array, g: Adaptive) -> None:
    check_winners(adaptive_max_pool, x, g, reference.max_pool(exact(x), g))


def check_avg(x: mx.array, g: Adaptive) -> None:
    check_averages(adaptive_avg_pool, x, g)


CHECKS = {"avg": check_avg, "max": check_max}


@pytest.mark.parametrize("dtype", ORDERED, ids=short_name)
@given(case=adaptive_cases())
@settings(max_examples=25)
def test_maxima_and_indices_of_every_dtype(dtype: mx.Dtype, case: Case):
    check_max(case.input(dtype), case.geometry)


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=short_name)
@given(case=adaptive_cases())
@settings(max_examples=25)
def test_averages_of_every_dtype(dtype: mx.Dtype, case: Case):
    check_avg(case.input(dtype), case.geometry)


@given(case=adaptive_cases())
@settings(max_examples=25)
def test_float64_on_cpu(case: Case):
    with mx.stream(mx.cpu):
        x = case.input(mx.float64)
        for kind, check in CHECKS.items():
            check(x, case.geometry)
            pooled = fixed(ADAPTIVE[kind], case.geometry)
            check_derivatives(pooled, x, derivative(kind, x, case.geometry))


@pytest.mark.parametrize("data_kind", ANY)
@OF_EVERY_SHAPE
def test_each_kind_of_data(g: Adaptive, data_kind: str):
    for dtype in FLOATS:
        x = Data(data_kind, 1).array((2, *g.size, 5), dtype)
        check_max(x, g)
        check_avg(x, g)


@pytest.mark.parametrize("channels", [*range(1, 20), 31, 64, 65, 130])
def test_every_small_number_of_channels(channels: int):
    for g in EVERY_SHAPE[::3]:
        for dtype in (mx.float32, mx.bfloat16, mx.int8):
            x = Data("nan", channels).array((2, *g.size, channels), dtype)
            check_max(x, g)
            check_avg(x, g)
        x = Data("ties", channels).array((2, *g.size, channels), mx.float32)
        for kind, pool in ADAPTIVE.items():
            check_derivatives(fixed(pool, g), x, derivative(kind, x, g))


@pytest.mark.parametrize("size", range(1, 14))
def test_every_small_size(size: int):
    x = Data("ties", size).array((2, size, 3), mx.float32)
    for count in range(1, 18):
        g = Adaptive((size,), (count,))
        check_max(x, g)
        check_avg(x, g)
        for kind, pool in ADAPTIVE.items():
            check_derivatives(fixed(pool, g), x, derivative(kind, x, g))


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
@KINDS
@given(case=adaptive_cases())
@settings(max_examples=25)
def test_derivatives(kind: str, dtype: mx.Dtype, case: Case):
    g, x = case.geometry, case.input(dtype)
    linear = derivative(kind, x, g)
    check_derivatives(fixed(ADAPTIVE[kind], g), x, linear, case.data.seed)


@given(case=adaptive_cases(FINITE))
@settings(max_examples=25)
def test_derivatives_of_complex_averages(case: Case):
    x = case.input(mx.complex64)
    check_derivatives(
        fixed(adaptive_avg_pool, case.geometry), x, averaging(case.geometry)
    )


@KINDS
@given(case=adaptive_cases(FINITE, max_batch=1))
@settings(max_examples=25)
def test_higher_orders_and_mixed_modes(kind: str, case: Case):
    g, x = case.geometry, case.input()
    pooled, linear = fixed(ADAPTIVE[kind], g), derivative(kind, x, g)
    check_higher_orders(pooled, x, linear)
    check_mixed_modes(pooled, x, linear)


@given(case=adaptive_cases(FINITE))
@settings(max_examples=25)
def test_averages_are_between_the_extremes(case: Case):
    """Properties that need no reference."""
    x, g = case.input(), case.geometry
    average = adaptive_avg_pool(x, g)
    assert mx.all(average <= adaptive_max_pool(x, g) + 1e-5).item()
    assert mx.all(average >= -adaptive_max_pool(-x, g) - 1e-5).item()
    ones = mx.ones_like(x)
    np.testing.assert_allclose(exact(adaptive_avg_pool(ones, g)), 1, rtol=1e-6)
    # Each window hands out its cotangent, and no more.
    dx = vjp(fixed(adaptive_avg_pool, g), x, mx.ones_like(average))
    np.testing.assert_allclose(exact(dx).sum(), average.size, rtol=1e-5)


@KINDS
@given(
    case=adaptive_cases(),
    kernels=st.tuples(*[st.integers(1, 3)] * 3),
)
@settings(max_examples=40)
def test_sizes_that_divide_are_ordinary_pooling_bit_for_bit(kind, case, kernels):
    g = case.geometry
    kernel = kernels[: g.ndim]
    size = tuple(o * k for o, k in zip(g.output, kernel, strict=True))
    for dtype in FLOATS:
        x = case.data.array((2, *size, case.channels), dtype)
        adaptive = fixed(adaptive_op(kind, g.ndim), g.output)
        ordinary = fixed(ORDINARY[kind](g.ndim), kernel)
        assert_identical(adaptive(x), ordinary(x))
        dy = case.more((2, *g.output, case.channels), dtype)
        assert_identical(vjp(adaptive, x, dy), vjp(ordinary, x, dy))
    if kind == "max":
        assert_all_identical(
            adaptive_op(kind, g.ndim)(x, g.output, return_indices=True),
            max_op(g.ndim)(x, kernel, return_indices=True),
        )


@KINDS
def test_none_keeps_an_axis(kind: str):
    x = Data("nan", 3).array((2, 9, 8, 6, 3), mx.float32)
    pool = partial(adaptive_op(kind, 3), x)
    ordinary = partial(ORDINARY[kind](3), x)
    for mixed, explicit in (
        ((None, 3, 4), (9, 3, 4)),
        ((4, None, None), (4, 8, 6)),
        ((None, None, 13), (9, 8, 13)),
    ):
        assert_identical(pool(mixed), pool(explicit))
    assert_identical(pool((None, 4, None)), ordinary((1, 2, 1)))
    assert_identical(pool((3, None, 2)), ordinary((3, 1, 3)))
    assert_identical(pool((None, None, None)), x)
    assert_identical(pool([None, 4, 2]), ordinary((1, 2, 3)))


@NDIMS
def test_an_output_as_large_as_the_input_is_the_input(ndim: int):
    size = (5, 4, 3)[:ndim]
    positions = np.arange(math.prod(size)).reshape(1, *size, 1)
    for dtype in ORDERED:
        x = Data("extremes", 0).array((2, *size, 3), dtype)
        values, indices = adaptive_op("max", ndim)(x, size, return_indices=True)
        assert_identical(values, x)
        assert_same(indices, np.broadcast_to(positions, x.shape))
        if dtype in FLOATS:
            assert_identical(adaptive_op("avg", ndim)(x, size), x)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short_name)
@KINDS
def test_every_half_precision_value_passes_unchanged(
    kind: str, dtype: mx.Dtype, device: str
):
    x = every_half(dtype, device).reshape(2, -1, 64, 1)
    assert_identical(adaptive_op(kind, 2)(x, (None, 64)), x)
    doubled = mx.repeat(mx.repeat(x, 2, 1), 3, 2)
    assert_identical(adaptive_op(kind, 2)(x, (1024, 192)), doubled)


@KINDS
@NDIMS
def test_int_tuple_and_list_are_the_same(ndim: int, kind: str):
    x = Data("ties", 0).array((2, *(7, 9, 8)[:ndim], 3), mx.float32)
    pool = adaptive_op(kind, ndim)
    for count in (1, 2, 5, 11):
        expected = pool(x, count)
        assert expected.shape == (2, *(count,) * ndim, 3)
        for same in ((count,) * ndim, [count] * ndim, np.int64(count)):
            assert_identical(pool(x, same), expected)
        assert_identical(pool(x, output_size=count), expected)


def test_arguments():
    x = mx.ones((1, 4, 4, 1))
    values, indices = adaptive_op("max", 2)(x, 2, True)
    assert (values.shape, indices.dtype) == ((1, 2, 2, 1), mx.uint32)
    for kind in ("avg", "max"):
        pool = adaptive_op(kind, 2)
        assert_identical(pool(x, 2, stream=mx.cpu), pool(x, 2))
        with pytest.raises(TypeError):
            pool(x)
        with pytest.raises(TypeError):
            pool(x, 2, False, mx.cpu)


# One position, and every position, of each plane


@NDIMS
def test_outputs_repeat_an_input_of_one_position(ndim: int):
    x = Data("normal", 0).array((2, *(1,) * ndim, 3), mx.float32)
    repeated = mx.broadcast_to(x, (2, *(5,) * ndim, 3))
    assert_identical(adaptive_op("avg", ndim)(x, 5), repeated)
    values, indices = adaptive_op("max", ndim)(x, 5, return_indices=True)
    assert_identical(values, repeated)
    assert not exact(indices).any()
    for kind in ("avg", "max"):
        pooled = fixed(adaptive_op(kind, ndim), 5)
        dx = vjp(pooled, x, mx.ones_like(repeated))
        assert_same(dx, np.full(x.shape, 5.0**ndim))


LARGE_PLANES = [
    (1, 100_003),
    (2, 300, 301),
    (1, 41, 43, 47),
    (3, 224, 224),
    (1, 8, 9000),
]


@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize("shape", LARGE_PLANES, ids=str)
def test_large_planes(shape: tuple[int, ...], channels: int):
    size, ndim = shape[1:], len(shape) - 1
    g = Adaptive(size, (1,) * ndim)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((*shape, channels)).astype(np.float32)
    x = mx.array(values)
    check_max(x, g)
    sums = values.astype(np.float64).sum(axis=tuple(range(1, ndim + 1)), keepdims=True)
    count = math.prod(size)
    y = adaptive_avg_pool(x, g)
    np.testing.assert_allclose(exact(y), sums / count, rtol=0, atol=2e-6)
    # Linear; bounds on so many roundings would be wider than a mean.
    ty = jvp(fixed(adaptive_avg_pool, g), mx.zeros_like(x), x)
    np.testing.assert_allclose(exact(ty), sums / count, rtol=0, atol=2e-6)
    for kind, pool in ADAPTIVE.items():
        check_derivatives(fixed(pool, g), x, derivative(kind, x, g))


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("channels", [1, 20])
@pytest.mark.parametrize(
    ("size", "output"), [((6001,), (7,)), ((6001,), (301,)), ((3, 5000), (2, 3))]
)
def test_few_outputs_of_long_axes(
    size: tuple, output: tuple, channels: int, dtype: mx.Dtype
):
    g = Adaptive(size, output)
    x = Data("ties", channels).array((2, *size, channels), dtype)
    for kind, pool in ADAPTIVE.items():
        check_derivatives(fixed(pool, g), x, derivative(kind, x, g))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short_name)
def test_large_planes_of_half_precision_are_summed_in_float32(dtype: mx.Dtype):
    x = mx.ones((1, 200, 200, 3), dtype)
    assert_same(adaptive_op("avg", 2)(x, 1), np.ones((1, 1, 1, 3)))
    assert_same(adaptive_op("avg", 2)(x, 3), np.ones((1, 3, 3, 3)))
    dx = vjp(fixed(adaptive_op("max", 2), 300), mx.zeros((1, 1, 1, 1), dtype),
             mx.ones((1, 300, 300, 1), mx.float32).astype(dtype))  # fmt: skip
    largest = {mx.float16: np.inf, mx.bfloat16: 90112.0}
    assert exact(dx).item() == largest[dtype]


def test_integers_of_a_large_plane():
    x = mx.full((1, 300, 300, 2), 255, mx.uint8)
    check_avg(x, Adaptive((300, 300), (1, 1)))
    x[0, 299, 299, 1] = 0
    values, indices = adaptive_op("max", 2)(255 - x, 1, return_indices=True)
    np.testing.assert_array_equal(exact(values).ravel(), [0, 255])
    np.testing.assert_array_equal(exact(indices).ravel(), [0, 300 * 300 - 1])


@pytest.mark.parametrize("channels", [1, 3, 8, 17])
def test_one_nan_in_a_large_plane(channels: int):
    x = np.zeros((1, 90, 91, channels), np.float32)
    x[0, 3, 4], x[0, 88, 2], x[0, 1, 1] = np.nan, np.nan, np.inf
    values, indices = adaptive_op("max", 2)(mx.array(x), 1, return_indices=True)
    assert np.isnan(exact(values)).all()
    assert (exact(indices) == 88 * 91 + 2).all()
    assert np.isnan(exact(adaptive_op("avg", 2)(mx.array(x), 1))).all()
    halves = exact(adaptive_op("avg", 2)(mx.array(x), (2, 1)))
    assert np.isnan(halves).all()
    thirds = exact(adaptive_op("avg", 2)(mx.array(x), (3, 1)))[0, :, 0, 0]
    np.testing.assert_array_equal(np.isnan(thirds), [True, False, True])


def test_the_first_of_equal_maxima_of_a_large_plane():
    for position in (0, 1, 255, 256, 65_535, 65_536, 89_998):
        x = np.zeros((1, 90_000, 2), np.float32)
        x[0, [position, 89_999]] = 1
        _, indices = adaptive_op("max", 1)(mx.array(x), 1, return_indices=True)
        assert (exact(indices) == position).all()
        dx = mx.grad(lambda x: adaptive_op("max", 1)(x, 1).sum())(mx.array(x))
        assert (np.flatnonzero(exact(dx)[0, :, 0]) == position).all()


# Which element wins


@NDIMS
def test_ties_take_the_first_position(ndim: int):
    g = Adaptive((7, 5, 4)[:ndim], (3, 3, 3)[:ndim])
    for value in (0, -np.inf):
        x = mx.full((1, *g.size, 3), value)
        _, indices = adaptive_max_pool(x, g, return_indices=True)
        starts = [[o * i // n for o in range(n)]
                  for i, n in zip(g.size, g.output, strict=True)]  # fmt: skip
        grid = np.meshgrid(*starts, indexing="ij")
        expected = np.ravel_multi_index(grid, g.size)
        np.testing.assert_array_equal(exact(indices)[0, ..., 1], expected)


def test_positive_and_negative_zero_tie():
    x = mx.array([-0.0, 0.0, 0.0, -0.0, 0.0]).reshape(1, 5, 1)
    values, indices = adaptive_op("max", 1)(x, 2, return_indices=True)
    np.testing.assert_array_equal(exact(indices).ravel(), [0, 2])
    np.testing.assert_array_equal(np.signbit(exact(values).ravel()), [True, False])


@pytest.mark.parametrize("channels", [1, 3, 8, 17])
def test_the_last_nan_of_a_window_wins(channels: int):
    for first in range(5):
        for second in range(5):
            x = np.arange(5, dtype=np.float32)
            x[[first, second]] = np.nan
            x = mx.array(np.broadcast_to(x.reshape(1, 5, 1), (1, 5, channels)))
            for dtype in FLOATS:
                check_max(x.astype(dtype), Adaptive((5,), (2,)))


@pytest.mark.parametrize(
    ("size", "output"),
    [
        ((255,), (1,)),  # the last window with 8-bit offsets
        ((256,), (1,)),
        ((257,), (1,)),
        ((509,), (2,)),  # windows of 255
        ((511,), (2,)),  # windows of 256
        ((765,), (4,)),  # of 192 and 193
        ((29, 33), (2, 2)),  # of 15 x 17 = 255
        ((31, 31), (2, 2)),  # of 16 x 16
        ((31, 33), (2, 3)),
        ((9, 10, 11), (2, 2, 2)),
        ((13, 13, 9), (2, 2, 2)),
        ((65_535,), (1,)),
        ((65_536,), (1,)),
        ((70_000,), (1,)),
        ((131_069,), (2,)),  # windows of 65 535
        ((131_071,), (2,)),
        ((256, 257), (1, 1)),
        ((300, 301), (1, 2)),
    ],
    ids=str,
)
def test_windows_about_the_limits_of_an_offset_type(size, output):
    """The maximum may be the last tap, and windows are not all as large."""
    g = Adaptive(size, output)
    rising = np.arange(math.prod(size), dtype=np.float32).reshape(1, *size, 1)
    noise = Data("ties", 0).array((1, *size, 1), mx.float32)
    lowest = np.full((1, *size, 1), -np.inf, np.float32)
    x = mx.concatenate(
        [mx.array(rising), -mx.array(rising), noise, mx.array(lowest)], -1
    )
    check_max(x, g)
    check_derivatives(fixed(adaptive_max_pool, g), x, derivative("max", x, g))


@pytest.mark.parametrize(
    ("size", "count"),
    [
        *((65_537, 40_000), (40_000, 65_537), (90_001, 90_000)),
        *((46_341, 46_340), (46_340, 46_341)),  # just short of 2**31
    ],
)
def test_axes_whose_product_is_about_the_limit_of_32_bits(size: int, count: int):
    """Window o starts at o * size / count."""
    o = np.arange(count, dtype=np.int64)
    first, last = o * size // count, -(-(o + 1) * size // count) - 1
    rising = mx.arange(size, dtype=mx.float32).reshape(1, size, 1)
    x = mx.concatenate([rising, -rising], -1)
    values, indices = adaptive_op("max", 1)(x, count, return_indices=True)
    expected = np.stack([last, first], -1)
    np.testing.assert_array_equal(exact(indices)[0], expected)
    assert_same(values, (expected * [1.0, -1.0])[None])
    middle = (first + last) / 2
    y = adaptive_op("avg", 1)(x, count)
    np.testing.assert_allclose(exact(y)[0, :, 0], middle, rtol=1e-6)
    dx = mx.grad(lambda x: adaptive_op("max", 1)(x, count).sum())(x)
    for channel, winners in enumerate((last, first)):
        wins = np.bincount(winners, minlength=size)
        np.testing.assert_array_equal(exact(dx)[0, :, channel], wins)
    shares = np.zeros(size)
    np.add.at(shares, first, 1 / (last - first + 1))
    for further in range(1, (last - first).max() + 1):
        inside = first + further <= last
        np.add.at(shares, (first + further)[inside], 1 / (last - first + 1)[inside])
    dx = mx.grad(lambda x: adaptive_op("avg", 1)(x, count).sum())(x)
    np.testing.assert_allclose(exact(dx)[0, :, 1], shares, rtol=1e-5)


def test_planes_too_large_for_indices():
    x = mx.broadcast_to(mx.zeros((1, 1, 1, 1), mx.uint8), (1, 2**16, 2**16, 1))
    with pytest.raises(ValueError, match=r"^\[adaptive_max_pool2d\] "):
        adaptive_op("max", 2)(x, 1, return_indices=True)
    assert adaptive_op("max", 2)(x, 1).shape == (1, 1, 1, 1)  # made, never evaluated
    few = mx.broadcast_to(mx.zeros((1, 1, 1, 1)), (1, 2**16, 2**16, 1))
    with pytest.raises(ValueError, match="windows have too many taps"):
        mx.grad(lambda x: adaptive_op("max", 2)(x, 1).sum())(few)


# Empty arrays


@KINDS
@NDIMS
def test_empty_arrays(ndim: int, kind: str):
    size = (5, 6, 4)[:ndim]
    pool = adaptive_op(kind, ndim)
    for shape in ((0, *size, 3), (2, *size, 0), (0, *size, 0)):
        for count in (1, 2, 3, 7):
            x = mx.ones(shape)
            assert pool(x, count).shape == (shape[0], *(count,) * ndim, shape[-1])
            assert mx.grad(power_sum(fixed(pool, count), 2))(x).shape == shape
            if kind == "max":
                _, indices = pool(x, count, return_indices=True)
                assert indices.shape == (shape[0], *(count,) * ndim, shape[-1])
                assert indices.dtype == mx.uint32


@KINDS
@NDIMS
def test_an_output_of_size_zero(ndim: int, kind: str):
    x = mx.ones((2, *(5, 6, 4)[:ndim], 3))
    pool = adaptive_op(kind, ndim)
    for axis in range(ndim):
        count = tuple(0 if a == axis else (3, None)[a % 2] for a in range(ndim))
        sizes = tuple(x.shape[a + 1] if c is None else c for a, c in enumerate(count))
        y = pool(x, count)
        assert (y.shape, y.dtype) == ((2, *sizes, 3), mx.float32)
        np.testing.assert_array_equal(
            exact(mx.grad(power_sum(fixed(pool, count), 1))(x)), 0
        )
        if kind == "max":
            _, indices = pool(x, count, return_indices=True)
            assert (indices.shape, indices.dtype) == ((2, *sizes, 3), mx.uint32)
    assert pool(x, 0).shape == (2, *(0,) * ndim, 3)


@KINDS
def test_no_output_cannot_be_compiled_for_all_shapes(kind: str):
    """Traced of an empty batch either."""
    f = mx.grad(power_sum(fixed(adaptive_op(kind, 2), (0, 2)), 1))
    for batch in (2, 0):
        with pytest.raises(ValueError, match="cannot infer output shapes"):
            mx.compile(f, shapeless=True)(mx.zeros((batch, 4, 4, 1)))


@KINDS
def test_an_input_axis_of_size_zero(kind: str):
    pool = adaptive_op(kind, 2)
    x = mx.zeros((2, 0, 4, 3))
    for count in (1, (3, 2), (1, None), (5, 0)):
        with pytest.raises(ValueError, match=rf"^\[adaptive_{kind}_pool2d\] "):
            pool(x, count)
    for count in ((None, 2), (0, 2), (None, None), 0):
        sizes = [0, 0 if count == 0 else (count[1] or 4)]
        assert pool(x, count).shape == (2, *sizes, 3)


# Layouts and transformations


@KINDS
@OF_EVERY_SHAPE
def test_unbatched(g: Adaptive, kind: str):
    x = Data("nan", 2).array((*g.size, 3), mx.float32)
    assert_identical(ADAPTIVE[kind](x, g), ADAPTIVE[kind](x[None], g)[0])
    if kind == "max":
        alone = adaptive_max_pool(x, g, return_indices=True)
        batched = adaptive_max_pool(x[None], g, return_indices=True)
        assert_all_identical(alone, [a[0] for a in batched])
    gradient = mx.grad(power_sum(fixed(ADAPTIVE[kind], g), 2))
    assert_identical(gradient(x), gradient(x[None])[0])


@KINDS
def test_views(kind: str):
    wide = Data("normal", 0).array((3, 11, 18, 10), mx.float32)
    for view in (
        wide[1:, 2:9, ::2, 1:6],
        wide[..., ::-1],
        wide[:, ::-1, ::-1],
        wide.transpose(0, 2, 3, 1),
        wide.swapaxes(1, 2),
        mx.broadcast_to(wide[:1], wide.shape),
        mx.broadcast_to(wide[:, :, :1], wide.shape),
    ):
        g = Adaptive(view.shape[1:3], (3, 4))
        CHECKS[kind](view, g)
        pooled = fixed(ADAPTIVE[kind], g)
        assert_identical(pooled(view), pooled(mx.contiguous(view)))
        check_derivatives(pooled, view, derivative(kind, view, g))
        shape = pooled(view).shape
        dy = Data("ties", 1).array(shape[::-1], mx.float32).transpose()
        for cotangent in (dy, dy[::-1, ::-1], mx.broadcast_to(dy[..., :1], shape)):
            dx = vjp(pooled, view, cotangent)
            assert_identical(dx, vjp(pooled, view, mx.contiguous(cotangent)))


@KINDS
@OF_EVERY_SHAPE
def test_vmap(g: Adaptive, kind: str):
    x = Data("nan", 0).array((2, *g.size, 3), mx.float32)
    check_vmap(fixed(ADAPTIVE[kind], g), x)


@NDIMS
def test_vmap_of_indices(ndim: int):
    g = SHAPES[ndim][0]
    x = Data("nan", 0).array((2, *g.size, 3), mx.float32)
    check_vmap(fixed(adaptive_max_pool, g, return_indices=True), x)


SIZES = {
    1: ((2, 12, 3), (2, 9, 3), (5, 12, 3), (1, 31, 8), (1, 2, 4)),
    2: ((2, 8, 9, 3), (2, 9, 8, 3), (3, 4, 21, 8), (1, 1, 3, 3)),
    3: ((1, 4, 6, 8, 3), (1, 5, 7, 9, 3), (2, 8, 3, 4, 3), (1, 1, 1, 2, 16)),
}


@pytest.mark.parametrize("count", [1, 4, 3, None], ids=str)
@KINDS
@NDIMS
def test_compile(ndim: int, kind: str, count: int | None):
    """Also one trace for sizes that divide and that do not."""
    inputs = [Data("ties", 0).array(shape, mx.float32) for shape in SIZES[ndim]]
    counts = (count,) * ndim
    check_compile(fixed(adaptive_op(kind, ndim), counts), inputs)
    check_compile(fixed(adaptive_op(kind, ndim), (*counts[1:], 2)), inputs)


@NDIMS
def test_compile_of_indices(ndim: int):
    inputs = [Data("ties", 0).array(shape, mx.float32) for shape in SIZES[ndim]]
    for count in (1, 4, (None, 3, 4)[:ndim]):
        pooled = fixed(adaptive_op("max", ndim), count, return_indices=True)
        check_compile(pooled, inputs)


def test_compile_with_windows_that_outgrow_an_offset_type():
    """The first trace is of windows of 2 taps, or 4; later ones have 65 600."""
    for count in (4, 3):
        lines = [
            Data("ties", 0).array((1, size, 2), mx.float32)
            for size in (8, 4 * 300, 4 * 65_600, 5)
        ]
        f = fixed(adaptive_op("max", 1), count)
        check_compile(f, lines)
        check_compile(fixed(adaptive_op("max", 1), count, return_indices=True), lines)
        push = mx.compile(lambda x, f=f: mx.jvp(f, [x], [x * x])[1], shapeless=True)
        for x in lines:
            found = reference.max_pool(exact(x), Adaptive(x.shape[1:2], (count,)))
            assert_same(push(x)[0], reference.gather(exact(x) ** 2, found.indices))


@KINDS
def test_calls_that_differ_are_not_merged_by_compile(kind: str):
    """All of one output shape; [0, 3), [2, 6), [5, 8) are the adaptive windows."""
    x = Data("normal", 5).array((1, 8, 8, 2), mx.float32)
    calls = [
        fixed(adaptive_op(kind, 2), 3),
        fixed(ORDINARY[kind](2), 4, 2),
        fixed(ORDINARY[kind](2), 3, 2),
        fixed(ORDINARY[kind](2), 3, 3, ((0, 1), (1, 0))),
        fixed(ORDINARY[kind](2), 3, 3, ceil_mode=True),
    ]
    if kind == "max":
        calls.append(lambda x: -adaptive_op("max", 2)(-x, 3))
    together = mx.compile(lambda x: [call(x) for call in calls])(x)
    for merged, call in zip(together, calls, strict=True):
        assert merged.shape == (1, 3, 3, 2)
        assert_identical(merged, call(x))


@pytest.mark.parametrize(
    "dtype", [*FLOATS, mx.int8, mx.uint32, mx.bool_], ids=short_name
)
@KINDS
@OF_EVERY_SHAPE
def test_composed(g: Adaptive, kind: str, dtype: mx.Dtype):
    x = Data("nan", 0).array((2, *g.size, 3), dtype)
    finite = Data("ties", 1).array(x.shape, dtype)
    if kind == "max":
        check_composed(fixed(adaptive_max_pool, g, return_indices=True), x)
        check_composed(fixed(adaptive_max_pool, g), finite)
    else:
        with mlx_pooling.composed():
            check_avg(x, g)
        check_composed(fixed(adaptive_avg_pool, g), finite, assert_all_close)


@given(case=adaptive_cases())
@settings(max_examples=25)
def test_composed_of_any_sizes(case: Case):
    g = case.geometry
    check_composed(fixed(adaptive_max_pool, g, return_indices=True), case.input())
    with mlx_pooling.composed():
        check_avg(case.input(mx.float16), g)


@KINDS
def test_composed_to_second_order(kind: str):
    pooled = fixed(adaptive_op(kind, 2), (3, 5))
    x = Data("normal", 0).array((1, 7, 8, 2), mx.float32)
    t = Data("normal", 1).array(x.shape, mx.float32)
    first = mx.grad(power_sum(pooled, 3))
    for second in (
        lambda x: jvp(first, x, t),
        mx.grad(lambda x: (first(x) * t).sum()),
    ):
        check_composed(second, x, assert_all_close)


@KINDS
def test_composed_uses_no_primitive_of_ours(kind: str):
    x = mx.ones((1, 7, 8, 2))
    pooled = fixed(adaptive_op(kind, 2), (3, 4))
    with mlx_pooling.composed():
        outputs = [pooled(x), mx.grad(power_sum(pooled, 2))(x)]
    assert not our_primitives(*outputs)
    assert our_primitives(pooled(x))


@KINDS
def test_gradients_are_the_same_bits_each_time(kind: str):
    x = mx.random.normal((4, 37, 41, 24), key=mx.random.key(0))
    pooled = fixed(adaptive_op(kind, 2), (5, 7))
    dy = mx.random.normal(pooled(x).shape, key=mx.random.key(1))
    first = vjp(pooled, x, dy)
    for _ in range(3):
        assert_identical(vjp(pooled, x, dy), first)
    for n in range(4):
        assert_identical(vjp(pooled, x[n : n + 1], dy[n : n + 1]), first[n : n + 1])


# Errors


def errors_of(kind: str, ndim: int, x: mx.array, output_size) -> list[str]:
    """The messages of function and layer without their names."""
    function, module = (
        f"adaptive_{kind}_pool{ndim}d",
        f"Adaptive{kind.title()}Pool{ndim}d",
    )
    with pytest.raises((ValueError, TypeError)) as raised:
        getattr(mlx_pooling, function)(x, output_size)
    assert str(raised.value).startswith(f"[{function}] ")
    with pytest.raises((ValueError, TypeError)) as other:
        getattr(mlx_pooling, module)(output_size)(x)
    assert str(other.value).startswith(f"[{module}] ")
    return [str(error.value).split("] ", 1)[1] for error in (raised, other)]


@pytest.mark.parametrize(
    "bad",
    [2.0, True, "2", (), (2,) * 4, (2.0,), ("2",), (True,), {2}, 1j, np.array(2.5)],
    ids=repr,
)
@NDIMS
@KINDS
def test_output_sizes_of_the_wrong_form(kind: str, ndim: int, bad):
    if isinstance(bad, tuple) and len(bad) == 1:
        bad *= ndim
    for message in errors_of(kind, ndim, mx.zeros(INPUTS[ndim]), bad):
        assert "'output_size'" in message


@pytest.mark.parametrize("bad", [-1, -(2**31), -(10**30), 2**31, 2**63, 10**30])
@NDIMS
@KINDS
def test_output_sizes_out_of_range(kind: str, ndim: int, bad: int):
    x = mx.zeros(INPUTS[ndim])
    for sizes in (bad, (*(2,) * (ndim - 1), bad), (bad, *(None,) * (ndim - 1))):
        for message in errors_of(kind, ndim, x, sizes):
            assert "'output_size'" in message


@KINDS
def test_outputs_too_large_for_memory(kind: str):
    largest = 2**31 - 1
    for message in errors_of(kind, 3, mx.zeros(INPUTS[3]), largest):
        assert "large" in message


@KINDS
def test_negative_sizes_are_value_errors(kind: str):
    with pytest.raises(ValueError, match=r"non-negative but got \(None, -2\)"):
        adaptive_op(kind, 2)(mx.zeros((1, 4, 4, 1)), (None, -2))
    with pytest.raises(ValueError, match=r"negative.*\(-1, 2\)|\(-1, 2\).*negative"):
        adaptive_op(kind, 2)(mx.zeros((1, 4, 4, 1)), (-1, 2))
    with pytest.raises(ValueError):
        layer(f"Adaptive{kind.title()}", 2)((2, -1))  # at once, not when called


@NDIMS
@KINDS
def test_wrong_rank(kind: str, ndim: int):
    for rank in range(7):
        x = mx.zeros((4,) * rank)
        if rank in (ndim + 1, ndim + 2):
            assert adaptive_op(kind, ndim)(x, 2).ndim == rank
        else:
            errors_of(kind, ndim, x, 2)


@NDIMS
def test_complex_maxima(ndim: int):
    for message in errors_of("max", ndim, mx.zeros(INPUTS[ndim], mx.complex64), 2):
        assert "complex" in message


@pytest.mark.parametrize("bad", [1, "yes", None, 0.0], ids=repr)
def test_a_flag_that_is_not_a_bool(bad):
    with pytest.raises(TypeError, match=r"^\[adaptive_max_pool2d\] 'return_indices'"):
        adaptive_op("max", 2)(mx.zeros((1, 4, 4, 1)), 2, return_indices=bad)
    with pytest.raises(TypeError, match=r"^\[AdaptiveMaxPool2d\] 'return_indices'"):
        layer("AdaptiveMax", 2)(2, return_indices=bad)


@pytest.mark.parametrize("bad", [None, 1, [[1.0]], np.zeros((1, 8, 9, 2))], ids=type)
@KINDS
def test_input_that_is_not_an_mlx_array(kind: str, bad):
    with pytest.raises(TypeError, match=rf"^\[adaptive_{kind}_pool2d\] "):
        adaptive_op(kind, 2)(bad, 2)


@KINDS
def test_errors_come_at_the_call_inside_transforms_too(kind: str):
    x = mx.zeros((2, 4, 4, 1))
    f = power_sum(fixed(adaptive_op(kind, 2), (2, 2, 2)), 1)
    for transformed in (f, mx.grad(f), mx.compile(f), mx.vmap(f)):
        with pytest.raises(ValueError, match=rf"^\[adaptive_{kind}_pool2d\] "):
            transformed(x)


# Layers


@KINDS
@OF_EVERY_SHAPE
def test_layers(g: Adaptive, kind: str):
    x = Data("nan", 1).array((2, *g.size, 3), mx.float32)
    module = layer(f"Adaptive{kind.title()}", g.ndim)
    expected = ADAPTIVE[kind](x, g)
    assert_identical(module(g.output)(x), expected)
    assert_identical(module(output_size=g.output)(x[1]), expected[1])
    assert not module(g.output).parameters()


@NDIMS
def test_layers_that_return_indices(ndim: int):
    g = SHAPES[ndim][0]
    x = Data("nan", 1).array((2, *g.size, 3), mx.float32)
    expected = adaptive_max_pool(x, g, return_indices=True)
    found = layer("AdaptiveMax", ndim)(g.output, return_indices=True)(x)
    assert_all_identical(found, expected)


@KINDS
@NDIMS
def test_global_layers(ndim: int, kind: str):
    module = layer(f"Global{kind.title()}", ndim)()
    for shape in ((2, *(7, 6, 5)[:ndim], 3), (*(9, 4, 3)[:ndim], 1)):
        x = Data("ties", 1).array(shape, mx.float32)
        axes = tuple(range(x.ndim - 1 - ndim, x.ndim - 1))
        y = module(x)
        assert_identical(y, adaptive_op(kind, ndim)(x, 1))
        reduced = {"avg": np.mean, "max": np.max}[kind](exact(x), axes, keepdims=True)
        assert tuple(y.shape) == reduced.shape
        np.testing.assert_allclose(exact(y), reduced, rtol=1e-6, atol=1e-6)
    assert not module.parameters()
    with pytest.raises(ValueError, match=rf"^\[Global{kind.title()}Pool{ndim}d\] "):
        module(mx.zeros((2,) * (ndim + 3)))
    with pytest.raises(TypeError):
        layer(f"Global{kind.title()}", ndim)(2)


def test_global_maxima_of_complex_numbers_are_errors():
    with pytest.raises(ValueError, match=r"^\[GlobalMaxPool2d\] .*complex"):
        layer("GlobalMax", 2)()(mx.zeros((1, 4, 4, 1), mx.complex64))
    with pytest.raises(ValueError, match=r"^\[GlobalAvgPool2d\] "):
        layer("GlobalAvg", 2)()(mx.zeros((1, 0, 4, 1)))


@KINDS
def test_repr(kind: str):
    name = f"Adaptive{kind.title()}Pool2d"
    module = getattr(mlx_pooling, name)
    assert repr(module((5, None))) == f"{name}(output_size=(5, None))"
    assert repr(module(7)) == f"{name}(output_size=(7, 7))"
    assert repr(layer(f"Global{kind.title()}", 1)()) == f"Global{kind.title()}Pool1d()"
    if kind == "max":
        expected = "AdaptiveMaxPool2d(output_size=(1, 2), return_indices=True)"
        assert repr(module((1, 2), return_indices=True)) == expected
