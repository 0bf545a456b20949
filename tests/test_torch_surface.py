"""Parity with PyTorch of adaptive pooling, unpooling and LP pooling."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Adaptive, Geometry
from strategies import FINITE, Case, Data, adaptive_cases, cases, geometries
from support import (
    NDIMS,
    adaptive_avg_pool,
    adaptive_max_pool,
    adaptive_op,
    assert_same,
    exact,
    fixed,
    geometry,
    lp_op,
    max_op,
    max_pool,
    unpool_op,
    vjp,
)
from torch_arrays import channels_first, channels_last, torch

SIZE = (7, 9, 5)


def function(name: str, ndim: int):
    return getattr(torch.nn.functional, f"{name}{ndim}d")


def assert_close(actual: mx.array, expected: torch.Tensor, tolerance: float = 1e-5):
    np.testing.assert_allclose(
        exact(actual), channels_last(expected), rtol=tolerance, atol=tolerance
    )


@given(case=adaptive_cases())
def test_adaptive_maxima_indices_and_gradients(case: Case):
    g, x = case.geometry, case.input()
    tx = channels_first(x).requires_grad_()
    ty, ti = function("adaptive_max_pool", g.ndim)(tx, g.output, return_indices=True)
    values, indices = adaptive_max_pool(x, g, return_indices=True)
    assert_same(values, channels_last(ty))
    assert_same(indices, channels_last(ti))
    dy = case.more(case.output_shape)
    ty.backward(channels_first(dy))
    assert_close(vjp(fixed(adaptive_max_pool, g), x, dy), tx.grad)


@given(case=adaptive_cases(("ties", "negative", "relu", "normal", "nan")))
def test_adaptive_averages_and_gradients(case: Case):
    g, x = case.geometry, case.input()
    tx = channels_first(x).requires_grad_()
    ty = function("adaptive_avg_pool", g.ndim)(tx, g.output)
    assert_close(adaptive_avg_pool(x, g), ty)
    dy = case.more(case.output_shape)
    ty.backward(channels_first(dy))
    assert_close(vjp(fixed(adaptive_avg_pool, g), x, dy), tx.grad)


@pytest.mark.parametrize("size", range(1, 12))
def test_adaptive_pooling_of_every_small_size(size: int):
    x = Data("normal", size).array((1, size, 2), mx.float32)
    for count in range(1, 14):
        g = Adaptive((size,), (count,))
        tx = channels_first(x)
        ty, ti = function("adaptive_max_pool", 1)(tx, count, return_indices=True)
        values, indices = adaptive_max_pool(x, g, return_indices=True)
        assert_same(values, channels_last(ty))
        assert_same(indices, channels_last(ti))
        assert_close(
            adaptive_avg_pool(x, g), function("adaptive_avg_pool", 1)(tx, count)
        )


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_none_keeps_an_axis(kind: str):
    x = Data("normal", 0).array((2, 7, 9, 5, 3), mx.float32)
    for sizes in ((None, 4, 3), (2, None, None), (None, None, 8)):
        ty = function(f"adaptive_{kind}_pool", 3)(channels_first(x), sizes)
        assert_close(adaptive_op(kind, 3)(x, sizes), ty)


@given(case=adaptive_cases(FINITE))
@settings(max_examples=25)
def test_hessian_vector_products_of_adaptive_pooling(case: Case):
    g, x, v = case.geometry, case.input(), case.more(case.input_shape)
    for kind, pool in (("max", adaptive_max_pool), ("avg", adaptive_avg_pool)):
        tx = channels_first(x).requires_grad_()
        ty = function(f"adaptive_{kind}_pool", g.ndim)(tx, g.output)
        (gradient,) = torch.autograd.grad((ty**3).sum(), tx, create_graph=True)
        (expected,) = torch.autograd.grad((gradient * channels_first(v)).sum(), tx)
        first = mx.grad(lambda x, pool=pool: (pool(x, g) ** 3).sum())
        second = mx.grad(lambda x, first=first: (first(x) * v).sum())
        assert_close(second(x), expected, 1e-4)


# Unpooling


def unpool_geometries() -> st.SearchStrategy[Geometry]:
    """Windows that lie apart or adjoin, so that no index comes twice."""

    def apart(g: Geometry) -> Geometry:
        stride = tuple(map(max, g.stride, g.kernel))
        padding = tuple(
            (min(*pair, kernel // 2),) * 2
            for pair, kernel in zip(g.padding, g.kernel, strict=True)
        )
        size = tuple(map(max, g.size, g.kernel))
        return Geometry(size, g.kernel, stride, padding, (1,) * g.ndim)

    return geometries().map(apart)


@given(case=cases(FINITE, unpool_geometries()))
def test_unpooling_and_its_gradient(case: Case):
    """To the default size, and to that of what was pooled where that is legal."""
    g = case.geometry
    values, indices = max_pool(case.input(), g, return_indices=True)
    padding = tuple(low for low, _ in g.padding)
    arguments = (g.kernel, g.stride, padding)
    default = tuple(
        (count - 1) * stride - 2 * pad + kernel
        for count, stride, pad, kernel in zip(
            g.output, g.stride, padding, g.kernel, strict=True
        )
    )
    sizes = [g.size] if all(
        abs(s - d) < t for s, d, t in zip(g.size, default, g.stride, strict=True)
    ) else []  # fmt: skip
    if exact(indices).max() < math.prod(default) and min(default) > 0:
        sizes.append(None)
    for size in sizes:
        tx = channels_first(values).requires_grad_()
        ti = channels_first(indices.astype(mx.int64))
        ty = function("max_unpool", g.ndim)(tx, ti, *arguments, output_size=size)
        f = fixed(unpool_op(g.ndim), indices, *arguments, output_size=size)
        assert_same(f(values), channels_last(ty))
        dy = Data("normal", 1).array(f(values).shape, mx.float32)
        ty.backward(channels_first(dy))
        assert_same(vjp(f, values, dy), channels_last(tx.grad))


@NDIMS
def test_output_sizes_that_are_accepted(ndim: int):
    x = mx.ones((1, *(3,) * ndim, 2))
    indices = mx.zeros(x.shape, mx.int64)
    for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (2, 3, 0), (5, 1, 2)):
        for size in range(1, 14):
            sizes = (size,) * ndim
            arguments = (kernel, stride, padding)
            tensors = channels_first(x), channels_first(indices)
            try:
                ty = function("max_unpool", ndim)(*tensors, *arguments, sizes)
            except ValueError:
                with pytest.raises(ValueError, match="'output_size'"):
                    unpool_op(ndim)(x, indices, *arguments, sizes)
            else:
                y = unpool_op(ndim)(x, indices, *arguments, sizes)
                assert tuple(y.shape) == channels_last(ty).shape


@NDIMS
def test_layers_of_a_round_trip(ndim: int):
    import mlx_pooling

    x = Data("normal", 0).array((2, *SIZE[:ndim], 3), mx.float32)
    values, indices = max_op(ndim)(x, 3, 3, 1, return_indices=True)
    ours = getattr(mlx_pooling, f"MaxUnpool{ndim}d")(3, 3, 1)
    theirs = getattr(torch.nn, f"MaxUnpool{ndim}d")(3, 3, 1)
    ty, ti = function("max_pool", ndim)(channels_first(x), 3, 3, 1, return_indices=True)
    assert_same(
        ours(values, indices, x.shape), channels_last(theirs(ty, ti, SIZE[:ndim]))
    )


# LP pooling


def torch_lp(x: torch.Tensor, p: float, g: Geometry) -> torch.Tensor:
    window = (g.kernel, g.stride) if g.ndim > 1 else (g.kernel[0], g.stride[0])
    return function("lp_pool", g.ndim)(x, p, *window, g.ceil_mode)


LP_SHAPES = [
    *(geometry(SIZE[:n], 2) for n in (1, 2, 3)),
    *(geometry(SIZE[:n], 3, 2, ceil_mode=True) for n in (1, 2, 3)),
    geometry((8, 9), (2, 3), (1, 2), ceil_mode=True),
]
LP = pytest.mark.parametrize("g", LP_SHAPES, ids=lambda g: f"{g.ndim}d-{g.kernel[0]}")
NORMS = pytest.mark.parametrize("p", [1, 2, 3, 4, 1.5, 0.5, 7.25])


def check_lp(x: mx.array, p: float, g: Geometry) -> None:
    tx = channels_first(x).double().requires_grad_()
    ty = torch_lp(tx, p, g)
    f = fixed(lp_op(g.ndim), p, g.kernel, g.stride, g.ceil_mode)
    assert_close(f(x), ty, 1e-4)
    dy = Data("normal", 1).array(channels_last(ty).shape, mx.float32)
    ty.backward(channels_first(dy).double())
    assert_close(vjp(f, x, dy), tx.grad, 1e-3)


@NORMS
@LP
def test_lp_pooling_of_positive_values(g: Geometry, p: float):
    x = mx.random.uniform(0.3, 2, (2, *g.size, 3), key=mx.random.key(0))
    check_lp(x, p, g)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 1.5])
@LP
def test_lp_pooling_of_both_signs(g: Geometry, p: float):
    """Whole numbers, some of whose sums are 0 and some negative."""
    check_lp(Data("ties", 0).array((2, *g.size, 3), mx.float32), p, g)


@pytest.mark.parametrize("p", [1, 2, 3, 1.5])
@LP
def test_lp_pooling_of_zeros(g: Geometry, p: float):
    check_lp(mx.zeros((2, *g.size, 3)), p, g)


@LP
def test_lp_pooling_with_infinite_p(g: Geometry):
    """The maximum of the absolute values, since PyTorch 2.13."""
    if torch.__version__ < "2.13":
        pytest.skip("was NaN")
    check_lp(Data("normal", 0).array((2, *g.size, 3), mx.float32), math.inf, g)


def test_the_reference_has_the_same_lp_pooling():
    """So that what is tested against it alone is tested against PyTorch."""
    g = LP_SHAPES[4]
    x = np.random.default_rng(0).uniform(0.5, 2, (2, *g.size, 3))
    ty = torch_lp(torch.tensor(np.moveaxis(x, -1, 1)), 1.5, g)
    np.testing.assert_allclose(reference.lp_pool(x, g, 1.5), channels_last(ty))
