"""Parity with PyTorch, where it is installed."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
import reference
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import FINITE, Case, cases, geometries
from support import NDIMS, assert_same, avg_pool, exact, max_pool
from torch_arrays import channels_first, channels_last, torch


def torch_geometries() -> st.SearchStrategy[reference.Geometry]:
    """PyTorch pads both sides alike, by at most half of the window."""

    def symmetric(g: reference.Geometry) -> reference.Geometry:
        padding = tuple((min(pair),) * 2 for pair in g.padding)
        reach = (d * (k - 1) + 1 for d, k in zip(g.dilation, g.kernel, strict=True))
        over = (g.ceil_mode * (stride - 1) for stride in g.stride)
        size = tuple(
            max(s, r - 2 * low - o)
            for s, r, (low, _), o in zip(g.size, reach, padding, over, strict=True)
        )
        return reference.Geometry(
            size, g.kernel, g.stride, padding, g.dilation, g.ceil_mode
        )

    return geometries().map(symmetric)


def torch_max(x: torch.Tensor, g: reference.Geometry):
    pool = getattr(torch.nn.functional, f"max_pool{g.ndim}d")
    padding = [low for low, _ in g.padding]
    try:
        return pool(
            x, g.kernel, g.stride, padding, g.dilation, g.ceil_mode, return_indices=True
        )
    except RuntimeError:
        assume(False)


def torch_avg(x: torch.Tensor, g: reference.Geometry, options: dict):
    pool = getattr(torch.nn.functional, f"avg_pool{g.ndim}d")
    padding = [low for low, _ in g.padding]
    try:
        return pool(x, g.kernel, g.stride, padding, g.ceil_mode, **options)
    except RuntimeError:
        assume(False)


def has_no_empty_window(g: reference.Geometry) -> bool:
    """PyTorch gives such a window an index outside the input."""
    return all(len(window.positions) for window in reference.windows(g))


@given(case=cases(shapes=torch_geometries().filter(has_no_empty_window)))
def test_max_values_indices_and_gradient(case: Case):
    g = case.geometry
    x, dy = case.input(), case.more(case.output_shape)
    tx = channels_first(x).requires_grad_()
    ty, ti = torch_max(tx, g)
    values, indices = max_pool(x, g, return_indices=True)
    assert_same(values, channels_last(ty))
    assert_same(indices, channels_last(ti))
    ty.backward(channels_first(dy))
    dx = mx.vjp(lambda x: max_pool(x, g), [x], [dy])[1][0]
    np.testing.assert_allclose(exact(dx), channels_last(tx.grad), rtol=1e-5, atol=1e-5)


@given(
    case=cases(
        ("ties", "negative", "relu", "normal", "nan"), shapes=torch_geometries()
    ),
    count_include_pad=st.booleans(),
    divisor_override=st.sampled_from([None, None, 1, 5, -2]),
)
def test_avg_values_and_gradient(case: Case, count_include_pad, divisor_override):
    g = case.geometry
    assume(set(g.dilation) == {1})
    options = {"count_include_pad": count_include_pad}
    if g.ndim > 1:
        options["divisor_override"] = divisor_override
    x, dy = case.input(), case.more(case.output_shape)
    tx = channels_first(x).requires_grad_()
    ty = torch_avg(tx, g, options)
    y = avg_pool(x, g, **options)
    assert tuple(y.shape) == channels_last(ty).shape
    np.testing.assert_allclose(exact(y), channels_last(ty), rtol=1e-5, atol=1e-5)
    ty.backward(channels_first(dy))
    dx = mx.vjp(lambda x: avg_pool(x, g, **options), [x], [dy])[1][0]
    np.testing.assert_allclose(exact(dx), channels_last(tx.grad), rtol=1e-5, atol=1e-5)


@given(case=cases(FINITE, shapes=torch_geometries().filter(has_no_empty_window)))
def test_hessian_vector_products(case: Case):
    g = case.geometry
    x, v = case.input(), case.more(case.input_shape)
    tx = channels_first(x).requires_grad_()
    ty = torch_max(tx, g)[0]
    (gradient,) = torch.autograd.grad((ty**3).sum(), tx, create_graph=True)
    (expected,) = torch.autograd.grad((gradient * channels_first(v)).sum(), tx)

    first = mx.grad(lambda x: (max_pool(x, g) ** 3).sum())
    second = mx.grad(lambda x: (first(x) * v).sum())
    np.testing.assert_allclose(
        exact(second(x)), channels_last(expected), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@given(case=cases(shapes=torch_geometries().filter(has_no_empty_window)))
def test_half_precision_maxima(dtype: str, case: Case):
    g = case.geometry
    x = case.input(getattr(mx, dtype))
    tx = channels_first(exact(x)).to(getattr(torch, dtype))
    ty, ti = torch_max(tx, g)
    values, indices = max_pool(x, g, return_indices=True)
    assert_same(values, channels_last(ty.double()))
    assert_same(indices, channels_last(ti))


@NDIMS
def test_every_small_output_shape(ndim: int):
    kernels = range(1, 5) if ndim == 1 else (2, 3)
    for size in range(1, 10):
        for kernel in kernels:
            for stride in (1, 2, 3, 5):
                for padding in range(kernel // 2 + 1):
                    for ceil_mode in (False, True):
                        g = reference.Geometry(
                            (size,) * ndim,
                            (kernel,) * ndim,
                            (stride,) * ndim,
                            ((padding, padding),) * ndim,
                            (1,) * ndim,
                            ceil_mode,
                        )
                        pool = getattr(torch.nn.functional, f"max_pool{ndim}d")
                        arguments = (kernel, stride, padding, 1, ceil_mode)
                        x = mx.zeros((1, *g.size, 1))
                        try:
                            expected = pool(torch.zeros((1, 1, *g.size)), *arguments)
                        except RuntimeError:
                            with pytest.raises(ValueError, match="must fit"):
                                max_pool(x, g)
                            continue
                        assert max_pool(x, g).shape[1:-1] == tuple(expected.shape)[2:]
