"""Power-average pooling: (sum of x^p over a window)^(1/p), as PyTorch defines it."""

from __future__ import annotations

import math
from fractions import Fraction

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
import reference
from checks import (
    assert_all_close,
    check_compile,
    check_composed,
    check_vmap,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_pooling import _ext
from mlx_pooling._arguments import make_window
from reference import Geometry
from strategies import Case, Data, cases, geometries
from support import (
    FLOATS,
    INTEGERS,
    NDIMS,
    PRECISION,
    assert_identical,
    assert_same,
    exact,
    fixed,
    geometry,
    jvp,
    layer,
    lp_op,
    max_op,
    our_primitives,
    plain,
    power_sum,
    short_name,
    vjp,
)

NORMS = pytest.mark.parametrize("p", [1, 2, 3, 4, 1.5, 0.5])
INTEGER_NORMS = (1, 2, 3, 4)  # of which negative numbers have powers

SHAPES = {
    n: geometry((9, 8, 7)[:n], 3, 2, ceil_mode=True) for n in (1, 2, 3)
}  # one window overhangs


def lp_pool(x: mx.array, g: Geometry, p: float) -> mx.array:
    return lp_op(g.ndim)(x, p, g.kernel, g.stride, g.ceil_mode)


def plain_geometries() -> st.SearchStrategy[Geometry]:
    return geometries().map(plain)


def inputs(case: Case, p: float, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Away from zero, where the derivative of a root is without bounds; where p
    allows, of both signs."""
    rng = np.random.default_rng(case.data.seed)
    x = rng.uniform(0.5, 2, case.input_shape)
    if p in INTEGER_NORMS:
        x *= rng.choice([-1, 1], case.input_shape)
    return mx.array(x.astype(np.float32)).astype(dtype)


def lp_cases() -> st.SearchStrategy[Case]:
    return cases(shapes=plain_geometries())


def unit(dtype: mx.Dtype) -> float:
    return 2.0 ** -PRECISION[dtype][0]


def well_conditioned(x: np.ndarray, g: Geometry, p: float) -> np.ndarray:
    """The windows whose terms do not cancel, or only to a NaN anyway."""
    total = reference.avg_pool(np.power(x, p), g)
    size = reference.avg_pool(np.abs(np.power(x, p)), g)
    return np.abs(total) > 1e-2 * size


def assert_close_where(kept, actual: mx.array, expected: np.ndarray, tolerance: float):
    assert tuple(actual.shape) == expected.shape
    values, expected = exact(actual)[kept], expected[kept]
    scale = np.nanmax(np.abs(expected), initial=1)
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
@NORMS
@given(case=lp_cases())
@settings(max_examples=15)
def test_values(p: float, dtype: mx.Dtype, case: Case):
    """Half types are rounded once, at the end."""
    x, g = inputs(case, p, dtype), case.geometry
    y = lp_pool(x, g, p)
    assert y.dtype == dtype
    kept = well_conditioned(exact(x), g, p)
    tolerance = max(0.5 * unit(dtype) * 1.01, 2e-4 if p in (1, 3) else 2e-5)
    if dtype != mx.float32:
        tolerance += 1e-4 if p in (1, 3) else 1e-5
    expected = reference.lp_pool(exact(x), g, p)
    values = exact(y)
    assert values.shape == expected.shape
    np.testing.assert_allclose(values[kept], expected[kept], rtol=tolerance)


@NORMS
@given(case=lp_cases())
@settings(max_examples=20)
def test_gradients(p: float, case: Case):
    x, g = inputs(case, p), case.geometry
    if p == 3:  # a sum of both signs may be near 0, where the root has no bounds
        x = mx.abs(x)
    dy = Data("normal", case.data.seed).array(case.output_shape, mx.float32)
    expected = reference.lp_pool_grad(exact(x), exact(dy), g, p)
    if p == 1:
        zero = reference.lp_pool(exact(x), g, 1) == 0
        assert not zero.any()
    assert_close_where(..., vjp(fixed(lp_pool, g, p), x, dy), expected, 2e-4)
    # <dy, J t> = <J' dy, t>
    t = Data("normal", case.data.seed + 1).array(case.input_shape, mx.float32)
    forward = jvp(fixed(lp_pool, g, p), x, t)
    dot, magnitude = (
        (exact(dy) * exact(forward)).sum(),
        np.abs(exact(dy) * exact(forward)).sum(),
    )
    np.testing.assert_allclose(
        dot, (expected * exact(t)).sum(), rtol=1e-3, atol=1e-3 * (1 + magnitude)
    )


@given(case=lp_cases())
@settings(max_examples=20)
def test_float64_on_cpu(case: Case):
    g = case.geometry
    with mx.stream(mx.cpu):
        for p in (1, 2, 3, 1.5, 0.5):
            x = mx.abs(inputs(case, p, mx.float64))
            y = lp_pool(x, g, p)
            assert y.dtype == mx.float64
            np.testing.assert_allclose(
                exact(y), reference.lp_pool(exact(x), g, p), rtol=1e-12
            )
            dy = case.more(case.output_shape, mx.float64)
            expected = reference.lp_pool_grad(exact(x), exact(dy), g, p)
            dx = vjp(fixed(lp_pool, g, p), x, dy)
            np.testing.assert_allclose(exact(dx), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
@NORMS
def test_half_gradients(p: float, dtype: mx.Dtype):
    g = SHAPES[2]
    case = Case(g, 2, 3, Data("normal", 1))
    x = mx.abs(inputs(case, p, dtype))
    dy = Data("normal", 2).array(case.output_shape, dtype)
    dx = vjp(fixed(lp_pool, g, p), x, dy)
    assert dx.dtype == dtype
    expected = reference.lp_pool_grad(exact(x), exact(dy), g, p)
    assert_close_where(..., dx, expected, 4 * unit(dtype) + 1e-5)


def composite(x: mx.array, kernel: int, p: float) -> mx.array:
    """Windows that adjoin along one axis, out of what MLX differentiates."""
    windows = x.reshape(x.shape[0], -1, kernel, x.shape[-1])
    return (windows**p).sum(axis=2) ** (1 / p)


@pytest.mark.parametrize("p", [2, 3, 1.5, 0.5])
def test_higher_orders(p: float):
    x = mx.random.uniform(0.5, 2, (2, 12, 3), key=mx.random.key(0))
    u, v, w = mx.random.normal((3, 2, 12, 3), key=mx.random.key(1))
    weights = w[:, :4]

    def orders(pool) -> list[mx.array]:
        first = mx.grad(lambda x: (weights * pool(x) ** 2).sum())
        second = mx.grad(lambda x: (first(x) * u).sum())
        third = mx.grad(lambda x: (second(x) * v).sum())
        return [
            first(x),
            second(x),
            third(x),
            jvp(first, x, v),  # forward over reverse
            jvp(lambda x: jvp(pool, x, u), x, v),  # forward over forward
        ]

    ours = orders(lambda x: lp_op(1)(x, p, 3))
    for a, e in zip(ours, orders(lambda x: composite(x, 3, p)), strict=True):
        np.testing.assert_allclose(exact(a), exact(e), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("p", [2, 3, 4, 1.5])
def test_compiled_second_derivatives_mapped_along_any_axis(p: float):
    x = mx.random.uniform(0.5, 2, (2, 12, 3), key=mx.random.key(0))
    t = mx.random.normal(x.shape, key=mx.random.key(1))

    def second(x: mx.array) -> mx.array:
        return jvp(lambda x: jvp(lambda x: lp_op(1)(x * x, p, 3), x, t), x, t)

    for axis in range(4):
        mapped = mx.vmap(second, in_axes=axis, out_axes=axis)
        several = mx.stack([x, x + 1], axis)
        expected = mx.stack([second(x), second(x + 1)], axis)
        for f in (mapped, mx.compile(mapped)):
            np.testing.assert_allclose(exact(f(several)), exact(expected), rtol=1e-4)


# What PyTorch's definition does at the edges


@pytest.mark.parametrize("p", [1, 2, 3, 4, 1.5, 0.5])
@NDIMS
def test_the_gradient_is_zero_where_the_sum_is_zero(ndim: int, p: float):
    x = mx.zeros((1, *(4,) * ndim, 2))
    y, dx = mx.vjp(fixed(lp_op(ndim), p, 2), [x], [mx.ones((1, *(2,) * ndim, 2))])
    assert_same(y[0], np.zeros((1, *(2,) * ndim, 2)))
    assert_same(dx[0], np.zeros(x.shape))
    tangent = jvp(fixed(lp_op(ndim), p, 2), x, mx.ones_like(x))
    assert_same(tangent, np.zeros(y[0].shape))


def test_cube_roots_of_subnormal_numbers(device: str):
    """Which a GPU may take for zeros."""
    x = np.array([2e-14, 5e-14, 1e-13, 2e-13, 3e-13, 1e-12], np.float32)
    y = exact(lp_op(1)(mx.array(x).reshape(1, -1, 1), 3, 1)).ravel()
    expected = np.where((y == 0) & (x < 2.2e-13) & (device != "cpu"), 0, x)
    np.testing.assert_allclose(y, expected, rtol=1e-4)


@pytest.mark.parametrize("p", [1, 3])
def test_the_gradient_is_zero_where_terms_cancel(p: int):
    x = mx.array([2.0, -2.0, 1.0, 1.0]).reshape(1, 4, 1)
    dx = mx.grad(lambda x: lp_op(1)(x, p, 2).sum())(x)
    root = 2.0 ** (1 / p - 1)
    np.testing.assert_allclose(exact(dx).ravel(), [0, 0, root, root], rtol=1e-5)


def test_zero_sums_beside_others():
    """In overlapping windows only the window of zeros passes nothing."""
    x = mx.array([0.0, 0.0, 3.0, 4.0]).reshape(1, 4, 1)
    y = lp_op(1)(x, 2, 2, 1)
    np.testing.assert_allclose(exact(y).ravel(), [0, 3, 5], rtol=1e-6)
    dx = mx.grad(lambda x: lp_op(1)(x, 2, 2, 1).sum())(x)
    np.testing.assert_allclose(exact(dx).ravel(), [0, 0, 1 + 0.6, 0.8], rtol=1e-5)
    second = mx.grad(lambda x: mx.grad(lambda x: lp_op(1)(x, 2, 2, 1).sum())(x).sum())
    assert np.isfinite(exact(second(x))).all()


@NDIMS
def test_signs(ndim: int):
    """An even power has none; an odd one keeps them, and has no negative root."""
    ones = mx.ones((1, *(2,) * ndim, 1))
    taps = 2**ndim
    assert lp_op(ndim)(-ones, 2, 2).item() == pytest.approx(taps**0.5, rel=1e-5)
    assert lp_op(ndim)(-ones, 4, 2).item() == pytest.approx(taps**0.25, rel=1e-5)
    assert lp_op(ndim)(-ones, 1, 2).item() == -taps
    assert math.isnan(lp_op(ndim)(-ones, 3, 2).item())
    assert math.isnan(lp_op(ndim)(-ones, 1.5, 2).item())
    assert math.isnan(lp_op(ndim)(-ones, 0.5, 2).item())


def test_a_sum_of_both_signs():
    x = mx.array([3.0, -2.0, -3.0, 2.0]).reshape(1, 4, 1)
    np.testing.assert_array_equal(exact(lp_op(1)(x, 1, 2)).ravel(), [1, -1])
    y = exact(lp_op(1)(x, 3, 2)).ravel()
    np.testing.assert_allclose(y, [19 ** (1 / 3), np.nan], rtol=1e-5)
    dx = mx.grad(lambda x: lp_op(1)(x, 1, 2).sum())(x)
    np.testing.assert_array_equal(exact(dx).ravel(), 1)
    dx = exact(mx.grad(lambda x: lp_op(1)(x, 3, 2).sum())(x)).ravel()
    root = 19 ** (-2 / 3)
    np.testing.assert_allclose(dx, [9 * root, 4 * root, np.nan, np.nan], rtol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3, 1.5, 0.5, math.inf])
def test_nan_stays_in_its_windows(p: float):
    x = mx.array([1.0, float("nan"), 2.0, 4.0]).reshape(1, 4, 1)
    y = exact(lp_op(1)(x, p, 2)).ravel()
    assert np.isnan(y).tolist() == [True, False]


@NDIMS
def test_an_overhanging_window_counts_as_a_whole_one(ndim: int):
    """PyTorch multiplies the average over what is inside by the whole kernel."""
    x = mx.ones((1, *(3,) * ndim, 1))
    y = lp_op(ndim)(x, 1, 2, ceil_mode=True)
    assert_same(y, np.full((1, *(2,) * ndim, 1), 2.0**ndim))


def test_half_precision_powers_do_not_overflow():
    """Computed in float32: 300^2 has no float16, its root has."""
    x = mx.full((1, 4, 4, 2), 300, mx.float16)
    assert_same(lp_op(2)(x, 2, 2), np.full((1, 2, 2, 2), 600.0))
    assert_same(lp_op(2)(x, 3, 1), np.full((1, 4, 4, 2), 300.0))
    dx = mx.grad(lambda x: lp_op(2)(x, 2, 2).sum())(x)
    assert dx.dtype == mx.float16
    assert_same(dx, np.full(x.shape, 0.5))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short_name)
def test_half_precision_sums_do_not_stall(dtype: mx.Dtype):
    x = mx.ones((1, 64, 64, 2), dtype)
    assert_same(lp_op(2)(x, 1, 64), np.full((1, 1, 1, 2), 4096.0))
    assert_same(lp_op(2)(x, 2, 64), np.full((1, 1, 1, 2), 64.0))


@pytest.mark.parametrize("dtype", [*INTEGERS, mx.bool_], ids=short_name)
def test_integers_give_float32(dtype: mx.Dtype):
    x = mx.ones((1, 4, 4, 2), dtype) if dtype == mx.bool_ else mx.full(
        (1, 4, 4, 2), 100, dtype
    )  # fmt: skip
    value = 1 if dtype == mx.bool_ else 100
    for p, expected in ((1, 4 * value), (2, 2 * value)):
        y = lp_op(2)(x, p, 2)
        assert y.dtype == mx.float32
        np.testing.assert_allclose(exact(y), expected, rtol=1e-6)


@pytest.mark.parametrize("p", [1, 2, 3, 1.5])
def test_more_taps_than_64_bits_count(p: float):
    """Of 2^66 taps, 8 are inside, whose average stands for all."""
    size = 2**22
    x = mx.ones((1, 2, 2, 2, 1))
    f = fixed(lp_op(3), p, size, size, True)
    (y,), (dx,) = mx.vjp(f, [x], [mx.ones((1, 1, 1, 1, 1))])
    np.testing.assert_allclose(y.item(), 2.0 ** (66 / p), rtol=1e-5)
    np.testing.assert_allclose(exact(dx), 2.0 ** (66 / p) / 8, rtol=1e-4)


# p infinite


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
@NDIMS
def test_infinite_p_is_the_maximum(ndim: int, dtype: mx.Dtype):
    x = Data("relu", 0).array((2, *(7, 8, 5)[:ndim], 3), dtype)
    for options in ({}, {"stride": 2, "ceil_mode": True}):
        expected = fixed(max_op(ndim), 3, **options)
        actual = fixed(lp_op(ndim), math.inf, 3, **options)
        assert_identical(actual(x), expected(x))
        gradients = [mx.grad(power_sum(f, 2)) for f in (actual, expected)]
        positive = x + 1
        assert_identical(gradients[0](positive), gradients[1](positive))


def test_infinite_p_is_the_maximum_of_sizes():
    """The limit of the norms, and what PyTorch 2.13 computes."""
    x = mx.array([3.0, -5.0, -2.0, -1.0]).reshape(1, 4, 1)
    np.testing.assert_array_equal(exact(lp_op(1)(x, math.inf, 2)).ravel(), [5, 2])
    dx = mx.grad(lambda x: lp_op(1)(x, math.inf, 2).sum())(x)
    np.testing.assert_array_equal(exact(dx).ravel(), [0, -1, -1, 0])


def test_zeros_of_either_sign_are_of_size_zero():
    x = mx.array([-0.0, 0.0, -0.0, -0.0]).reshape(1, 4, 1)
    assert_identical(lp_op(1)(x, math.inf, 2), mx.zeros((1, 2, 1)))
    dx = mx.grad(lambda x: lp_op(1)(x, math.inf, 2).sum())(x)
    assert_identical(dx, mx.zeros_like(x))


def test_shapeless_compile_of_second_derivatives():
    gradient = mx.grad(power_sum(fixed(lp_op(1), math.inf, 2), 3))
    second = mx.grad(power_sum(gradient, 2))
    compiled = mx.compile(second, shapeless=True)
    for shape in ((1, 6, 3), (3, 4, 2)):
        x = Data("normal", 0).array(shape, mx.float32)
        assert_identical(compiled(x), second(x))


def test_large_p_comes_near_the_maximum():
    x = mx.random.uniform(0.5, 1, (2, 8, 8, 3), key=mx.random.key(0))
    near = lp_op(2)(x, 60, 2)
    np.testing.assert_allclose(exact(near), exact(max_op(2)(x, 2)), rtol=0.03)


# Layouts and transformations


@NDIMS
def test_stride_defaults_to_the_kernel(ndim: int):
    x = mx.random.uniform(0.5, 1, (2, *(8, 9, 7)[:ndim], 3), key=mx.random.key(0))
    kernel = (3, 2, 4)[:ndim]
    assert_identical(lp_op(ndim)(x, 2, kernel), lp_op(ndim)(x, 2, kernel, kernel))
    by_name = lp_op(ndim)(x, norm_type=2, kernel_size=3, stride=2, ceil_mode=True)
    here = mx.default_device()
    assert_identical(by_name, lp_op(ndim)(x, 2.0, 3, 2, True, stream=here))
    with pytest.raises(TypeError):
        lp_op(ndim)(x, 2, 2, 2, False, mx.cpu)


@NDIMS
def test_unbatched_and_empty(ndim: int):
    g = SHAPES[ndim]
    x = mx.random.uniform(0.5, 1, (*g.size, 3), key=mx.random.key(0))
    assert_identical(lp_pool(x, g, 2), lp_pool(x[None], g, 2)[0])
    for shape in ((0, *g.size, 3), (2, *g.size, 0)):
        for p in (2, math.inf):
            assert lp_pool(mx.ones(shape), g, p).shape == (
                *(shape[0], *g.output, shape[-1]),
            )
            gradient = mx.grad(power_sum(fixed(lp_pool, g, p), 2))
            assert gradient(mx.ones(shape)).shape == shape


@pytest.mark.parametrize("p", [2, 1.5, math.inf])
@NDIMS
def test_vmap(ndim: int, p: float):
    g = SHAPES[ndim]
    x = mx.random.uniform(0.5, 1, (2, *g.size, 3), key=mx.random.key(0))
    check_vmap(fixed(lp_pool, g, p), x, assert_all_close)


@pytest.mark.parametrize("p", [2, 0.5, math.inf])
def test_compile(p: float):
    inputs = [
        mx.random.uniform(0.5, 1, shape, key=mx.random.key(0))
        for shape in ((2, 9, 8, 3), (1, 12, 9, 4))
    ]
    check_compile(fixed(lp_op(2), p, 3, 2, True), inputs, assert_all_close)


def test_norms_that_differ_are_not_merged_by_compile():
    x = mx.random.uniform(0.5, 1, (2, 8, 8, 3), key=mx.random.key(0))

    def calls(x):
        return [lp_op(2)(x, p, 2) for p in (1, 2, 2.5, 3, math.inf)]

    for merged, alone in zip(mx.compile(calls)(x), calls(x), strict=True):
        assert_all_close(merged, alone)


@pytest.mark.parametrize("dtype", FLOATS, ids=short_name)
@pytest.mark.parametrize("p", [1, 2, 3, 1.5, math.inf])
@NDIMS
def test_composed(ndim: int, p: float, dtype: mx.Dtype):
    g = SHAPES[ndim]
    x = mx.random.uniform(0.5, 1, (2, *g.size, 3), key=mx.random.key(0)).astype(dtype)
    check_composed(fixed(lp_pool, g, p), x, assert_all_close)


def test_exponents_2_and_3_have_kernels_on_the_cpu():
    window = make_window("lp_pool2d", 2, 3, 2, 0, 1, ceil_mode=False)

    def has_kernel(p: float, dtype: mx.Dtype = mx.float32) -> bool:
        x = mx.ones((1, 7, 8, 2)).astype(dtype, mx.cpu)
        return _ext.lp_pool(x, p, window, mx.cpu) is not None

    assert [has_kernel(p) for p in (1, 1.5, 2, 3, 4)] == [0, 0, 1, 1, 0]
    for p in (2, 3):
        assert has_kernel(p, mx.float64)
        assert not has_kernel(p, mx.int32)
        with mlx_pooling.composed():
            assert not has_kernel(p)


def test_composed_uses_no_primitive_of_ours():
    x = mx.ones((1, 7, 8, 2))
    for p in (2, math.inf):
        f = fixed(lp_op(2), p, 3, 2)
        with mlx_pooling.composed():
            outputs = [f(x), mx.grad(power_sum(f, 2))(x)]
        assert not our_primitives(*outputs)


# Errors


@pytest.mark.parametrize(
    ("bad", "argument"),
    [
        *[
            ({"norm_type": p}, "norm_type")
            for p in (0, -1, -2.5, -math.inf, math.nan, 2e30, 1e308, 10**400)
        ],
        *[
            ({"norm_type": p}, "norm_type")
            for p in (Fraction(1, 10**400), "2", None, [2], 2j)
        ],
        *[({"kernel_size": k}, "kernel_size") for k in (0, 2.0, (2,), None, 10)],
        *[({"stride": s}, "stride") for s in (0, 1.5, (-1, 2))],
        ({"ceil_mode": 1}, "ceil_mode"),
    ],
    ids=str,
)
def test_bad_arguments(bad: dict, argument: str):
    arguments = {"norm_type": 2, "kernel_size": 2} | bad
    x = mx.zeros((1, 8, 9, 2))
    for name, call in (
        ("lp_pool2d", lambda: lp_op(2)(x, **arguments)),
        ("LPPool2d", lambda: layer("LP", 2)(**arguments)(x)),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            call()
        assert str(raised.value).startswith(f"[{name}] ")
        assert f"'{argument}'" in str(raised.value)


@pytest.mark.parametrize("p", [2, math.inf])
@NDIMS
def test_bad_inputs(ndim: int, p: float):
    with pytest.raises(ValueError, match=rf"^\[lp_pool{ndim}d\] "):
        lp_op(ndim)(mx.zeros((4,) * (ndim + 3)), p, 2)
    with pytest.raises(ValueError, match=rf"^\[LPPool{ndim}d\] "):
        layer("LP", ndim)(p, 2)(mx.zeros((4,) * ndim))
    for bad in (np.zeros((1, *(4,) * ndim, 1)), None, 1.0):
        with pytest.raises(TypeError, match=rf"^\[lp_pool{ndim}d\] "):
            lp_op(ndim)(bad, p, 2)
    with pytest.raises(TypeError, match=rf"^\[lp_pool{ndim}d\] 'stream' must be "):
        lp_op(ndim)(mx.zeros((1, *(4,) * ndim, 1)), p, 2, stream="cpu")


# Layers


@pytest.mark.parametrize("p", [1, 2, 1.5, math.inf])
@NDIMS
def test_layers(ndim: int, p: float):
    g = SHAPES[ndim]
    x = mx.random.uniform(0.5, 1, (2, *g.size, 3), key=mx.random.key(0))
    module = layer("LP", ndim)(p, g.kernel, g.stride, g.ceil_mode)
    assert_identical(module(x), lp_pool(x, g, p))
    by_name = layer("LP", ndim)(norm_type=p, kernel_size=3, stride=2, ceil_mode=True)
    assert_identical(by_name(x), lp_pool(x, g, p))
    assert_identical(layer("LP", ndim)(p, 3)(x), lp_op(ndim)(x, p, 3))


def test_repr():
    shown = repr(layer("LP", 2)(1.5, 3, 2, ceil_mode=True))
    assert shown == (
        "LPPool2d(norm_type=1.5, kernel_size=(3, 3), stride=(2, 2), ceil_mode=True)"
    )
    assert "norm_type=1.23456789," in repr(layer("LP", 1)(1.23456789, 3))
    assert repr(layer("LP", 1)(2, 3)) == (
        "LPPool1d(norm_type=2, kernel_size=(3,), stride=(3,))"
    )
