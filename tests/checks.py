"""What every pooling must satisfy, whatever it computes.

Checks that need not know the windows take the pooling as a function f of its input
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
import reference
from mlx_pooling import composed
from strategies import Data
from support import (
    PRECISION,
    Op,
    absolute,
    assert_identical,
    assert_rounded,
    assert_same,
    exact,
    jvp,
    power_sum,
    vjp,
)

Result = mx.array | Sequence[mx.array]


@dataclass(frozen=True)
class LinearMap:
    """The derivative of a pooling; its coefficients have one sign, all of them."""

    apply: Callable[[np.ndarray], np.ndarray]
    adjoint: Callable[[np.ndarray], np.ndarray]
    terms: int  # in an element of apply's result, at most; 0: it is taken as it is
    adjoint_terms: int


def most_windows_of_an_input(g: reference.Windows) -> int:
    """Where all are alike, an input is each of their taps in one at most."""
    outputs = math.prod(g.output)
    if isinstance(g, reference.Adaptive):
        return outputs
    return min(outputs, math.prod(g.kernel))


def selection(indices: np.ndarray, g: reference.Windows) -> LinearMap:
    indices = indices.astype(np.int64)
    return LinearMap(
        lambda t: reference.gather(t, indices),
        lambda dy: reference.scatter(dy, indices, g.size),
        0,
        most_windows_of_an_input(g),
    )


def selection_of_maxima(x: mx.array, g: reference.Windows) -> LinearMap:
    return selection(reference.max_pool(exact(x), g).indices, g)


def averaging(g: reference.Windows, **options) -> LinearMap:
    return LinearMap(
        lambda t: reference.avg_pool(t, g, **options),
        lambda dy: reference.avg_pool_grad(dy, g, **options),
        math.prod(g.kernel),
        most_windows_of_an_input(g),
    )


def unpooling(indices: np.ndarray, size: tuple[int, ...]) -> LinearMap:
    return LinearMap(
        lambda t: reference.max_unpool(t, indices, size),
        lambda dy: reference.max_unpool_grad(dy, indices),
        0,
        0,
    )


def of_whole_numbers(linear: LinearMap) -> LinearMap:
    """Whose sums are exact."""
    return replace(linear, terms=0, adjoint_terms=0)


def assert_mapped(
    actual: mx.array,
    f: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    terms: int,
) -> None:
    if terms == 0:
        assert_same(actual, f(values))
    else:
        assert_rounded(actual, f(values), f(absolute(values)), terms)


def check_winners(
    pool: Op, x: mx.array, g: reference.Windows, expected: reference.Winners
) -> None:
    """Values with their indices and without."""
    values, indices = pool(x, g, return_indices=True)
    assert (values.dtype, indices.dtype) == (x.dtype, mx.uint32)
    assert_same(values, expected.values)
    assert_same(indices, expected.indices)
    assert_identical(pool(x, g), values)


def check_averages(pool: Op, x: mx.array, g: reference.Windows, **options) -> None:
    y = pool(x, g, **options)
    assert y.dtype == (x.dtype if mx.issubdtype(x.dtype, mx.inexact) else mx.float32)
    linear = averaging(g, **options)
    assert_mapped(y, linear.apply, exact(x), linear.terms)


def output_like(x: mx.array, linear: LinearMap, seed: int) -> mx.array:
    """Finite values in the shape of a result, for a cotangent."""
    kind = ("normal", "ties")[seed % 2]
    return Data(kind, seed).array(linear.apply(exact(x)).shape, x.dtype)


def check_derivatives(f: Op, x: mx.array, linear: LinearMap, seed: int = 0) -> None:
    """Reverse and forward mode."""
    t = Data(("normal", "ties")[seed % 2], seed + 1).array(x.shape, x.dtype)
    dy = output_like(x, linear, seed + 2)
    dx, tangent = vjp(f, x, dy), jvp(f, x, t)
    assert dx.dtype == tangent.dtype == x.dtype
    assert_mapped(dx, linear.adjoint, exact(dy), linear.adjoint_terms)
    assert_mapped(tangent, linear.apply, exact(t), linear.terms)


def check_higher_orders(f: Op, x: mx.array, linear: LinearMap, seed: int = 1) -> None:
    """Of sum(w f(x)^4), where each further derivative is again the adjoint of a
    multiple of linear maps. Infinities are taken for zeros."""
    w = output_like(x, linear, seed + 2)
    u, v = (Data("ties", seed).array(x.shape, x.dtype) for seed in (8, 9))

    def quartic(x: mx.array) -> mx.array:
        y = f(x)
        return (w * mx.where(mx.isinf(y), 0, y) ** 4).sum()

    first = mx.grad(quartic)
    second = mx.grad(lambda x: (first(x) * u).sum())
    third = mx.grad(lambda x: (second(x) * v).sum())

    def factors(sized: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
        return [linear.apply(sized(exact(a))) for a in (x, u, v)]

    def per_window(w, y, uy, vy) -> tuple[np.ndarray, ...]:
        return 4 * w * y**3, 12 * w * y**2 * uy, 24 * w * y * uy * vy

    signed = per_window(exact(w), *factors(lambda a: a))
    sizes = per_window(absolute(exact(w)), *factors(absolute))
    terms = max(linear.terms, linear.adjoint_terms)
    for gradient, value, size in zip(
        (first, second, third), signed, sizes, strict=True
    ):
        expected, magnitude = linear.adjoint(value), linear.adjoint(size)
        assert_rounded(gradient(x), expected, 4 * magnitude, terms)


def check_mixed_modes(f: Op, x: mx.array, linear: LinearMap) -> None:
    """Forward over reverse, reverse over forward, forward over forward; and
    <dy, J t> = <J' dy, t>."""
    t, dy = Data("ties", 1).array(x.shape, x.dtype), output_like(x, linear, 5)
    for back in (
        jvp(lambda dy: vjp(f, x, dy), dy, dy),
        vjp(lambda t: jvp(f, x, t), t, dy),
    ):
        assert_mapped(back, linear.adjoint, exact(dy), linear.adjoint_terms)
    forward = jvp(lambda t: jvp(f, x, t), t, t)
    assert_mapped(forward, linear.apply, exact(t), linear.terms)
    tolerance = 1e-4 if linear.terms or linear.adjoint_terms else 0
    np.testing.assert_allclose(
        (exact(dy) * exact(jvp(f, x, t))).sum(),
        (exact(vjp(f, x, dy)) * exact(t)).sum(),
        rtol=tolerance,
        atol=tolerance,
    )


def arrays(result: Result) -> list[mx.array]:
    return [result] if isinstance(result, mx.array) else list(result)


def assert_all_identical(actual: Result, expected: Result) -> None:
    for a, e in zip(arrays(actual), arrays(expected), strict=True):
        assert_identical(a, e)


def assert_all_close(actual: Result, expected: Result) -> None:
    """But for a few roundings."""
    for a, e in zip(arrays(actual), arrays(expected), strict=True):
        assert a.dtype == e.dtype
        values = exact(e)
        largest = np.abs(values[np.isfinite(values)]).max(initial=1)
        tolerance = max(1e-5, 16 * 2.0 ** -PRECISION[e.dtype][0])
        np.testing.assert_allclose(
            exact(a), values, rtol=tolerance, atol=tolerance * largest
        )


Comparison = Callable[[Result, Result], None]


def one_by_one(f: Op, x: mx.array, axis: int) -> list[mx.array]:
    """What vmap(f) over axis must give, with the mapped axis first."""
    parts = mx.split(x, x.shape[axis], axis)
    results = [arrays(f(part.squeeze(axis))) for part in parts]
    return [mx.stack(outputs) for outputs in zip(*results, strict=True)]


def check_vmap(f: Op, x: mx.array, same: Comparison = assert_all_identical) -> None:
    """Over a new axis wherever one can be, of f and of a gradient of it."""
    functions = [f] if isinstance(f(x), tuple) else [f, mx.grad(power_sum(f, 2))]
    for axis in range(x.ndim + 1):
        xs = mx.stack([x, x[::-1], x + x], axis)
        for function in functions:
            expected = one_by_one(function, xs, axis)
            same(mx.vmap(function, in_axes=axis)(xs), expected)
            last = mx.vmap(function, in_axes=axis, out_axes=-1)(xs)
            same([mx.moveaxis(a, -1, 0) for a in arrays(last)], expected)


def check_compile(
    f: Op, inputs: Iterable[mx.array], same: Comparison = assert_all_identical
) -> None:
    """With one trace, for all shapes of inputs, and with one for each."""
    inputs = list(inputs)
    functions = [f]
    if isinstance(f(inputs[0]), mx.array):
        functions += [mx.grad(power_sum(f, 2)), mx.vmap(f)]
    for function in functions:
        for compiled in (mx.compile(function, shapeless=True), mx.compile(function)):
            for x in inputs:
                same(compiled(x), function(x))


def check_composed(f: Op, x: mx.array, same: Comparison = assert_all_identical) -> None:
    """What MLX's own primitives give, of f and, of finite values, of two orders of
    gradients: MLX's own pass a NaN on to what was not selected."""
    results = []
    for context in (nullcontext, composed):
        with context():
            results.append(arrays(f(x)))
    same(results[1], results[0])
    differentiable = len(results[0]) == 1 and mx.issubdtype(x.dtype, mx.floating)
    if not differentiable or not mx.all(mx.isfinite(x)):
        return
    first = mx.grad(power_sum(f, 3))
    for gradient in (first, mx.grad(power_sum(first, 2))):
        expected = gradient(x)
        with composed():
            actual = gradient(x)
        assert_all_close(actual, expected)
