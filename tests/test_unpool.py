"""Max unpooling: each value to its place in a plane of zeros, where the first wins."""

from __future__ import annotations

import math
from contextlib import nullcontext

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
import reference
from checks import (
    check_compile,
    check_composed,
    check_derivatives,
    check_higher_orders,
    check_mixed_modes,
    check_vmap,
    unpooling,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import CHANNELS, FINITE, Case, Data, cases
from support import (
    EVERY_DTYPE,
    FLOATS,
    INTEGERS,
    NDIMS,
    assert_identical,
    assert_same,
    exact,
    fixed,
    geometry,
    jvp,
    max_op,
    max_pool,
    our_primitives,
    power_sum,
    short_name,
    unpool_op,
    vjp,
)

INDEX_DTYPES = INTEGERS

NO_INDEX = reference.NO_INDEX


def unpool(x: mx.array, indices: mx.array, size: tuple[int, ...]) -> mx.array:
    """To a plane of any size, by a window that has it as default, or one more."""
    kernel, stride, padding = [], [], []
    for count, length in zip(x.shape[-1 - len(size) : -1], size, strict=True):
        kernel.append(length if count == 1 else 1)
        stride.append(length + 1)
        default = (count - 1) * stride[-1] + kernel[-1]
        padding.append((default - length) // 2)
    return unpool_op(len(size))(x, indices, kernel, stride, padding, output_size=size)


def layer(ndim: int) -> type:
    return getattr(mlx_pooling, f"MaxUnpool{ndim}d")


def check(x: mx.array, indices: mx.array, size: tuple[int, ...]) -> None:
    y = unpool(x, indices, size)
    assert y.dtype == x.dtype
    assert_same(y, reference.max_unpool(exact(x), exact(indices), size))


@st.composite
def unpoolings(draw, some_outside: bool = True):
    """(shape of x, plane, indices): as they come, with duplicates and some outside."""
    ndim = draw(st.sampled_from([1, 2, 3]))
    size = tuple(draw(st.integers(1, 6)) for _ in range(ndim))
    spatial = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    shape = (draw(st.integers(1, 2)), *spatial, draw(st.sampled_from(CHANNELS[:7])))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    positions = math.prod(size)
    indices = rng.integers(0, positions, shape)
    if some_outside:
        outside = rng.choice([positions, positions + 1, 2**31, NO_INDEX], shape)
        indices = np.where(rng.random(shape) < 0.2, outside, indices)
    return size, indices.astype(np.uint32)


def one_for_each(size: tuple[int, ...], batch: int, channels: int) -> np.ndarray:
    """Indices without duplicates, and fewer of them than positions."""
    rng = np.random.default_rng(0)
    count = max(1, math.prod(size) // 2)
    planes = [rng.permutation(math.prod(size))[:count] for _ in range(batch * channels)]
    flat = np.stack(planes, -1).reshape(count, batch, channels)
    return np.moveaxis(flat, 0, 1).reshape(batch, *(1,) * (len(size) - 1), count, -1)


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=short_name)
@given(drawn=unpoolings(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_values_of_every_dtype(dtype: mx.Dtype, drawn, seed: int):
    size, indices = drawn
    for kind in ("nan", "extremes"):
        check(Data(kind, seed).array(indices.shape, dtype), mx.array(indices), size)


@given(drawn=unpoolings(), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_float64_on_cpu(drawn, seed: int):
    size, indices = drawn
    with mx.stream(mx.cpu):
        x = Data("normal", seed).array(indices.shape, mx.float64)
        check(x, mx.array(indices), size)
        f = fixed(unpool, mx.array(indices), size)
        check_derivatives(f, x, unpooling(indices, size))


@NDIMS
@pytest.mark.parametrize("channels", [*range(1, 20), 31, 64, 65])
def test_every_small_number_of_channels(ndim: int, channels: int):
    size = (8, 7, 5)[:ndim]
    rng = np.random.default_rng(channels)
    shape = (2, *(4, 3, 2)[:ndim], channels)
    indices = rng.integers(0, math.prod(size) + 2, shape)
    for dtype in (mx.float32, mx.float16, mx.int8):
        check(Data("ties", 0).array(shape, dtype), mx.array(indices), size)


# The round trip


ROUND_TRIPS = [
    {"kernel": 2},
    {"kernel": 2, "stride": 1},  # overlapping
    {"kernel": 3, "stride": 2},
    {"kernel": 3, "stride": 2, "padding": 1},
    {"kernel": 3, "stride": 1, "padding": 1},
    {"kernel": 2, "stride": 3},  # apart
    {"kernel": 4, "stride": 2, "padding": 2},
    {"kernel": 3, "stride": 3, "padding": 1},
]


@pytest.mark.parametrize("options", ROUND_TRIPS, ids=str)
@NDIMS
def test_round_trip(ndim: int, options: dict):
    """Zeros but for the maxima, each at its own place."""
    for size in ((8, 9, 7)[:ndim], (9, 10, 8)[:ndim]):
        g = geometry(size, **options)
        for kind in ("normal", "ties", "negative"):
            x = Data(kind, 3).array((2, *size, 3), mx.float32)
            values, indices = max_pool(x, g, return_indices=True)
            padding = tuple(low for low, _ in g.padding)
            y = unpool_op(ndim)(
                values, indices, g.kernel, g.stride, padding, output_size=size
            )
            picked = np.zeros((2, math.prod(size), 3), bool)
            flat = exact(indices).reshape(2, -1, 3).astype(np.int64)
            np.put_along_axis(picked, flat, True, axis=1)
            assert_same(y, np.where(picked.reshape(x.shape), exact(x), 0))
            again, same = max_op(ndim)(
                mx.where(mx.array(picked.reshape(x.shape)), x, -mx.inf),
                *(g.kernel, g.stride, g.padding),
                return_indices=True,
            )
            assert_identical(again, values)
            assert_identical(same, indices)


@pytest.mark.parametrize("options", ROUND_TRIPS, ids=str)
@NDIMS
def test_the_default_output_size(ndim: int, options: dict):
    x = mx.ones((2, *(4, 3, 5)[:ndim], 3))
    indices = mx.zeros(x.shape, mx.uint32)
    kernel, stride = options["kernel"], options.get("stride", options["kernel"])
    padding = options.get("padding", 0)
    expected = [(n - 1) * stride - 2 * padding + kernel for n in x.shape[1:-1]]
    arguments = (kernel, options.get("stride"), padding)
    assert unpool_op(ndim)(x, indices, *arguments).shape == (2, *expected, 3)
    assert layer(ndim)(*arguments)(x, indices).shape == (2, *expected, 3)
    assert unpool_op(ndim)(x[0], indices[0], *arguments).shape == (*expected, 3)


def test_each_axis_has_its_own_kernel_stride_and_padding():
    x = mx.ones((2, 4, 5, 6, 1))
    indices = mx.zeros(x.shape, mx.uint32)
    y = unpool_op(3)(x, indices, (2, 3, 4), (1, 2, 5), (0, 1, 2))
    assert y.shape == (2, 3 + 2, 8 + 3 - 2, 25 + 4 - 4, 1)
    y = unpool_op(3)(x, indices, [2, 3, 4], padding=[1, 0, 1])
    assert y.shape == (2, 6, 15, 22, 1)


@NDIMS
def test_forms_of_the_output_size(ndim: int):
    size = (7, 9, 5)[:ndim]
    x = Data("normal", 0).array((2, *size, 3), mx.float32)
    values, indices = max_op(ndim)(x, 2, return_indices=True)
    expected = unpool_op(ndim)(values, indices, 2, output_size=size)
    assert expected.shape == x.shape
    for form in (list(size), x.shape, list(x.shape), (2, *size, 99)):
        y = unpool_op(ndim)(values, indices, 2, output_size=form)
        assert_identical(y, expected)
        assert_identical(layer(ndim)(2)(values, indices, form), expected)
        assert_identical(layer(ndim)(2)(values, indices, output_size=form), expected)
    for form in (size, x[0].shape):
        y = unpool_op(ndim)(values[0], indices[0], 2, output_size=form)
        assert_identical(y, expected[0])
    by_position = unpool_op(ndim)(values, indices, 2, 2, 0, size)
    assert_identical(by_position, expected)


@NDIMS
def test_the_range_of_output_sizes(ndim: int):
    """Strictly within a stride of the default."""
    x = mx.ones((1, *(3,) * ndim, 2))
    indices = mx.zeros(x.shape, mx.uint32)
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (2, 1, 0), (4, 3, 2)):
        default = 2 * stride - 2 * padding + kernel
        for size in range(default - stride - 2, default + stride + 3):
            if size <= 0:
                continue
            for axis in range(ndim):
                sizes = tuple(size if a == axis else default for a in range(ndim))
                legal = abs(size - default) < stride
                with nullcontext() if legal else pytest.raises(
                    ValueError, match=rf"^\[max_unpool{ndim}d\] 'output_size'"
                ):  # fmt: skip
                    y = unpool_op(ndim)(
                        *(x, indices, kernel, stride, padding), output_size=sizes
                    )
                    assert y.shape == (1, *sizes, 2)


@NDIMS
def test_a_padding_that_leaves_no_plane(ndim: int):
    x = mx.ones((1, *(1,) * ndim, 2))
    for size in (None, (1,) * ndim):
        with pytest.raises(ValueError) as raised:
            unpool_op(ndim)(x, x.astype(mx.uint32), 1, 1, 1, size)
        assert str(raised.value) == (
            f"[max_unpool{ndim}d] 'padding' must leave something of the plane but "
            "spatial axis 0 would have size -1 at most."
        )


@NDIMS
def test_nothing_between_windows_apart(ndim: int):
    x = mx.ones((1, *(0,) * ndim, 2))
    y = unpool_op(ndim)(x, x.astype(mx.uint32), 2, 3)
    assert y.shape == x.shape


@NDIMS
def test_an_output_size_is_no_integer(ndim: int):
    x = mx.ones((1, *(2,) * ndim, 2))
    wanted = "'output_size' must be None, a whole shape or a tuple"
    with pytest.raises(ValueError, match=wanted):
        unpool_op(ndim)(x, x.astype(mx.uint32), 2, output_size=4)


# Which positions are written


@pytest.mark.parametrize("dtype", INDEX_DTYPES, ids=short_name)
@NDIMS
def test_indices_of_every_integer_dtype(ndim: int, dtype: mx.Dtype):
    size = (6, 5, 4)[:ndim]
    indices = one_for_each(size, 2, 3)
    for values in (indices, np.where(indices % 3 == 0, 127, indices)):
        x = Data("normal", 0).array(values.shape, mx.float32)
        cast = mx.array(values).astype(dtype)
        check(x, cast, size)
        f = fixed(unpool, cast, size)
        check_derivatives(f, x, unpooling(values, size))


OUTSIDE = {
    mx.int8: (-1, -128, 12, 127),
    mx.int16: (-1, -(2**15), 12, 2**15 - 1),
    mx.int32: (-1, -5, -(2**31), 12, 2**31 - 1),
    mx.int64: (
        *(-1, -12, -(2**31), -(2**32), -(2**32) + 3, -(2**63), -(2**63) + 3),
        *(12, 2**31, 2**31 + 3, NO_INDEX, 2**32, 2**32 + 3, 2**63 - 1),
    ),
    mx.uint8: (12, 128, 255),
    mx.uint16: (12, 2**15, 2**16 - 1),
    mx.uint32: (12, 2**31, 2**31 + 3, NO_INDEX - 1, NO_INDEX),
    mx.uint64: (12, NO_INDEX, 2**32, 2**32 + 3, 2**63, 2**63 + 3, 2**64 - 1),
}


@pytest.mark.parametrize("dtype", OUTSIDE, ids=short_name)
@pytest.mark.parametrize("channels", [1, 3, 16])
def test_an_index_outside_the_plane_is_dropped(dtype: mx.Dtype, channels: int):
    """One that a narrower integer would bring inside, too."""
    kind = np.dtype(short_name(dtype))
    good = np.array([3, 0, 11, 7], kind)
    bad = np.array(OUTSIDE[dtype], kind)
    for flat in (bad, np.concatenate([good, bad]), np.concatenate([bad, good])):
        column = np.broadcast_to(flat[:, None], (len(flat), channels))
        indices = mx.array(np.ascontiguousarray(column)).reshape(1, -1, 1, channels)
        x = mx.arange(1.0, indices.size + 1).reshape(indices.shape)
        with_nan = mx.where(mx.array(np.isin(flat, bad)).reshape(1, -1, 1, 1),
                            float("nan"), x)  # fmt: skip
        expected = np.zeros((1, 12, channels), np.float32)
        for i, index in enumerate(flat):
            if index in good:
                expected[0, int(index)] = exact(x)[0, i, 0]
        expected = expected.reshape(1, 4, 3, channels)
        for context in (nullcontext, mlx_pooling.composed):
            with context():
                assert_same(unpool(with_nan, indices, (4, 3)), expected)
                dx = vjp(
                    fixed(unpool, indices, (4, 3)), x, mx.ones((1, 4, 3, channels))
                )
                kept = np.isin(flat, good).reshape(1, -1, 1, 1)
                assert_same(dx, np.broadcast_to(kept, x.shape).astype(np.float32))


def test_nothing_beyond_the_output_is_written():
    """Indices up to far past the end, in planes beside others; y is all there is."""
    rng = np.random.default_rng(0)
    indices = rng.integers(63, 2**32, (64, 50, 50, 3)).astype(np.uint32)
    x = mx.full(indices.shape, float("nan"))
    assert not exact(unpool(x, mx.array(indices), (7, 9))).any()
    near = rng.integers(63, 63 * 64, indices.shape).astype(np.uint32)
    assert not exact(unpool(x, mx.array(near), (7, 9))).any()


@pytest.mark.parametrize("channels", [1, 3, 16])
def test_the_first_of_duplicates_wins_and_takes_the_gradient(channels: int):
    indices = np.array([[5, 2, 5], [2, 2, 0], [5, 0, 7]]).reshape(1, 3, 3, 1)
    indices = mx.array(np.repeat(indices, channels, -1), mx.uint32)
    x = mx.repeat(mx.arange(1.0, 10.0).reshape(1, 3, 3, 1), channels, -1)
    y = unpool_op(2)(x, indices, 1)
    np.testing.assert_array_equal(
        exact(y)[0, ..., -1], [[6, 0, 2], [0, 0, 1], [0, 9, 0]]
    )
    dy = mx.repeat(mx.arange(10.0, 19.0).reshape(1, 3, 3, 1), channels, -1)
    dx = vjp(lambda x: unpool_op(2)(x, indices, 1), x, dy)
    np.testing.assert_array_equal(
        exact(dx)[0, ..., -1], [[15, 12, 0], [0, 0, 10], [0, 0, 17]]
    )
    dy = jvp(lambda x: unpool_op(2)(x, indices, 1), x, x + 10)
    np.testing.assert_array_equal(
        exact(dy)[0, ..., -1], [[16, 0, 12], [0, 0, 11], [0, 19, 0]]
    )


@pytest.mark.parametrize("first", [float("nan"), -float("inf"), 0.0, -1.0])
def test_the_first_wins_whatever_its_value(first: float):
    indices = mx.full((1, 6, 1), 2, mx.uint32)
    x = mx.array([first, 1.0, float("inf"), float("nan"), 5.0, 6.0]).reshape(1, 6, 1)
    y = exact(unpool_op(1)(x, indices, 1)).ravel()
    np.testing.assert_array_equal(y, [0, 0, first, 0, 0, 0])


def test_one_position_for_all_of_a_large_input():
    indices = mx.full((1, 300, 300, 2), 7, mx.uint32)
    x = mx.arange(1.0, 300 * 300 * 2 + 1).reshape(1, 300, 300, 2)
    for _ in range(3):
        y = exact(unpool_op(2)(x, indices, 1)).reshape(-1, 2)
        np.testing.assert_array_equal(np.flatnonzero(y[:, 0]), [7])
        np.testing.assert_array_equal(y[7], [1, 2])
    dx = mx.grad(lambda x: unpool_op(2)(x, indices, 1).sum())(x)
    np.testing.assert_array_equal(np.flatnonzero(exact(dx)), [0, 1])


def test_planes_are_apart():
    """The same index in another plane or channel is another position."""
    indices = mx.zeros((3, 2, 2, 4), mx.uint32)
    x = mx.arange(1.0, 49.0).reshape(3, 2, 2, 4)
    y = exact(unpool_op(2)(x, indices, 2))
    np.testing.assert_array_equal(y[:, 0, 0], exact(x)[:, 0, 0])
    assert np.count_nonzero(y) == 12


def test_a_long_plane():
    """Past 2**24 a float32 no longer holds every integer."""
    size = 2**24 + 7
    indices = mx.array([size - 1, 2**24 + 1, size]).reshape(1, 3, 1)
    x = mx.array([1, 2, 3], mx.uint8).reshape(1, 3, 1)
    y = unpool_op(1)(x, indices, 7, 2**23, output_size=(size,))
    assert np.flatnonzero(exact(y)).tolist() == [2**24 + 1, size - 1]
    assert y[0, -1, 0].item() == 1


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [mx.float32, mx.uint8], ids=short_name)
def test_channels_are_shared_out_among_threads(dtype: mx.Dtype, batch: int):
    """So many that it is worth their while; the last block is a narrow one."""
    size, shape = (96, 96), (batch, 16, 16, 133)
    indices = mx.random.randint(0, 97 * 96, shape, key=mx.random.key(0))
    x = Data("ties", 1).array(shape, dtype)
    check(x, indices, size)
    if dtype == mx.float32:
        f = fixed(unpool, indices, size)
        check_derivatives(f, x, unpooling(np.array(indices), size))


@NDIMS
def test_windows_without_a_tap_come_back_as_zeros(ndim: int):
    g = geometry((2,) * ndim, 2, 2, 4)
    values, indices = max_pool(mx.ones((1, *g.size, 3)), g, return_indices=True)
    y = unpool_op(ndim)(values, indices, 2, 2, 4, output_size=g.size)
    assert np.isinf(exact(values)).any()
    assert_same(y, reference.max_unpool(exact(values), exact(indices), g.size))
    assert np.isfinite(exact(y)).all()


# Derivatives


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64], ids=short_name)
@given(drawn=unpoolings(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_derivatives(dtype: mx.Dtype, drawn, seed: int):
    size, indices = drawn
    x = Data("ties", seed).array(indices.shape, dtype)
    f = fixed(unpool, mx.array(indices), size)
    check_derivatives(f, x, unpooling(indices, size), seed)


@given(drawn=unpoolings(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_higher_orders_and_mixed_modes(drawn, seed: int):
    size, indices = drawn
    x = Data("ties", seed).array(indices.shape, mx.float32)
    f = fixed(unpool, mx.array(indices), size)
    check_higher_orders(f, x, unpooling(indices, size))
    check_mixed_modes(f, x, unpooling(indices, size))


@pytest.mark.parametrize("context", [nullcontext, mlx_pooling.composed])
def test_a_nan_cotangent_of_what_was_not_written_reaches_nothing(context):
    """As that of a square root is where the plane is 0."""
    x = mx.array([4.0, 9.0]).reshape(1, 2, 1)
    indices = mx.array([1, 2]).reshape(1, 2, 1)
    f = fixed(unpool_op(1), indices, 2)
    dy = mx.array([float("nan"), 1.0, 2.0, float("inf")]).reshape(1, 4, 1)
    with context():
        assert_same(vjp(f, x, dy), np.array([1.0, 2.0]).reshape(1, 2, 1))


def test_indices_carry_no_gradient():
    indices = mx.array([0, 3], mx.int32).reshape(1, 2, 1)
    x = mx.array([2.0, 5.0]).reshape(1, 2, 1)
    floats = indices.astype(mx.float32)

    def f(x, floats):
        return (unpool_op(1)(x, floats.astype(mx.int32), 2) ** 2).sum()

    dx, none = mx.grad(f, argnums=(0, 1))(x, floats)
    np.testing.assert_array_equal(exact(dx).ravel(), [4, 10])
    assert not exact(none).any()


@given(case=cases(FINITE, max_batch=1))
@settings(max_examples=20)
def test_gradient_through_a_round_trip(case: Case):
    """Of pooling and unpooling together: the identity on the maxima."""
    g, x = case.geometry, case.input()
    found = reference.max_pool(exact(x), g)
    w = case.more(case.input_shape)

    def there_and_back(x):
        values, indices = max_pool(x, g, return_indices=True)
        return (unpool(values, indices, g.size) * w).sum()

    used = reference.first_uses(found.indices, g.size)
    expected = reference.scatter(reference.gather(exact(w), used), used, g.size)
    assert_same(mx.grad(there_and_back)(x), expected)


# Layouts and transformations


@NDIMS
def test_empty_arrays(ndim: int):
    size = (4, 6, 8)[:ndim]
    spatial = tuple(s // 2 for s in size)
    for shape in ((0, *spatial, 3), (2, *spatial, 0), (0, *spatial, 0)):
        indices = mx.zeros(shape, mx.uint32)
        y = unpool_op(ndim)(mx.ones(shape), indices, 2)
        assert y.shape == (shape[0], *size, shape[-1])
        gradient = mx.grad(lambda x, i=indices: (unpool_op(ndim)(x, i, 2) ** 2).sum())
        assert gradient(mx.ones(shape)).shape == shape


def test_nothing_to_write_to_a_plane():
    """An input without positions, to a plane that has some."""
    x, indices = mx.zeros((2, 0, 3, 2)), mx.zeros((2, 0, 3, 2), mx.uint32)
    for context in (nullcontext, mlx_pooling.composed):
        with context():
            f = fixed(unpool_op(2), indices, 2, output_size=(1, 6))
            assert_same(f(x), np.zeros((2, 1, 6, 2)))
            assert mx.grad(power_sum(f, 2))(x).shape == x.shape


def test_unbatched():
    x = Data("normal", 2).array((2, 4, 3), mx.float32)
    rng = np.random.default_rng(0)
    indices = mx.array(rng.integers(0, 40, x.shape), mx.uint32)
    y = unpool_op(2)(x, indices, 2)
    assert_identical(y, unpool_op(2)(x[None], indices[None], 2)[0])
    f = fixed(unpool_op(2), indices, 2)
    dx = vjp(f, x, mx.ones_like(y))
    batched = reference.max_unpool_grad(np.ones((1, *y.shape)), exact(indices)[None])
    assert_same(dx, batched[0])


def test_views():
    wide = Data("normal", 0).array((6, 12, 12, 12), mx.float32)
    rng = np.random.default_rng(0)
    other = mx.array(rng.integers(0, 30, wide.shape), mx.uint32)
    for view in (
        lambda a: a[1:, 2:9, ::2, 1:6],
        lambda a: a[..., ::-1],
        lambda a: a.transpose(0, 2, 3, 1),
        lambda a: a.swapaxes(1, 2),
        lambda a: mx.broadcast_to(a[:1], a.shape),
        lambda a: mx.broadcast_to(a[:, :, :, :1], a.shape),
    ):
        for x, indices in (
            (view(wide), view(other)),
            (view(wide), mx.contiguous(view(other))),
            (mx.contiguous(view(wide)), view(other)),
        ):
            check(x, indices, (5, 6))
            f = fixed(unpool, indices, (5, 6))
            check_derivatives(f, x, unpooling(exact(indices), (5, 6)))


@NDIMS
def test_vmap_of_x_alone(ndim: int):
    size = (5, 4, 3)[:ndim]
    rng = np.random.default_rng(0)
    shape = (2, *(3, 2, 2)[:ndim], 3)
    indices = mx.array(rng.integers(0, math.prod(size) + 1, shape), mx.uint32)
    x = Data("ties", 0).array(shape, mx.float32)
    check_vmap(fixed(unpool, indices, size), x)


@pytest.mark.parametrize("batched", [True, False])
@NDIMS
def test_vmap_of_indices_and_of_both(ndim: int, batched: bool):
    size = (5, 4, 3)[:ndim]
    rng = np.random.default_rng(0)
    shape = ((2,) if batched else ()) + ((3, 2, 2)[:ndim]) + (3,)
    x = Data("ties", 0).array(shape, mx.float32)
    dy = Data("normal", 1).array(
        (*shape[: len(shape) - ndim - 1], *size, 3), mx.float32
    )
    for axis in range(len(shape) + 1):
        many = (*shape[:axis], 4, *shape[axis:])
        indices = mx.array(rng.integers(0, math.prod(size) + 1, many), mx.int64)
        xs = Data("ties", 1).array(many, mx.float32)
        parts = [a.squeeze(axis) for a in mx.split(indices, 4, axis)]
        x_parts = [a.squeeze(axis) for a in mx.split(xs, 4, axis)]

        def forward(x, i):
            return unpool(x, i, size)

        def backward(x, i):
            return vjp(lambda x: unpool(x, i, size) ** 2, x, dy)

        for f in (forward, backward):
            y = mx.vmap(f, in_axes=(None, axis))(x, indices)
            assert_identical(y, mx.stack([f(x, i) for i in parts]))
            y = mx.vmap(f, in_axes=(axis, axis))(xs, indices)
            expected = [f(a, i) for a, i in zip(x_parts, parts, strict=True)]
            assert_identical(y, mx.stack(expected))
            y = mx.vmap(f, in_axes=(axis, 0))(xs, mx.moveaxis(indices, axis, 0))
            assert_identical(y, mx.stack(expected))
            y = mx.vmap(f, in_axes=(axis, None))(xs, parts[0])
            assert_identical(y, mx.stack([f(a, parts[0]) for a in x_parts]))


SIZES = {
    1: ((2, 8, 3), (2, 9, 3), (5, 8, 3), (1, 31, 8)),
    2: ((2, 9, 8, 3), (2, 9, 13, 3), (3, 15, 8, 3), (1, 4, 21, 8)),
    3: ((1, 5, 6, 7, 3), (1, 5, 6, 9, 3), (2, 8, 7, 4, 3)),
}


@NDIMS
def test_compile_of_round_trips(ndim: int):
    inputs = [Data("ties", 0).array(shape, mx.float32) for shape in SIZES[ndim]]
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 0)):

        def there_and_back(x):
            values, indices = max_op(ndim)(
                x,
                kernel,  # noqa: B023
                stride,  # noqa: B023
                padding,  # noqa: B023
                return_indices=True,
            )
            return unpool_op(ndim)(values, indices, kernel, stride, padding)  # noqa: B023

        check_compile(there_and_back, inputs)


def test_shapeless_compile_of_x_and_indices():
    rng = np.random.default_rng(0)
    for options in ({}, {"stride": 3, "padding": 1}):

        def f(x, i):
            return unpool_op(2)(x, i, 4, **options)  # noqa: B023

        def gradient(x, i):
            return mx.grad(lambda x: (f(x, i) ** 2).sum())(x)

        for function in (f, gradient):
            compiled = mx.compile(function, shapeless=True)
            for shape in ((2, 3, 4, 3), (2, 5, 4, 3), (1, 2, 2, 8), (3, 7, 2, 1)):
                x = Data("ties", 0).array(shape, mx.float32)
                indices = mx.array(rng.integers(-3, 300, shape), mx.int32)
                assert_identical(compiled(x, indices), function(x, indices))


def test_calls_that_differ_are_not_merged_by_compile():
    x = Data("normal", 0).array((1, 4, 4, 2), mx.float32)
    rng = np.random.default_rng(0)
    first, second = (mx.array(rng.integers(0, 64, x.shape), mx.uint32) for _ in "ab")

    def calls(x):
        return [
            unpool_op(2)(x, first, 2),
            unpool_op(2)(x, second, 2),
            unpool_op(2)(-x, first, 2),
            unpool_op(2)(x, first, 2, output_size=(9, 8)),
            unpool_op(2)(x, first, 2, output_size=(8, 9)),
            unpool_op(2)(x, first, 2, output_size=(7, 9)),
        ]

    for merged, alone in zip(mx.compile(calls)(x), calls(x), strict=True):
        assert_identical(merged, alone)


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=short_name)
def test_composed(dtype: mx.Dtype):
    rng = np.random.default_rng(0)
    for size in ((9,), (4, 5), (3, 2, 3)):
        shape = (2, *(3, 2, 2)[: len(size)], 3)
        for index_dtype in (mx.uint32, mx.int64):
            indices = rng.integers(0, math.prod(size) + 2, shape)
            f = fixed(unpool, mx.array(indices).astype(index_dtype), size)
            for kind in ("nan", "ties"):
                check_composed(f, Data(kind, 0).array(shape, dtype))


@given(drawn=unpoolings(), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_composed_of_any_indices(drawn, seed: int):
    size, indices = drawn
    x = Data("ties", seed).array(indices.shape, mx.float32)
    check_composed(fixed(unpool, mx.array(indices), size), x)


def test_composed_uses_no_primitive_of_ours():
    x, indices = mx.ones((1, 3, 3, 2)), mx.zeros((1, 3, 3, 2), mx.uint32)
    f = fixed(unpool_op(2), indices, 2)
    with mlx_pooling.composed():
        outputs = [f(x), mx.grad(power_sum(f, 2))(x)]
    assert not our_primitives(*outputs)


# Errors


def errors_of(ndim: int, x, indices, kernel_size=2, output_size=None, **options):
    """The messages of function and layer without their names."""
    with pytest.raises((ValueError, TypeError)) as raised:
        unpool_op(ndim)(x, indices, kernel_size, **options, output_size=output_size)
    assert str(raised.value).startswith(f"[max_unpool{ndim}d] ")
    with pytest.raises((ValueError, TypeError)) as other:
        layer(ndim)(kernel_size, **options)(x, indices, output_size)
    assert str(other.value).startswith(f"[MaxUnpool{ndim}d] ")
    return [str(error.value).split("] ", 1)[1] for error in (raised, other)]


def inputs(ndim: int) -> tuple[mx.array, mx.array]:
    shape = (2, *(4, 5, 3)[:ndim], 3)
    return mx.ones(shape), mx.zeros(shape, mx.uint32)


@NDIMS
def test_indices_of_another_shape(ndim: int):
    x, indices = inputs(ndim)
    for other in (indices[:1], indices[..., :1], indices[0], indices[:, :2],
                  mx.swapaxes(indices, 0, -1), indices[None]):  # fmt: skip
        for message in errors_of(ndim, x, other):
            assert "shape" in message


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64, mx.bool_], ids=short_name)
def test_indices_that_are_not_integers(dtype: mx.Dtype):
    x, indices = inputs(2)
    for message in errors_of(2, x, indices.astype(dtype)):
        assert "indices" in message


def test_a_default_output_size_out_of_range():
    x, indices = mx.ones((1, 1, 1)), mx.zeros((1, 1, 1), mx.uint32)
    expected = (
        "'output_size' must be 1 to 2 along spatial axis 0 but would be -2, which"
    )
    for message in errors_of(1, x, indices, 2, stride=5, padding=2):
        assert message.startswith(expected)


@pytest.mark.parametrize(
    "bad",
    [
        *[8.0, "8", (8,) * 5, (), (8.0, 10.0), ("8", 10), (True, 10), (1, 2, 8, 10, 3)],
        *[(6, 10), (10, 10), (8, 12), (-8, 10), (8, 2**40)],
    ],
    ids=repr,
)
def test_output_sizes_of_the_wrong_form_or_out_of_range(bad):
    x, indices = inputs(2)
    for message in errors_of(2, x, indices, output_size=bad):
        assert "'output_size'" in message


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        *[("kernel_size", bad) for bad in (0, -1, 2.0, (2,), None)],
        *[("stride", bad) for bad in (0, 2.5, (2, 0))],
        *[("padding", bad) for bad in (-1, 1.5, (0,), (0, -1))],
    ],
    ids=str,
)
def test_sizes_that_are_wrong(argument: str, bad):
    x, indices = inputs(2)
    for message in errors_of(2, x, indices, **{"kernel_size": 2, argument: bad}):
        assert f"'{argument}'" in message


def test_a_plane_of_no_size():
    """Padding as wide as the plane leaves nothing of it."""
    x, indices = mx.ones((1, 2, 2, 1)), mx.zeros((1, 2, 2, 1), mx.uint32)
    errors_of(2, x, indices, padding=3)


@NDIMS
def test_wrong_rank(ndim: int):
    for rank in range(7):
        x = mx.ones((2,) * rank)
        indices = mx.zeros(x.shape, mx.uint32)
        if rank in (ndim + 1, ndim + 2):
            assert unpool_op(ndim)(x, indices, 2).ndim == rank
        else:
            errors_of(ndim, x, indices)


@pytest.mark.parametrize("bad", [None, 1, np.zeros((2, 4, 5, 3))], ids=type)
def test_arguments_that_are_not_mlx_arrays(bad):
    x, indices = inputs(2)
    for arguments in ((bad, indices), (x, bad)):
        with pytest.raises(TypeError, match=r"^\[max_unpool2d\] "):
            unpool_op(2)(*arguments, 2)


def test_missing_and_keyword_only_arguments():
    x, indices = inputs(2)
    with pytest.raises(TypeError):
        unpool_op(2)(x, 2)
    with pytest.raises(TypeError):
        unpool_op(2)(x, indices, 2, 2, 0, None, mx.cpu)
    expected = unpool_op(2)(x, indices, 2)
    assert_identical(unpool_op(2)(x, indices, 2, stream=mx.cpu), expected)


# Layers


@NDIMS
def test_layers(ndim: int):
    x = Data("normal", 1).array((2, *(8, 9, 7)[:ndim], 3), mx.float32)
    values, indices = max_op(ndim)(x, 3, 2, 1, return_indices=True)
    module = layer(ndim)(3, 2, 1)
    assert_identical(module(values, indices), unpool_op(ndim)(values, indices, 3, 2, 1))
    back = unpool_op(ndim)(values, indices, 3, 2, 1, output_size=x.shape)
    assert_identical(module(values, indices, x.shape), back)
    assert not module.parameters()


def test_repr():
    shown = repr(layer(2)(3, 2, 1))
    assert shown == "MaxUnpool2d(kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))"
    shown = repr(layer(1)(4))
    assert shown == "MaxUnpool1d(kernel_size=(4,), stride=(4,), padding=(0,))"
