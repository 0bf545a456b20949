"""vmap, compile, checkpoint and what they make together."""

from __future__ import annotations

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
import reference
from checks import assert_all_close, one_by_one
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FINITE, Case, Data, average_options, cases
from support import (
    NDIMS,
    POOLS,
    assert_identical,
    assert_same,
    avg_op,
    avg_pool,
    exact,
    fixed,
    geometry,
    graph_nodes,
    jvp,
    max_op,
    max_pool,
    power_sum,
    unpool_op,
    vjp,
)


def stacked(f, x: mx.array, axis: int) -> mx.array:
    (y,) = one_by_one(f, x, axis)
    return y


@NDIMS
@pytest.mark.parametrize("batched", [True, False])
@POOLS
def test_vmap_over_every_axis(pool, batched: bool, ndim: int):
    shape = ((2,) if batched else ()) + (5, 6, 4)[:ndim] + (3,)
    f = fixed(pool(ndim), 3, 2, 1)
    for axis in range(len(shape) + 1):
        x = Data("nan", axis).array((*shape[:axis], 3, *shape[axis:]), mx.float32)
        expected = stacked(f, x, axis)
        for out_axis in range(len(shape) + 1):
            y = mx.vmap(f, in_axes=axis, out_axes=out_axis)(x)
            assert_identical(y, mx.moveaxis(expected, 0, out_axis))
        y = mx.vmap(f, in_axes=axis - len(shape) - 1)(x)
        assert_identical(y, expected)


@NDIMS
@POOLS
def test_nested_vmap(pool, ndim: int):
    shape = (2, *(5, 6, 4)[:ndim], 3)
    x = Data("ties", 0).array((3, *shape, 2), mx.float32)
    f = fixed(pool(ndim), 2, 1, 1)
    y = mx.vmap(mx.vmap(f, in_axes=-1))(x)
    assert_identical(y, stacked(lambda x: stacked(f, x, x.ndim - 1), x, 0))


@given(case=cases(), axis=st.integers(0, 4), options=average_options())
def test_vmap_of_every_geometry(case: Case, axis: int, options: dict, device: str):
    axis %= len(case.input_shape) + 1
    shape = (*case.input_shape[:axis], 2, *case.input_shape[axis:])
    x = case.data.array(shape, mx.float32)

    def both(x):
        return max_pool(x, case.geometry, return_indices=True)

    for i in range(2):
        y = mx.vmap(both, in_axes=axis)(x)[i]
        assert_identical(y, stacked(lambda x, i=i: both(x)[i], x, axis))
    average = fixed(avg_pool, case.geometry, **options)
    # How a GPU shares out the taps, and so adds them up, depends on the batch. Sums
    # of all other data are exact.
    is_rounded = device != "cpu" and case.data.kind == "normal"
    same = assert_all_close if is_rounded else assert_identical
    same(mx.vmap(average, in_axes=axis)(x), stacked(average, x, axis))


@NDIMS
@POOLS
def test_vmap_of_grad_over_every_axis(pool, ndim: int):
    shape = (2, *(5, 6, 4)[:ndim], 3)
    gradient = mx.grad(lambda x: (pool(ndim)(x, 3, 2, 1) ** 2).sum())
    for axis in range(len(shape) + 1):
        x = Data("ties", axis).array((*shape[:axis], 3, *shape[axis:]), mx.float32)
        assert_identical(mx.vmap(gradient, in_axes=axis)(x), stacked(gradient, x, axis))


@pytest.mark.parametrize("axis", range(5))
@POOLS
def test_vmap_with_one_side_of_the_gradient_mapped(pool, axis: int):
    """Only the cotangent, only the input, or each along another axis."""
    f = fixed(pool(2), 3, 2, 1)
    x = Data("ties", 0).array((2, 5, 6, 3), mx.float32)
    dy = Data("ties", 1).array(f(x).shape, mx.float32)
    xs = mx.stack([x, -x, x + 1], axis)
    dys = mx.stack([dy, 2 * dy, 1 - dy], axis)
    pull = partial(vjp, f)
    assert_identical(
        mx.vmap(pull, in_axes=(None, axis))(x, dys),
        stacked(lambda dy: pull(x, dy), dys, axis),
    )
    assert_identical(
        mx.vmap(pull, in_axes=(axis, None))(xs, dy),
        stacked(lambda x: pull(x, dy), xs, axis),
    )
    pairs = zip(
        mx.split(xs, 3, axis), mx.split(mx.moveaxis(dys, axis, 0), 3), strict=True
    )
    expected = mx.stack([pull(a.squeeze(axis), b.squeeze(0)) for a, b in pairs])
    y = mx.vmap(pull, in_axes=(axis, 0))(xs, mx.moveaxis(dys, axis, 0))
    assert_identical(y, expected)

    push = partial(jvp, f)
    ts = mx.stack([x, 2 * x, 1 - x], axis)
    assert_identical(
        mx.vmap(push, in_axes=(None, axis))(x, ts),
        stacked(lambda t: push(x, t), ts, axis),
    )
    assert_identical(
        mx.vmap(push, in_axes=(axis, None))(xs, x),
        stacked(lambda y: push(y, x), xs, axis),
    )


@pytest.mark.parametrize("axis", range(5))
@POOLS
def test_vmap_of_the_gradient_of_a_plain_sum(pool, axis: int):
    """Its cotangent is one constant; for an average so is the whole gradient."""
    gradient = mx.grad(lambda x: pool(2)(x, 3, 2, 1).sum())
    second = mx.grad(lambda x: (gradient(x) * x).sum())
    x = Data("ties", 0).array((2, 5, 6, 3), mx.float32)
    xs = mx.stack([x, -x, x + 1], axis)
    for f in (gradient, second):
        assert_identical(mx.vmap(f, in_axes=axis)(xs), stacked(f, xs, axis))


@POOLS
def test_vmap_past_something_that_is_not_mapped(pool):
    """Each primitive meets an input that was reached from x but is the same for all
    of its examples."""
    x = Data("ties", 0).array((2, 5, 6, 3), mx.float32)
    constant = mx.grad(lambda x: avg_op(2)(x, 3, 2, 1).sum())  # x is not in it
    pooled = fixed(pool(2), 2, 1)
    dy = pooled(x)
    uses = (
        lambda x: pooled(constant(x)),
        lambda x: vjp(pooled, constant(x), dy),
        lambda x: vjp(pooled, x, pooled(constant(x))),
        lambda x: jvp(pooled, x, constant(x)),
        lambda x: jvp(pooled, constant(x), x),
        lambda x: jvp(pooled, constant(x), constant(x)),
        lambda x: pool(2)(constant(x), 2, 1, 0) + pooled(x),
    )
    xs = mx.stack([x, -x, x + 1])
    for use in uses:
        assert_identical(mx.vmap(use)(xs), stacked(use, xs, 0))

    def indices(x):
        return max_op(2)(constant(x), 2, return_indices=True)[1]

    assert_identical(mx.vmap(indices)(xs), stacked(indices, xs, 0))


@pytest.mark.parametrize(
    "axes", [(0, 0, 0), (None, 0, 0), (None, 2, -1), (None, None, 0)], ids=str
)
@POOLS
@given(case=cases(FINITE))
@settings(max_examples=25)
def test_vmap_of_jvp_of_vjp(pool, axes: tuple[int | None, ...], case: Case):
    """Of all three arguments or only some, over differing axes."""
    f = fixed(max_pool if pool is max_op else avg_pool, case.geometry)
    examples = [
        Data("ties", s).array((3, *shape), mx.float32)
        for s, shape in enumerate(
            (case.input_shape, case.output_shape, case.output_shape)
        )
    ]

    def push_pull(x, dy, t):
        return jvp(lambda dy: vjp(f, x, dy) ** 3, dy, t)

    def of_example(i: int) -> mx.array:
        places = (0 if axis is None else i for axis in axes)
        return push_pull(*(a[i] for a, i in zip(examples, places, strict=True)))

    arguments = [
        a[0] if axis is None else mx.moveaxis(a, 0, axis)
        for a, axis in zip(examples, axes, strict=True)
    ]
    expected = mx.stack([of_example(i) for i in range(3)])
    assert_identical(mx.vmap(push_pull, in_axes=axes)(*arguments), expected)


@POOLS
def test_per_example_gradients(pool):
    """Jacobian rows by vmap of vjp over one-hot cotangents."""
    f = fixed(pool(1), 3, 1)
    x = mx.array([3.0, 1.0, 4.0, 1.0, 5.0]).reshape(1, 5, 1)
    rows = mx.vmap(lambda dy: vjp(f, x, dy))(mx.eye(3).reshape(3, 1, 3, 1))
    columns = mx.vmap(lambda t: jvp(f, x, t))(mx.eye(5).reshape(5, 1, 5, 1))
    np.testing.assert_array_equal(
        exact(rows).reshape(3, 5), exact(columns).reshape(5, 3).T
    )


@POOLS
@given(case=cases(max_batch=1))
@settings(max_examples=12)
def test_compile(pool, case: Case):
    g = case.geometry
    x = case.input()
    pooled = fixed(max_pool if pool is max_op else avg_pool, g)

    def f(x):
        return mx.nan_to_num(pooled(x * 2) + 1)

    gradient = mx.grad(lambda x: (f(x) * f(x)).sum())
    assert_identical(mx.compile(f)(x), f(x))
    assert_identical(mx.compile(gradient)(x), gradient(x))
    assert_identical(mx.compile(mx.vmap(gradient))(x[None])[0], gradient(x))


SHAPES = {
    1: ((2, 9, 3), (2, 12, 3), (5, 9, 3), (1, 31, 8)),
    2: ((2, 9, 8, 3), (2, 9, 13, 3), (3, 15, 8, 3), (1, 4, 21, 8)),
    3: ((1, 5, 6, 7, 3), (1, 5, 6, 9, 3), (2, 8, 7, 4, 3), (1, 4, 4, 4, 16)),
}
OPTIONS = (
    {},
    {"stride": 2, "padding": 1},
    {"stride": 2, "padding": 1, "ceil_mode": True, "dilation": 2},
)


@NDIMS
@pytest.mark.parametrize("options", OPTIONS)
@POOLS
def test_shapeless_compile(pool, options: dict, ndim: int):
    f = fixed(pool(ndim), 2, **options)
    gradient = mx.grad(power_sum(f, 2))
    second = mx.grad(power_sum(gradient, 2))
    for g in (f, gradient, second):
        compiled = mx.compile(g, shapeless=True)
        for shape in SHAPES[ndim]:
            x = Data("ties", 0).array(shape, mx.float32)
            assert_identical(compiled(x), g(x))


@NDIMS
@POOLS
def test_shapeless_compile_of_vjp_and_jvp(pool, ndim: int):
    f = fixed(pool(ndim), 3, 2, 1)
    pull, push = partial(vjp, f), partial(jvp, f)
    compiled_pull = mx.compile(pull, shapeless=True)
    compiled_push = mx.compile(push, shapeless=True)
    for shape in SHAPES[ndim]:
        x = Data("relu", 0).array(shape, mx.float32)
        t = Data("ties", 1).array(shape, mx.float32)
        dy = Data("ties", 2).array(f(x).shape, mx.float32)
        assert_identical(compiled_pull(x, dy), pull(x, dy))
        assert_identical(compiled_push(x, t), push(x, t))


@NDIMS
def test_shapeless_compile_of_indices(ndim: int):
    """The index of a position depends on the size of the plane."""
    f = fixed(max_op(ndim), 3, 2, 1, return_indices=True)
    compiled = mx.compile(f, shapeless=True)
    for shape in SHAPES[ndim]:
        x = Data("ties", 0).array(shape, mx.float32)
        for a, b in zip(compiled(x), f(x), strict=True):
            assert_identical(a, b)


@NDIMS
@POOLS
def test_shapeless_compile_unbatched(pool, ndim: int):
    f = fixed(pool(ndim), 3, 2, 1)
    gradient = mx.grad(lambda x: f(x).sum())
    for g in (f, gradient):
        compiled = mx.compile(g, shapeless=True)
        for shape in SHAPES[ndim]:
            x = Data("ties", 0).array(shape[1:], mx.float32)
            assert_identical(compiled(x), g(x))


@POOLS
def test_shapeless_compile_with_a_shape_too_small_for_the_kernel(pool):
    compiled = mx.compile(lambda x: pool(2)(x, 5), shapeless=True)
    assert compiled(mx.zeros((1, 8, 8, 2))).shape == (1, 1, 1, 2)
    with pytest.raises(ValueError):
        compiled(mx.zeros((1, 4, 8, 2)))
    assert compiled(mx.zeros((1, 10, 5, 2))).shape == (1, 2, 1, 2)


def test_shapeless_compile_with_more_positions_than_indices_can_number():
    def largest(x):
        return max_op(2)(x, 4, return_indices=True)

    def unpooled(x):
        return unpool_op(2)(x, x.astype(mx.uint32), 2)

    for f in (largest, unpooled):
        compiled = mx.compile(f, shapeless=True)
        mx.eval(compiled(mx.zeros((1, 8, 8, 1), mx.uint8)))
        for g in (f, compiled):
            with pytest.raises(ValueError, match="cannot number the positions"):
                g(mx.broadcast_to(mx.array(0, mx.uint8), (1, 2**16, 2**16, 1)))


@POOLS
def test_checkpoint(pool):
    x = Data("ties", 0).array((2, 9, 9, 3), mx.float32)
    pooled = fixed(pool(2), 3, 2, 1)

    def f(x):
        return (pooled(x * x) ** 2).sum()

    def second(f):
        return mx.grad(power_sum(mx.grad(f), 2))

    checkpointed = mx.checkpoint(f)
    assert_identical(mx.grad(checkpointed)(x), mx.grad(f)(x))
    assert_identical(second(checkpointed)(x), second(f)(x))
    assert_identical(mx.compile(mx.grad(checkpointed))(x), mx.grad(f)(x))


@POOLS
def test_stop_gradient(pool):
    x = Data("normal", 0).array((1, 6, 6, 2), mx.float32)

    def f(x):
        return pool(2)(mx.stop_gradient(x), 2).sum() + x.sum()

    assert_same(mx.grad(f)(x), np.ones((1, 6, 6, 2)))


@POOLS
def test_calls_that_differ_are_not_merged_by_compile(pool):
    """compile joins equivalent calls; each parameter must count."""
    x = Data("normal", 5).array((1, 12, 12, 2), mx.float32)
    same_output_shape = [
        {"kernel_size": 3, "stride": 2, "padding": ((1, 2), (1, 2))},
        {"kernel_size": 3, "stride": 2, "padding": ((2, 1), (1, 2))},
        {"kernel_size": 3, "stride": 2, "padding": ((1, 2), (2, 1))},
        {"kernel_size": (2, 3), "stride": 2, "padding": ((1, 1), (1, 2))},
        {"kernel_size": (3, 2), "stride": 2, "padding": ((1, 2), (1, 1))},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": 2, "dilation": 2, "ceil_mode": True},
        {"kernel_size": 2, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "stride": 2, "padding": ((2, 0), (1, 1))},
    ]
    if pool is avg_op:
        base = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}
        same_output_shape += [
            base | {"padding": ((1, 2), (1, 1))},
            base | {"padding": ((1, 1), (1, 2))},
            base | {"count_include_pad": False},
            base | {"divisor_override": 2},
            base | {"divisor_override": 3},
            base | {"divisor_override": -3},
        ]

    def forward(x):
        return [pool(2)(x, **options) for options in same_output_shape]

    def backward(x):
        return [
            mx.grad(lambda x, o=options: (pool(2)(x, **o) ** 2).sum())(x)
            for options in same_output_shape
        ]

    for f in (forward, backward):
        together = mx.compile(f)(x)
        for merged, alone in zip(together, f(x), strict=True):
            assert_identical(merged, alone)


def test_calls_that_agree_are_merged_by_compile():
    def f(x):
        return max_op(2)(x, 2) + max_op(2)(x, 2, stride=2)

    x = mx.ones((1, 4, 4, 1))
    mx.eval(x)
    nodes = [name for name, _ in graph_nodes(mx.compile(f)(x))]
    assert nodes.count("MaxPool") == 1


@NDIMS
def test_indices_under_vmap_are_per_plane(ndim: int):
    g = geometry((5, 6, 4)[:ndim], 3, 2, 1)
    x = Data("ties", 0).array((3, 2, *g.size, 3), mx.float32)
    indices = mx.vmap(lambda x: max_pool(x, g, return_indices=True)[1])(x)
    assert indices.dtype == mx.uint32
    for part, found in zip(x, indices, strict=True):
        assert_same(found, reference.max_pool(exact(part), g).indices)


@POOLS
def test_empty_vmap_and_empty_compile(pool):
    x = mx.zeros((3, 0, 6, 6, 2))
    f = fixed(pool(2), 2)
    assert mx.vmap(f)(x).shape == (3, 0, 3, 3, 2)
    assert mx.compile(f)(x[0]).shape == (0, 3, 3, 2)
