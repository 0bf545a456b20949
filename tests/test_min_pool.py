"""Min pooling: max pooling with the order reversed, but for NaN."""

from __future__ import annotations

import inspect
from contextlib import nullcontext

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
import reference
from checks import (
    assert_all_identical,
    check_compile,
    check_composed,
    check_derivatives,
    check_higher_orders,
    check_mixed_modes,
    check_vmap,
    check_winners,
    selection,
)
from hypothesis import given, settings
from reference import Geometry
from strategies import ANY, FINITE, Case, Data, cases
from support import (
    FLOATS,
    INTEGERS,
    NDIMS,
    ORDERED,
    assert_identical,
    assert_same,
    every_half,
    exact,
    fixed,
    geometry,
    irregular,
    layer,
    max_op,
    max_pool,
    min_op,
    min_pool,
    our_primitives,
    power_sum,
    short_name,
    takes_the_first_zero,
    vjp,
)


def check(x: mx.array, g: Geometry) -> None:
    check_winners(min_pool, x, g, reference.min_pool(exact(x), g))


def derivative(x: mx.array, g: Geometry):
    return selection(reference.min_pool(exact(x), g).indices, g)


@pytest.mark.parametrize("dtype", ORDERED, ids=short_name)
@given(case=cases())
@settings(max_examples=30)
def test_values_and_indices_of_every_dtype(dtype: mx.Dtype, case: Case):
    check(case.input(dtype), case.geometry)


@given(case=cases())
@settings(max_examples=25)
def test_float64_on_cpu(case: Case):
    with mx.stream(mx.cpu):
        x = case.input(mx.float64)
        check(x, case.geometry)
        linear = derivative(x, case.geometry)
        check_derivatives(fixed(min_pool, case.geometry), x, linear)


@NDIMS
@pytest.mark.parametrize("kind", ANY)
def test_each_kind_of_data(ndim: int, kind: str):
    g = irregular(ndim)
    for dtype in ORDERED:
        check(Data(kind, 0).array((2, *g.size, 5), dtype), g)


@NDIMS
@pytest.mark.parametrize("channels", [*range(1, 20), 31, 64, 65, 130])
def test_every_small_number_of_channels(ndim: int, channels: int):
    for stride in (1, 2, 3, 4):  # overlapping, adjoining and separate windows
        g = geometry((8, 7, 6)[:ndim], 3, stride, 1)
        x = Data("nan", channels).array((2, *g.size, channels), mx.float32)
        check(x, g)
        check(x.astype(mx.bfloat16), g)
        check(Data("ties", channels).array(x.shape, mx.int8), g)
        check_derivatives(fixed(min_pool, g), x, derivative(x, g))


@pytest.mark.parametrize("kernel", [5, 7, 9, 13, 17, 32])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_large_windows(kernel: int, stride: int):
    size = (20, 17) if stride == 1 and kernel > 13 else (40, 33)
    g = geometry(size, kernel, stride, kernel // 2)
    for kind in ("nan", "infinite", "normal"):
        check(Data(kind, kernel).array((1, *size, 3), mx.float32), g)


@given(case=cases())
def test_it_is_the_negative_of_the_maximum_of_the_negative(case: Case):
    """A property that needs no reference: of values and of indices."""
    x, g = case.input(), case.geometry
    values, indices = min_pool(x, g, return_indices=True)
    negative, same_indices = max_pool(-x, g, return_indices=True)
    assert_identical(values, -negative)
    assert_identical(indices, same_indices)


@pytest.mark.parametrize("dtype", [mx.bool_, *INTEGERS], ids=short_name)
@given(case=cases())
@settings(max_examples=15)
def test_complements_of_integers_swap_minimum_and_maximum(dtype: mx.Dtype, case: Case):
    x, g = case.input(dtype), case.geometry
    complement = mx.logical_not if dtype == mx.bool_ else mx.bitwise_invert
    values, indices = min_pool(x, g, return_indices=True)
    inverted, same_indices = max_pool(complement(x), g, return_indices=True)
    assert_identical(values, complement(inverted))
    assert_identical(indices, same_indices)


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
@given(case=cases())
@settings(max_examples=30)
def test_derivatives(dtype: mx.Dtype, case: Case):
    x, g = case.input(dtype), case.geometry
    check_derivatives(fixed(min_pool, g), x, derivative(x, g), case.data.seed)


@given(case=cases(FINITE, max_batch=1))
@settings(max_examples=30)
def test_higher_orders_and_mixed_modes(case: Case):
    x, g = case.input(), case.geometry
    check_higher_orders(fixed(min_pool, g), x, derivative(x, g))
    check_mixed_modes(fixed(min_pool, g), x, derivative(x, g))


# Which element wins


@NDIMS
def test_windows_wholly_in_the_padding(ndim: int):
    g = geometry((2, 3, 2)[:ndim], 2, 1, 5)
    for dtype in ORDERED:
        x = mx.zeros((1, *g.size, 3), dtype)
        values, indices = min_pool(x, g, return_indices=True)
        kind = np.dtype(str(dtype).split(".")[-1]) if dtype in INTEGERS else None
        highest = True if dtype == mx.bool_ else reference.highest(kind)
        corner = (0,) * (ndim + 1)
        assert np.all(exact(values)[corner] == highest)
        assert np.all(exact(indices)[corner] == reference.NO_INDEX)
        middle = (0, *(5,) * ndim)
        assert not exact(values)[middle].any()
    x = mx.ones((1, *g.size, 3))
    dx = vjp(fixed(min_pool, g), x, mx.ones((1, *g.output, 3)))
    covered = (reference.min_pool(exact(x), g).offsets >= 0).sum()
    assert exact(dx).sum() == covered


@pytest.mark.parametrize("dtype", ORDERED, ids=short_name)
def test_padding_never_wins(dtype: mx.Dtype):
    """Not even against the dtype's highest value."""
    if dtype == mx.bool_:
        highest = True
    else:
        highest = mx.iinfo(dtype).max if dtype in INTEGERS else float("inf")
    x = mx.array(np.full((1, 4, 4, 2), highest)).astype(dtype)
    values, indices = min_op(2)(x, 3, 2, 1, return_indices=True)
    assert_same(values, exact(x)[:, :2, :2])
    np.testing.assert_array_equal(exact(indices)[0, ..., 0], [[0, 1], [4, 5]])


@NDIMS
def test_ties_take_the_first_tap(ndim: int):
    g = geometry((4,) * ndim, 2)
    _, indices = min_pool(mx.zeros((1, *g.size, 3)), g, return_indices=True)
    first = [2 * sum(p * 4**a for a, p in enumerate(reversed(o)))
             for o in np.ndindex(g.output)]  # fmt: skip
    np.testing.assert_array_equal(exact(indices)[0, ..., 1].ravel(), first)
    dx = vjp(fixed(min_pool, g), mx.zeros((1, *g.size, 3)), mx.ones((1, *g.output, 3)))
    np.testing.assert_array_equal(np.flatnonzero(exact(dx)[0, ..., 0]), first)


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
def test_positive_and_negative_zero_tie(dtype: mx.Dtype):
    for channels in (1, 3, 8, 17):
        zeros = mx.array([-0.0, 0.0, 0.0, -0.0], dtype).reshape(1, 4, 1)
        x = mx.repeat(zeros, channels, axis=2)
        values, indices = min_op(1)(x, 2, return_indices=True)
        np.testing.assert_array_equal(exact(indices)[0, :, -1], [0, 2])
        np.testing.assert_array_equal(
            np.signbit(exact(values)[0, :, -1]), [True, False]
        )
        alone = min_op(1)(x, 2)
        if takes_the_first_zero(dtype):
            np.testing.assert_array_equal(
                np.signbit(exact(alone)[0, :, -1]), [True, False]
            )
        assert_identical(alone, values)


@pytest.mark.parametrize("channels", [1, 3, 8, 17])
def test_the_last_nan_wins_wherever_it_is(channels: int):
    for sign in (1, -1):
        for first in range(9):
            for second in range(first, 9):
                plane = -np.arange(9, dtype=np.float32)
                plane[[first, second]] = np.copysign(np.nan, sign)
                x = np.broadcast_to(plane.reshape(1, 3, 3, 1), (1, 3, 3, channels))
                for dtype in FLOATS:
                    values, indices = min_op(2)(
                        mx.array(x).astype(dtype), 3, return_indices=True
                    )
                    assert np.isnan(exact(values)).all()
                    assert (exact(indices) == second).all()


def test_the_gradient_goes_to_a_nan():
    x = mx.array([1.0, float("nan"), -5.0, float("nan"), 2.0]).reshape(1, 5, 1)
    dx = mx.grad(lambda x: min_op(1)(x, 5).sum())(x)
    np.testing.assert_array_equal(exact(dx).ravel(), [0, 0, 0, 1, 0])


@pytest.mark.parametrize("op", [min_op, max_op])
@pytest.mark.parametrize("context", [nullcontext, mlx_pooling.composed])
def test_a_nan_cotangent_reaches_only_the_winner(context, op):
    x = mx.arange(8.0).reshape(1, 8, 1)
    dy = mx.array([float("nan"), 1.0, float("inf"), 1.0]).reshape(1, 4, 1)
    with context():
        dx = exact(vjp(fixed(op(1), 2), x, dy)).reshape(4, 2)
    winner = 0 if op is min_op else 1
    np.testing.assert_array_equal(dx[:, winner], [np.nan, 1, np.inf, 1])
    np.testing.assert_array_equal(dx[:, 1 - winner], 0)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short_name)
def test_every_half_precision_value(dtype: mx.Dtype, device: str):
    x = every_half(dtype, device)
    assert_identical(min_op(1)(mx.repeat(x, 2, axis=1), 1, 2), x)
    values = exact(x)
    for shift in (1, 9999, 32768):
        pairs = mx.stack([x, mx.roll(x, shift, axis=1)], axis=2).reshape(1, -1, 1)
        expected = np.minimum(values, np.roll(values, shift, axis=1))
        assert_same(min_op(1)(pairs, 2), expected)


@pytest.mark.parametrize("dtype", [mx.int8, mx.uint8], ids=short_name)
def test_every_pair_of_bytes(dtype: mx.Dtype):
    low = mx.iinfo(dtype).min
    values = np.arange(low, low + 256)
    pairs = np.stack(np.meshgrid(values, values), -1).reshape(1, -1, 1)
    y = min_op(1)(mx.array(pairs).astype(dtype), 2)
    np.testing.assert_array_equal(exact(y).ravel(), pairs.reshape(-1, 2).min(axis=1))


@pytest.mark.parametrize("kernel", [255, 256, 257, 65_535, 65_536])
def test_kernels_about_the_limits_of_an_offset_type(kernel: int):
    g = geometry((70_000,), kernel, kernel // 3, ((kernel, 5),))
    falling = -np.arange(70_000, dtype=np.float32).reshape(1, -1, 1)
    noise = Data("ties", 0).array((1, 70_000, 1), mx.float32)
    x = mx.concatenate([mx.array(falling), noise, mx.full((1, 70_000, 1), np.inf)], -1)
    check(x, g)
    check_derivatives(fixed(min_pool, g), x, derivative(x, g))


# Layouts and transformations


@NDIMS
def test_unbatched_and_empty(ndim: int):
    g = irregular(ndim)
    x = Data("nan", 2).array((*g.size, 3), mx.float32)
    batched = min_pool(x[None], g, return_indices=True)
    assert_all_identical(min_pool(x, g, return_indices=True), [a[0] for a in batched])
    for shape in ((0, *g.size, 3), (2, *g.size, 0)):
        values, indices = min_pool(mx.ones(shape), g, return_indices=True)
        expected = (shape[0], *g.output, shape[-1])
        assert values.shape == indices.shape == expected
        gradient = mx.grad(power_sum(fixed(min_pool, g), 2))
        assert gradient(mx.ones(shape)).shape == shape


def test_views():
    wide = Data("normal", 0).array((3, 11, 18, 10), mx.float32)
    for view in (
        wide[1:, 2:9, ::2, 1:6],
        wide[..., ::-1],
        wide[:, ::-1, ::-1],
        wide.transpose(0, 2, 3, 1),
        mx.broadcast_to(wide[:1], wide.shape),
    ):
        check(view, geometry(view.shape[1:3], 3, 2, 1))


@NDIMS
def test_vmap(ndim: int):
    g = irregular(ndim)
    x = Data("nan", 0).array((2, *g.size, 3), mx.float32)
    check_vmap(fixed(min_pool, g), x)
    check_vmap(fixed(min_pool, g, return_indices=True), x)


SIZES = {
    1: ((2, 9, 3), (2, 12, 3), (5, 9, 3), (1, 31, 8)),
    2: ((2, 9, 8, 3), (2, 9, 13, 3), (3, 15, 8, 3), (1, 4, 21, 8)),
    3: ((1, 5, 6, 7, 3), (1, 5, 6, 9, 3), (2, 8, 7, 4, 3)),
}


@NDIMS
def test_compile(ndim: int):
    inputs = [Data("ties", 0).array(shape, mx.float32) for shape in SIZES[ndim]]
    for options in ({}, {"padding": 1, "dilation": 2, "ceil_mode": True}):
        check_compile(fixed(min_op(ndim), 2, 2, **options), inputs)
    check_compile(fixed(min_op(ndim), 2, 2, return_indices=True), inputs)


def test_minimum_and_maximum_are_not_merged_by_compile():
    x = Data("normal", 5).array((1, 12, 12, 2), mx.float32)
    for derive in (
        lambda f: f,
        lambda f: mx.grad(power_sum(f, 2)),
        lambda f: lambda x: mx.jvp(f, [x], [x])[1][0],
    ):
        calls = [derive(fixed(op(2), 3, 2, 1)) for op in (min_op, max_op)]
        together = mx.compile(lambda x, calls=calls: [f(x) for f in calls])(x)
        assert_all_identical(together, [f(x) for f in calls])
        assert not np.array_equal(*map(exact, together))


@pytest.mark.parametrize("dtype", ORDERED, ids=short_name)
@NDIMS
def test_composed(ndim: int, dtype: mx.Dtype):
    for g in (irregular(ndim), geometry((3,) * ndim, 2, 1, 4)):
        x = Data("nan", 0).array((2, *g.size, 3), dtype)
        check_composed(fixed(min_pool, g, return_indices=True), x)
        check_composed(fixed(min_pool, g), Data("ties", 1).array(x.shape, dtype))


@given(case=cases())
@settings(max_examples=20)
def test_composed_of_any_geometry(case: Case):
    for dtype in (mx.float32, mx.uint8):
        f = fixed(min_pool, case.geometry, return_indices=True)
        check_composed(f, case.input(dtype))


def test_composed_uses_no_primitive_of_ours():
    x = mx.ones((1, 7, 8, 2))
    f = fixed(min_op(2), 3, 2, 1)
    with mlx_pooling.composed():
        outputs = [f(x), mx.grad(power_sum(f, 2))(x)]
    assert not our_primitives(*outputs)


# Arguments


@NDIMS
def test_the_signature_is_that_of_the_maximum(ndim: int):
    for ours, theirs in (
        (min_op(ndim), max_op(ndim)),
        (layer("Min", ndim), layer("Max", ndim)),
    ):
        parameters = inspect.signature(ours).parameters
        assert parameters == inspect.signature(theirs).parameters


def test_named_positional_and_scalar_arguments():
    x = Data("nan", 3).array((2, 9, 8, 3), mx.float32)
    by_position = min_op(2)(x, 3, 2, 1, 2, True, True)
    by_name = min_op(2)(
        x,
        kernel_size=(3, 3),
        stride=[2, 2],
        padding=((1, 1), (1, 1)),
        dilation=2,
        ceil_mode=True,
        return_indices=True,
        stream=mx.cpu,
    )
    assert_all_identical(by_position, by_name)
    assert_identical(min_op(2)(x, 2), min_op(2)(x, 2, 2))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"kernel_size": 2.0}, "'kernel_size' must be an integer or a tuple"),
        ({"kernel_size": 0}, "'kernel_size' must be positive but got (0, 0)."),
        ({"stride": (2, 0)}, "'stride' must be positive but got (2, 0)."),
        ({"padding": (-1, 0)}, "'padding' must be non-negative but got (-1, 0)."),
        ({"dilation": -1}, "'dilation' must be positive but got (-1, -1)."),
        ({"kernel_size": 10}, "'kernel_size'"),
        ({"ceil_mode": 1}, "'ceil_mode' must be a bool but got 1."),
        ({"return_indices": None}, "'return_indices' must be a bool but got None."),
    ],
    ids=str,
)
def test_bad_arguments(bad: dict, message: str):
    arguments = {"kernel_size": 2} | bad
    x = mx.zeros((1, 8, 9, 2))
    for name, call in (
        ("min_pool2d", lambda: min_op(2)(x, **arguments)),
        ("MinPool2d", lambda: layer("Min", 2)(**arguments)(x)),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            call()
        assert str(raised.value).startswith(f"[{name}] ")
        assert message in str(raised.value)


@NDIMS
def test_bad_inputs(ndim: int):
    with pytest.raises(ValueError, match=rf"^\[min_pool{ndim}d\] .*complex"):
        min_op(ndim)(mx.zeros((1, *(4,) * ndim, 1), mx.complex64), 2)
    with pytest.raises(ValueError, match=rf"^\[MinPool{ndim}d\] "):
        layer("Min", ndim)(2)(mx.zeros((4,) * (ndim + 3)))
    with pytest.raises(TypeError, match=rf"^\[min_pool{ndim}d\] "):
        min_op(ndim)(np.zeros((1, *(4,) * ndim, 1)), 2)


@NDIMS
def test_layers(ndim: int):
    g = irregular(ndim)
    x = Data("nan", 1).array((2, *g.size, 3), mx.float32)
    arguments = (g.kernel, g.stride, g.padding, g.dilation, g.ceil_mode)
    assert_identical(layer("Min", ndim)(*arguments)(x), min_pool(x, g))
    both = layer("Min", ndim)(*arguments, return_indices=True)(x)
    assert_all_identical(both, min_pool(x, g, return_indices=True))


def test_repr():
    shown = repr(mlx_pooling.MinPool2d(3, 2, 1))
    assert shown == "MinPool2d(kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))"
    shown = repr(mlx_pooling.MinPool1d(2, dilation=3, return_indices=True))
    assert shown == repr(mlx_pooling.MaxPool1d(2, dilation=3, return_indices=True)
                         ).replace("Max", "Min")  # fmt: skip
