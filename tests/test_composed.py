"""The fallback made of MLX's own primitives gives what the kernels give."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import mlx.core as mx
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from mlx_pooling import composed
from strategies import ANY, FINITE, Case, Data, average_options, cases
from support import (
    FLOATS,
    INTEGERS,
    NDIMS,
    POOLS,
    absolute,
    adaptive_op,
    assert_identical,
    assert_rounded,
    avg_op,
    avg_pool,
    exact,
    fixed,
    geometry,
    irregular,
    jvp,
    layer,
    max_op,
    max_pool,
    our_primitives,
    power_sum,
    unpool_op,
    vjp,
)


def kernels_and_composed(f, *args):
    """The two results; each may be an array or a sequence."""
    results = []
    for context in (nullcontext, composed):
        with context():
            result = f(*args)
        results.append([result] if isinstance(result, mx.array) else list(result))
    return zip(*results, strict=True)


def check_average(case: Case, dtype: mx.Dtype, options: dict) -> None:
    g = case.geometry
    x, dy = case.input(dtype), case.more(case.output_shape, dtype)

    def f(x):
        return avg_pool(x, g, **options)

    values = exact(x)
    with composed():
        y = f(x)
    kernel = f(x)
    assert y.dtype == kernel.dtype
    assert_rounded(
        y,
        reference.avg_pool(values, g, **options),
        reference.avg_pool(absolute(values), g, **options),
        case.taps,
    )
    if not mx.issubdtype(dtype, mx.inexact):
        return
    with composed():
        (dx,) = mx.vjp(f, [x], [dy])[1]
    assert dx.dtype == dtype
    assert_rounded(
        dx,
        reference.avg_pool_grad(exact(dy), g, **options),
        reference.avg_pool_grad(absolute(exact(dy)), g, **options),
        case.taps,
    )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, mx.bool_], ids=str)
@given(case=cases())
@settings(max_examples=25)
def test_max_values_and_indices(dtype: mx.Dtype, case: Case):
    x = case.input(dtype)
    f = fixed(max_pool, case.geometry, return_indices=True)
    for kernel, fallback in kernels_and_composed(f, x):
        assert_identical(fallback, kernel)
    f = fixed(max_pool, case.geometry)
    for kernel, fallback in kernels_and_composed(f, x):
        assert_identical(fallback, kernel)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases())
@settings(max_examples=25)
def test_max_gradients(dtype: mx.Dtype, case: Case):
    g = case.geometry
    x, dy = case.input(dtype), case.more(case.output_shape, dtype)
    with composed():
        (dx,) = mx.vjp(lambda x: max_pool(x, g), [x], [dy])[1]
    indices = reference.max_pool(exact(x), g).indices
    expected = reference.scatter(exact(dy), indices, g.size)
    magnitude = reference.scatter(np.abs(exact(dy)), indices, g.size)
    assert dx.dtype == dtype
    assert_rounded(dx, expected, magnitude, case.taps)


@pytest.mark.parametrize("dtype", [*FLOATS, mx.int32, mx.uint8, mx.bool_], ids=str)
@given(case=cases(), options=average_options())
@settings(max_examples=25)
def test_average(dtype: mx.Dtype, case: Case, options: dict):
    check_average(case, dtype, options)


@given(case=cases(FINITE), options=average_options())
@settings(max_examples=25)
def test_complex_average(case: Case, options: dict):
    check_average(case, mx.complex64, options)


@given(case=cases(), options=average_options())
@settings(max_examples=15)
def test_float64(case: Case, options: dict):
    with mx.stream(mx.cpu):
        check_average(case, mx.float64, options)
        x = case.input(mx.float64)
        f = fixed(max_pool, case.geometry, return_indices=True)
        for kernel, fallback in kernels_and_composed(f, x):
            assert_identical(fallback, kernel)


@NDIMS
@pytest.mark.parametrize("kind", ANY)
def test_each_kind_of_data(ndim: int, kind: str):
    case = Case(irregular(ndim), 2, 5, Data(kind, 0))
    x = case.input()
    f = fixed(max_pool, case.geometry, return_indices=True)
    for kernel, fallback in kernels_and_composed(f, x):
        assert_identical(fallback, kernel)
    check_average(case, mx.float32, {"count_include_pad": False})


@given(case=cases(FINITE, max_batch=1))
@settings(max_examples=25)
def test_jvp_and_second_order(case: Case):
    g = case.geometry
    x, t = case.input(), case.more(case.input_shape)
    f = fixed(max_pool, g)
    for kernel, fallback in kernels_and_composed(jvp, f, x, t):
        assert_identical(fallback, kernel)
    for pool in (max_pool, avg_pool):

        def cubes(x, pool=pool):
            y = pool(x, g)
            return (mx.where(mx.isinf(y), 0, y) ** 3).sum()

        first = mx.grad(cubes)
        second = mx.grad(lambda x, first=first: (first(x) * t).sum())
        for gradient in (first, second):
            for kernel, fallback in kernels_and_composed(gradient, x):
                np.testing.assert_allclose(
                    exact(fallback), exact(kernel), rtol=1e-4, atol=1e-3
                )


@NDIMS
@POOLS
def test_none_of_our_primitives_are_used(pool, ndim: int):
    x = mx.random.normal((1, *(5,) * ndim, 2))
    f = power_sum(fixed(pool(ndim), 2), 2)
    with composed():
        outputs = [f(x), mx.grad(f)(x)]
        if pool is max_op:
            outputs += pool(ndim)(x, 2, return_indices=True)
    assert not our_primitives(*outputs)
    assert our_primitives(f(x))


def test_layers_too():
    x = mx.random.uniform(shape=(1, 6, 6, 2))  # of one sign: sums lose nothing
    for kind in ("Max", "Avg"):
        with composed():
            y = layer(kind, 2)(2)(x)
        assert not our_primitives(y)
        np.testing.assert_allclose(exact(y), exact(layer(kind, 2)(2)(x)), rtol=1e-5)


def used(x: mx.array) -> bool:
    return bool(our_primitives(max_op(2)(x, 2)))


def test_it_ends_and_nests_and_survives_errors():
    x = mx.ones((1, 4, 4, 1))
    assert used(x)
    with composed():
        assert not used(x)
        with composed():
            assert not used(x)
        assert not used(x)
    assert used(x)
    with pytest.raises(KeyError), composed():
        raise KeyError
    assert used(x)


def test_contexts_end_in_any_order():
    """As those of two coroutines do."""
    x = mx.ones((1, 4, 4, 1))
    first, second = composed(), composed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not used(x)
    second.__exit__(None, None, None)
    assert used(x)


def test_other_threads_are_not_affected():
    x = mx.ones((1, 4, 4, 1))
    found = []
    with composed():
        thread = threading.Thread(target=lambda: found.append(used(x)))
        thread.start()
        thread.join()
    assert found == [True]


@POOLS
def test_bad_arguments_are_still_errors(pool):
    x = mx.zeros((1, 4, 4, 1))
    for bad in (
        {"kernel_size": 5},
        {"kernel_size": 0},
        {"kernel_size": 2, "stride": 0},
    ):
        with composed(), pytest.raises(ValueError, match=r"^\[(max|avg)_pool2d\]"):
            pool(2)(x, **bad)


@POOLS
def test_empty_and_unbatched(pool):
    for shape in ((0, 6, 6, 2), (1, 6, 6, 0), (6, 6, 2), (2, 6, 6, 3)):
        x = mx.ones(shape)
        f = fixed(pool(2), 3, 2, 1)
        for kernel, fallback in kernels_and_composed(f, x):
            assert_identical(fallback, kernel)
        gradient = mx.grad(power_sum(f, 2))
        for kernel, fallback in kernels_and_composed(gradient, x):
            np.testing.assert_allclose(exact(fallback), exact(kernel), rtol=1e-5)


def test_half_precision_gradients_are_rounded_once():
    for dtype in (mx.float16, mx.bfloat16):
        case = Case(geometry((12, 11), 5, 1, 2), 1, 3, Data("ties", 0))
        x = case.input(dtype)
        dy = Data("normal", 1).array(case.output_shape, dtype)
        with composed():
            dx = vjp(fixed(max_pool, case.geometry), x, dy)
            dx_average = vjp(fixed(avg_pool, case.geometry), x, dy)
        values, sizes = exact(dy), absolute(exact(dy))
        indices = reference.max_pool(exact(x), case.geometry).indices
        expected, magnitude = (
            reference.scatter(a, indices, (12, 11)) for a in (values, sizes)
        )
        assert_rounded(dx, expected, magnitude, case.taps)
        expected, magnitude = (
            reference.avg_pool_grad(a, case.geometry) for a in (values, sizes)
        )
        assert_rounded(dx_average, expected, magnitude, case.taps)


@pytest.mark.parametrize("axis", range(5))
@POOLS
def test_vmap_and_compile(pool, axis: int):
    shape = (2, 5, 6, 3)
    xs = Data("ties", 0).array((*shape[:axis], 4, *shape[axis:]), mx.float32)
    f = fixed(pool(2), 3, 2, 1)
    gradient = mx.grad(power_sum(f, 2))
    for function in (f, gradient):
        mapped = mx.vmap(function, in_axes=axis)
        for kernel, fallback in kernels_and_composed(mapped, xs):
            np.testing.assert_allclose(
                exact(fallback), exact(kernel), rtol=1e-5, atol=1e-6
            )
        with composed():
            compiled = mx.compile(mapped)(xs)
        np.testing.assert_allclose(
            exact(compiled), exact(mapped(xs)), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize(
    "pool",
    [
        lambda n: fixed(max_op(n), 1, return_indices=True),
        lambda n: fixed(max_op(n), 3, 2, 1),
        lambda n: fixed(avg_op(n), 2, 1, 1),
        *(lambda n, o=o: fixed(adaptive_op("max", n), o) for o in (2, 3, 5)),
        *(lambda n, o=o: fixed(adaptive_op("avg", n), o) for o in (2, 3, 5)),
    ],
)
def test_shapeless_compile_is_refused(pool, size: int, ndim: int):
    """Where windows lie is part of the graph: it must not run on other shapes."""
    with composed(), pytest.raises(ValueError, match="cannot infer output shapes"):
        mx.compile(pool(ndim), shapeless=True)(mx.zeros((1, *(size,) * ndim, 1)))


@pytest.mark.parametrize("shape", [(2, 4, 3), (0, 4, 2), (1, 4, 0), (2, 0, 3)], ids=str)
def test_unpooling_is_not_compiled_shapeless(shape: tuple[int, ...]):
    unpool = fixed(unpool_op(1), mx.zeros(shape, mx.uint32), 3, 2)
    x = mx.ones(shape)
    for kernel, fallback in kernels_and_composed(unpool, x):
        assert_identical(fallback, kernel)
    with composed(), pytest.raises(ValueError, match="cannot infer output shapes"):
        mx.compile(unpool, shapeless=True)(x)


def test_float64_averages_of_any_divisor():
    divisor = 2**24 + 1
    with mx.stream(mx.cpu):
        x = mx.full((1, 2, 1), divisor, mx.float64)
        f = fixed(avg_op(1), 2, divisor_override=divisor)
        for kernel, fallback in kernels_and_composed(f, x):
            assert exact(kernel).item() == exact(fallback).item() == 2


@POOLS
def test_views(pool):
    x = mx.random.normal((2, 12, 5, 8)).transpose(0, 3, 1, 2)[:, ::2, ::-1, 1:]
    f = fixed(pool(2), 3, 2, 1)
    for kernel, fallback in kernels_and_composed(f, x):
        np.testing.assert_allclose(exact(fallback), exact(kernel), rtol=1e-6, atol=1e-6)
