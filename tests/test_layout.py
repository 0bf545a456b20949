"""Views of every kind as input and cotangent, unbatched input, and empty arrays."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
import reference
from hypothesis import given
from strategies import Case, Data, cases
from support import (
    FLOATS,
    NDIMS,
    POOLS,
    assert_identical,
    assert_rounded,
    assert_same,
    avg_op,
    avg_pool,
    exact,
    fixed,
    geometry,
    max_op,
    max_pool,
    power_sum,
)

SHAPE = (2, 7, 6, 5)


def base(shape: tuple[int, ...], dtype: mx.Dtype = mx.float32) -> mx.array:
    x = Data("ties", 0).array(shape, dtype)
    mx.eval(x)
    return x


def starting_at(offset: int) -> mx.array:
    """Row-contiguous data that begins at some element of its buffer."""
    size = int(np.prod(SHAPE))
    return base((size + offset,))[offset:].reshape(SHAPE)


VIEWS = {
    "every other channel": lambda: base((2, 7, 6, 10))[..., ::2],
    "every other column": lambda: base((2, 7, 12, 5))[:, :, ::2],
    "every other row": lambda: base((2, 14, 6, 5))[:, ::2],
    "every other plane": lambda: base((4, 7, 6, 5))[::2],
    "middle channels": lambda: base((2, 7, 6, 9))[..., 1:6],
    "middle rows and columns": lambda: base((2, 9, 9, 5))[:, 1:8, 2:8],
    "the second plane on": lambda: base((3, 7, 6, 5))[1:],
    "backwards channels": lambda: base(SHAPE)[..., ::-1],
    "backwards rows": lambda: base(SHAPE)[:, ::-1],
    "backwards everywhere": lambda: base(SHAPE)[::-1, ::-1, ::-1, ::-1],
    "channels first": lambda: base((2, 5, 7, 6)).transpose(0, 2, 3, 1),
    "columns before rows": lambda: base((2, 6, 7, 5)).swapaxes(1, 2),
    "batch last": lambda: base((7, 6, 5, 2)).transpose(3, 0, 1, 2),
    "one plane repeated": lambda: mx.broadcast_to(base((1, 7, 6, 5)), SHAPE),
    "one row repeated": lambda: mx.broadcast_to(base((2, 1, 6, 5)), SHAPE),
    "one column repeated": lambda: mx.broadcast_to(base((2, 7, 1, 5)), SHAPE),
    "one channel repeated": lambda: mx.broadcast_to(base((2, 7, 6, 1)), SHAPE),
    "one value": lambda: mx.broadcast_to(mx.array(2.0), SHAPE),
    "overlapping strides": lambda: mx.as_strided(
        base((100,)), SHAPE, (3, 5, 2, 1), offset=1
    ),
    "from element 1": lambda: starting_at(1),
    "from element 2": lambda: starting_at(2),
    "from element 3": lambda: starting_at(3),
    "from element 7": lambda: starting_at(7),
    "not yet evaluated": lambda: base(SHAPE) * 2,
}
EACH_VIEW = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def copied(x: mx.array) -> mx.array:
    """The same values, by way of NumPy, in memory of their own."""
    return mx.array(np.array(x, order="C"))


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 1)])
@EACH_VIEW
@POOLS
def test_input_views(pool, view, kernel: int, stride: int):
    x = view()
    assert_identical(
        pool(2)(x, kernel, stride, 1), pool(2)(copied(x), kernel, stride, 1)
    )
    assert_identical(x, copied(x))


@EACH_VIEW
def test_input_views_with_indices(view):
    x = view()
    g = geometry(SHAPE[1:-1], 3, 2, 1)
    values, indices = max_pool(x, g, return_indices=True)
    expected = reference.max_pool(exact(x), g)
    assert_same(values, expected.values)
    assert_same(indices, expected.indices)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1)])
@EACH_VIEW
@POOLS
def test_cotangent_and_tangent_views(pool, view, kernel: int, stride: int):
    f = fixed(pool(2), kernel, stride, kernel // 2)
    x, dy = base(SHAPE), view()  # these windows keep the shape
    (dx,), (from_copy,) = (mx.vjp(f, [x], [d])[1] for d in (dy, copied(dy)))
    assert_identical(dx, from_copy)
    (y,), (from_copy,) = (mx.jvp(f, [x], [t])[1] for t in (dy, copied(dy)))
    assert_identical(y, from_copy)


@EACH_VIEW
@POOLS
def test_gradient_at_input_views(pool, view):
    x = view()
    gradient = mx.grad(lambda x: (pool(2)(x, 3, 2, 1) ** 2).sum())
    second = mx.grad(lambda x: (gradient(x) ** 2).sum())
    assert_identical(gradient(x), gradient(copied(x)))
    assert_identical(second(x), second(copied(x)))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("offset", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [*FLOATS, mx.int8, mx.uint8, mx.bool_], ids=str)
def test_every_alignment_of_every_size(dtype: mx.Dtype, offset: int, channels: int):
    shape = (1, 5, 6, channels)
    size = 30 * channels
    x = base((size + offset,), dtype)[offset:].reshape(shape)
    y = max_op(2)(x, 3, 2, 1)
    assert_same(y, reference.max_pool(exact(x), geometry((5, 6), 3, 2, 1)).values)
    assert_identical(avg_op(2)(x, 3, 2, 1), avg_op(2)(mx.contiguous(x + 0), 3, 2, 1))


@POOLS
def test_the_result_of_one_pool_as_the_input_of_the_next(pool):
    x = base((2, 16, 16, 3))
    y = pool(2)(pool(2)(x, 3, 2, 1), 3, 2, 1)
    middle = copied(pool(2)(x, 3, 2, 1))
    assert_identical(y, pool(2)(middle, 3, 2, 1))
    assert_identical(pool(2)(pool(2)(x, 3, 1)[:, 1:, ::-1], 2),
                     pool(2)(copied(pool(2)(x, 3, 1)[:, 1:, ::-1]), 2))  # fmt: skip


def channels_lie_first(y: mx.array) -> bool:
    strides = np.asarray(y).strides
    return strides[-1] == max(strides[1:])


@pytest.mark.parametrize("evaluated", [False, True])
@POOLS
def test_channels_first_views_are_pooled_where_they_lie(pool, evaluated: bool):
    """Where rows are long; else, on the CPU, a copy is faster."""
    long = base((2, 5, 7, 30)).transpose(0, 2, 3, 1)
    short = base((2, 5, 30, 7)).transpose(0, 2, 3, 1)
    if evaluated:
        mx.eval(long, short)
    for x, lies_first in (
        (long, True),
        (short, mx.default_device() == mx.gpu),
        (mx.contiguous(long), False),
    ):
        for stride in (1, 2):
            y = pool(2)(x, 3, stride, 1)
            mx.eval(y)
            assert channels_lie_first(y) == lies_first
            assert_identical(y, pool(2)(copied(x), 3, stride, 1))


ROWS = pytest.mark.parametrize("width", [6, 30], ids=["short", "long"])


@ROWS
@NDIMS
@POOLS
def test_unbatched_channels_first_views(pool, ndim: int, width: int):
    x = mx.moveaxis(base((5, *(7, 8)[: ndim - 1], width)), 0, -1)
    for stride in (1, 2):
        assert_identical(
            pool(ndim)(x, 3, stride, 1), pool(ndim)(copied(x), 3, stride, 1)
        )


@ROWS
@pytest.mark.parametrize("stride", [1, 2])
def test_indices_of_channels_first_views(stride: int, width: int):
    view = base((2, 5, 7, width)).transpose(0, 2, 3, 1)
    g = geometry((7, width), 3, stride, 1)
    actual = max_pool(view, g, return_indices=True)
    expected = max_pool(copied(view), g, return_indices=True)
    for a, b in zip(actual, expected, strict=True):
        assert_identical(a, b)


@POOLS
def test_an_array_that_begins_inside_an_element(pool, device: str):
    """Of its buffer, as what views bytes may."""
    x = base((2 * 6 * 7 * 8 * 2 + 2,), mx.uint8)[1:-1].view(mx.float16)
    x = x.reshape(2, 6, 7, 8)
    if device != "cpu":
        with pytest.raises(ValueError, match="begins inside of an element"):
            mx.eval(pool(2)(x, 3, 1))
        return
    assert_identical(pool(2)(x, 3, 1), pool(2)(mx.array(np.array(x)), 3, 1))


@POOLS
def test_the_input_is_left_alone(pool):
    """Nothing is written to it, even when it could be reused for the output."""
    x = base(SHAPE) + 1
    before = np.array(x)
    mx.eval(mx.grad(lambda x: pool(2)(x, 2).sum())(x), pool(2)(x, 2))
    np.testing.assert_array_equal(np.array(x), before)


@given(case=cases(max_batch=1))
def test_unbatched(case: Case):
    x = case.input()
    g = case.geometry
    for pool in (max_pool, avg_pool):
        f = fixed(pool, g)
        assert_identical(f(x[0]), f(x)[0])
        dy = case.more(case.output_shape)
        (single,), (batched,) = (
            mx.vjp(f, [a], [d])[1] for a, d in ((x[0], dy[0]), (x, dy))
        )
        assert_identical(single, batched[0])
        t = case.more(case.input_shape)
        (single,), (batched,) = (
            mx.jvp(f, [a], [d])[1] for a, d in ((x[0], t[0]), (x, t))
        )
        assert_identical(single, batched[0])


EMPTY = {
    "no batch": (0, 6, 6, 6, 3),
    "no channels": (2, 6, 6, 6, 0),
    "neither": (0, 6, 6, 6, 0),
}


def empty_shape(which: str, ndim: int) -> tuple[int, ...]:
    shape = EMPTY[which]
    return (*shape[: 1 + ndim], shape[-1])


@pytest.mark.parametrize("which", EMPTY)
@NDIMS
@POOLS
def test_empty_input(pool, ndim: int, which: str):
    shape = empty_shape(which, ndim)
    for dtype in (mx.float32, mx.bfloat16, mx.int32):
        x = mx.zeros(shape, dtype)
        y = pool(ndim)(x, 3, 2, 1)
        mx.eval(y)
        assert y.shape == (shape[0], *(3,) * ndim, shape[-1])
        assert y.dtype == (
            mx.float32 if dtype == mx.int32 and pool is avg_op else dtype
        )
    if pool is max_op:
        values, indices = pool(ndim)(mx.zeros(shape), 2, return_indices=True)
        mx.eval(values, indices)
        assert indices.shape == values.shape and indices.dtype == mx.uint32


@pytest.mark.parametrize("which", EMPTY)
@NDIMS
@POOLS
def test_gradients_of_empty_input(pool, ndim: int, which: str):
    x = mx.zeros(empty_shape(which, ndim))
    f = power_sum(fixed(pool(ndim), 3, 2, 1), 3)
    first = mx.grad(f)
    second = mx.grad(lambda x: first(x).sum())
    for gradient in (first, second, mx.compile(second)):
        assert_same(gradient(x), np.zeros(x.shape))
    (y,), (dy,) = mx.jvp(lambda x: pool(ndim)(x, 3, 2, 1), [x], [x])
    mx.eval(y, dy)
    assert dy.shape == y.shape


@pytest.mark.parametrize("channels", [1, 3, 16, 70])
@pytest.mark.parametrize("size", [(0,), (0, 4), (4, 0), (0, 0), (4, 0, 4)], ids=str)
@POOLS
def test_a_spatial_axis_of_no_length(pool, size: tuple[int, ...], channels: int):
    """Legal once padded: every window is without a valid tap."""
    x = mx.zeros((2, *size, channels))
    op = pool(len(size))
    for kernel, stride, padding in ((2, 2, 1), (2, 1, 1), (3, 1, 2), (12, 1, 6)):
        y = op(x, kernel, stride, padding)
        nothing = -np.inf if pool is max_op else 0.0
        assert_same(y, np.full(y.shape, nothing))
        dx = mx.grad(lambda x: op(x, kernel, stride, padding).sum())(x)  # noqa: B023
        assert dx.shape == x.shape
    with pytest.raises(ValueError):
        op(x, 2)


@POOLS
def test_empty_unbatched(pool):
    y = pool(2)(mx.zeros((6, 6, 0)), 2)
    mx.eval(y)
    assert y.shape == (3, 3, 0)


@pytest.mark.parametrize(
    "shape", [(10**6, 4, 1), (1, 4, 10**6), (1, 10**6, 1), (3, 1, 1), (1, 10**6, 3)]
)
@POOLS
def test_long_thin_shapes(pool, shape: tuple[int, ...]):
    x = (mx.arange(int(np.prod(shape))) % 251).astype(mx.float32).reshape(shape)
    f = fixed(pool(1), 2, 1, 1)
    padded = np.pad(exact(x), ((0, 0), (1, 1), (0, 0)))
    a, b = padded[:, :-1], padded[:, 1:]  # values are not negative: 0 pads both
    assert_same(f(x), np.maximum(a, b) if pool is max_op else (a + b) / 2)
    dx = mx.grad(lambda x: f(x).sum())(x)
    assert dx.sum().item() == (np.prod(f(x).shape) if pool is max_op else x.size)


def test_a_broadcast_cotangent_of_half_precision():
    """What mx.sum hands back is one value repeated."""
    for dtype in (mx.float16, mx.bfloat16):
        x = base((1, 9, 9, 3), dtype)
        g = geometry((9, 9), 3, 2)
        dx = mx.grad(power_sum(fixed(avg_pool, g), 1))(x)
        expected = reference.avg_pool_grad(np.ones((1, 4, 4, 3)), g)
        assert_rounded(dx, expected, expected, 9)
