"""Derivatives of every order and mode against the reference's linear maps."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
import reference
from checks import (
    averaging,
    check_derivatives,
    check_higher_orders,
    check_mixed_modes,
    of_whole_numbers,
    selection,
    selection_of_maxima,
)
from hypothesis import given, settings
from strategies import ANY, FINITE, Case, Data, average_options, cases, geometries
from support import (
    FLOATS,
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
    irregular,
    jvp,
    max_op,
    max_pool,
    power_sum,
    vjp,
)


def check_max(case: Case, dtype: mx.Dtype = mx.float32) -> None:
    g, x = case.geometry, case.input(dtype)
    linear = selection_of_maxima(x, g)
    check_derivatives(fixed(max_pool, g), x, linear, case.data.seed)


def check_avg(case: Case, dtype: mx.Dtype = mx.float32, **options) -> None:
    g, x = case.geometry, case.input(dtype)
    linear = averaging(g, **options)
    check_derivatives(fixed(avg_pool, g, **options), x, linear, case.data.seed)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases())
def test_derivatives_of_maxima(dtype: mx.Dtype, case: Case):
    check_max(case, dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64], ids=str)
@given(case=cases(), options=average_options())
def test_derivatives_of_averages(dtype: mx.Dtype, case: Case, options: dict):
    """The adjoint acts on each part of a complex number by itself."""
    check_avg(case, dtype, **options)


@given(case=cases(), options=average_options())
def test_float64_on_cpu(case: Case, options: dict):
    with mx.stream(mx.cpu):
        check_max(case, mx.float64)
        check_avg(case, mx.float64, **options)


@pytest.mark.parametrize("dtype", [mx.bool_, mx.uint8, mx.int8, mx.int32], ids=str)
def test_tangents_of_integers(dtype: mx.Dtype):
    g = geometry((6, 5), 3, 2, 1)
    x = Data("ties", 0).array((2, 6, 5, 3), mx.float32)
    t = Data("ties", 1).array(x.shape, dtype)
    assert_identical(jvp(fixed(avg_pool, g), x, t), avg_pool(t.astype(mx.float32), g))
    dy = avg_pool(x, g)
    t = Data("ties", 2).array(dy.shape, dtype)
    assert_identical(
        jvp(lambda dy: vjp(fixed(avg_pool, g), x, dy), dy, t),
        vjp(fixed(avg_pool, g), x, t.astype(mx.float32)),
    )


def leave_garbage(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    """In memory that MLX will give to the next arrays of this size."""
    mx.eval([mx.full(shape, 7, dtype) for _ in range(8)])


@pytest.mark.parametrize("channels", [17, 64])
@pytest.mark.parametrize(
    ("size", "kernel", "stride"),
    [((30, 40), (30, 40), 1), ((31, 47), (5, 20), (7, 22)), ((200,), 90, 95)],
)
def test_large_windows_that_share_no_input(
    size: tuple, kernel: tuple, stride: tuple, channels: int
):
    """Some inputs lie between them, or behind the last."""
    case = Case(geometry(size, kernel, stride), 2, channels, Data("ties", channels))
    for dtype in FLOATS:
        leave_garbage(case.input_shape, dtype)
        check_max(case, dtype)
    for dtype in (*FLOATS, mx.complex64):
        leave_garbage(case.input_shape, dtype)
        check_avg(case, dtype)
    with mx.stream(mx.cpu):
        check_max(case, mx.float64)
        check_avg(case, mx.float64)


@NDIMS
@pytest.mark.parametrize("channels", [8, 17, 64])
@pytest.mark.parametrize(("stride", "dilation"), [(2, 1), (3, 1), (2, 3), (5, 3)])
def test_windows_that_share_no_input(
    ndim: int, channels: int, stride: int, dilation: int
):
    """Some inputs lie between them, or behind the last."""
    g = geometry((11, 8, 7)[:ndim], 2, stride, 1, dilation)
    case = Case(g, 2, channels, Data("ties", channels))
    for dtype in FLOATS:
        leave_garbage(case.input_shape, dtype)
        check_max(case, dtype)
        leave_garbage(case.input_shape, dtype)
        check_avg(case, dtype, count_include_pad=False)
    check_avg(case, mx.complex64, divisor_override=-3)
    x = case.input()
    adjoint = selection_of_maxima(x, g).adjoint
    for kind in ("nan", "infinite"):
        dy = Data(kind, 1).array(case.output_shape, mx.float32)
        assert_same(vjp(fixed(max_pool, g), x, dy), adjoint(exact(dy)))


@NDIMS
@pytest.mark.parametrize("kind", ANY)
def test_each_kind_of_data(ndim: int, kind: str):
    case = Case(irregular(ndim), 2, 5, Data(kind, 0))
    for dtype in FLOATS:
        check_max(case, dtype)
        for include in (False, True):
            check_avg(case, dtype, count_include_pad=include)


@pytest.mark.parametrize("channels", [*range(1, 20), 31, 64, 65, 130])
@NDIMS
def test_every_small_number_of_channels(ndim: int, channels: int):
    for stride in (1, 2, 3, 4):  # overlapping, adjoining and separate windows
        g = geometry((8, 7, 6)[:ndim], 3, stride, 1)
        case = Case(g, 2, channels, Data("ties", channels))
        check_max(case)
        check_avg(case)


@pytest.mark.parametrize("kernel", [5, 7, 9, 13, 17, 32])
@pytest.mark.parametrize("stride", [1, 2, 5, 32])
def test_large_windows(kernel: int, stride: int):
    size = (20, 17) if stride == 1 and kernel > 13 else (40, 33)
    g = geometry(size, kernel, stride, kernel // 2)
    for kind in ("nan", "normal"):
        case = Case(g, 1, 3, Data(kind, kernel))
        check_max(case)
        check_avg(case)
        check_avg(case, mx.float16, count_include_pad=False)


@pytest.mark.parametrize("channels", [1, 3, 20])
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        ((6000,), 6000, 1, 0),
        ((6000,), 2900, 2950, 50),
        ((6000,), 5900, 70, 100),
        ((6000,), 5000, 900, ((4000, 3000),)),
        ((6000,), 90, 2000, 80),
        ((4500, 4), (4400, 2), (60, 1), (30, 1)),
    ],
)
def test_few_windows_of_long_axes(
    size: tuple, kernel: tuple, stride: tuple, padding: tuple, channels: int
):
    g = geometry(size, kernel, stride, padding)
    case = Case(g, 2, channels, Data("ties", channels))
    leave_garbage(case.input_shape, mx.float32)
    check_max(case)
    check_avg(case, count_include_pad=False)


@pytest.mark.parametrize("kernel", [255, 256, 65_535, 65_536, 65_600])
def test_kernels_about_the_limits_of_an_offset_type(kernel: int):
    g = geometry((70_000,), kernel, kernel // 3, ((kernel, 5),))
    x = Data("normal", 0).array((1, *g.size, 2), mx.float32)
    indices = exact(max_pool(x, g, return_indices=True)[1])
    assert (indices == reference.NO_INDEX).any()
    linear, f = selection(indices, g), fixed(max_pool, g)
    check_derivatives(f, x, linear)
    check_derivatives(f, x, of_whole_numbers(linear), seed=1)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_half_precision_gradients_accumulate_in_float32(dtype: mx.Dtype):
    """4096 windows share one maximum; a running half sum of ones would stall."""
    x = mx.zeros((1, 64 + 63, 64 + 63, 1), dtype)
    x[0, 63, 63, 0] = 1
    dx = mx.grad(lambda x: max_op(2)(x, 64, 1).sum())(x)
    assert dx[0, 63, 63, 0].item() == 4096
    dx = mx.grad(lambda x: avg_op(2)(x, 64, 1).sum())(x)
    assert dx[0, 63, 63, 0].item() == 1


@given(case=cases(FINITE, max_batch=1))
def test_gradients_of_maxima_of_first_to_third_order(case: Case):
    g, x = case.geometry, case.input()
    linear = selection_of_maxima(x, g)
    check_higher_orders(fixed(max_pool, g), x, linear, case.data.seed)


@pytest.mark.parametrize(
    "options",
    [
        *({"count_include_pad": include} for include in (True, False)),
        *({"divisor_override": divisor} for divisor in (7, -2)),
    ],
    ids=str,
)
@given(case=cases(FINITE, max_batch=1))
@settings(max_examples=30)
def test_gradients_of_averages_of_first_to_third_order(options: dict, case: Case):
    g, linear = case.geometry, averaging(case.geometry, **options)
    averages = fixed(avg_pool, g, **options)
    check_higher_orders(averages, case.input(), linear, case.data.seed)


@given(case=cases(FINITE))
def test_mixed_modes(case: Case):
    g, x = case.geometry, case.input()
    maxima = of_whole_numbers(selection_of_maxima(x, g))
    check_mixed_modes(fixed(max_pool, g), x, maxima)
    sums = of_whole_numbers(averaging(g, divisor_override=1))
    check_mixed_modes(fixed(avg_pool, g, divisor_override=1), x, sums)


@given(g=geometries())
def test_a_window_with_no_valid_tap_passes_no_gradient(g: reference.Geometry):
    far = tuple((low + 9, high + 9) for low, high in g.padding)
    g = reference.Geometry(g.size, g.kernel, g.stride, far, g.dilation, g.ceil_mode)
    case = Case(g, 1, 3, Data("ties", 0))
    x = case.input()
    found = reference.max_pool(exact(x), g)
    dy = mx.where(mx.array(found.offsets < 0), float("nan"), 1.0)
    dx = vjp(lambda x: max_pool(x, g), x, dy)
    assert_same(dx, reference.scatter(exact(dy), found.indices, g.size))
    assert mx.all(mx.isfinite(dx)).item()
    tangent = jvp(lambda x: max_pool(x, g), x, mx.ones_like(x))
    assert_same(tangent, (found.offsets >= 0).astype(float))


def test_the_gradient_goes_to_a_nan():
    x = mx.array([1.0, float("nan"), 5.0, float("nan"), 2.0]).reshape(1, 5, 1)
    dx = mx.grad(lambda x: max_op(1)(x, 5).sum())(x)
    np.testing.assert_array_equal(exact(dx).ravel(), [0, 0, 0, 1, 0])


def test_a_nan_cotangent_reaches_only_the_winner():
    x = mx.arange(8.0).reshape(1, 8, 1)
    dy = mx.array([float("nan"), 1.0, 1.0, 1.0]).reshape(1, 4, 1)
    dx = vjp(lambda x: max_op(1)(x, 2), x, dy)
    np.testing.assert_array_equal(exact(dx).ravel(), [0, np.nan, 0, 1, 0, 1, 0, 1])


@POOLS
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 1), (3, 2), (2, 2), (7, 3)])
def test_gradients_are_the_same_bits_each_time(pool, kernel: int, stride: int):
    x = mx.random.normal((4, 40, 40, 24), key=mx.random.key(0))
    f = fixed(pool(2), kernel, stride, kernel // 2)
    dy = mx.random.normal(f(x).shape, key=mx.random.key(1))
    first = vjp(f, x, dy)
    for _ in range(5):
        assert_identical(vjp(f, x, dy), first)


@POOLS
def test_gradients_do_not_depend_on_the_batch(pool):
    """So the order of summation does not depend on how work was divided."""
    x = mx.random.normal((8, 20, 20, 6), key=mx.random.key(0))
    f = fixed(pool(2), 5, 2, 2)
    dy = mx.random.normal(f(x).shape, key=mx.random.key(1))
    whole = vjp(f, x, dy)
    for n in range(8):
        assert_identical(vjp(f, x[n : n + 1], dy[n : n + 1]), whole[n : n + 1])


def outputs(*arrays: mx.array) -> dict[str, int]:
    """How many outputs each pooling primitive of a graph has."""
    return {name: count for name, count in graph_nodes(*arrays) if "Pool" in name}


def test_offsets_are_made_only_in_a_trace():
    x = mx.random.normal((1, 128, 128, 256))
    mx.eval(x)
    f = fixed(max_op(2), 3, 2, 1)
    assert outputs(f(x)) == {"MaxPool": 1}
    for traced in (
        vjp(f, x, mx.ones((1, 64, 64, 256))),
        jvp(f, x, x),
        mx.vmap(f)(x[None]),
        mx.compile(f)(x),
    ):
        assert outputs(traced)["MaxPool"] > 1

    outside = mx.zeros((1, 128, 128, 256))
    mx.eval(outside)
    constants = []

    def traced(x):
        constants.append(f(outside))
        return x.sum()

    mx.grad(traced)(x)
    assert outputs(*constants) == {"MaxPool": 1}


@POOLS
def test_gradients_do_not_keep_the_input(pool):
    """Once y is evaluated, what dx still needs is dy and at most the offsets."""
    x = mx.random.normal((4, 64, 64, 64)) + 1
    size = x.nbytes
    y, dx = mx.vjp(fixed(pool(2), 2), [x], [mx.ones((4, 32, 32, 64))])
    mx.eval(y)
    mx.synchronize()  # a GPU keeps inputs until its work is known to be done
    mx.clear_cache()
    before = mx.get_active_memory()
    del x, y
    assert before - mx.get_active_memory() >= 1.25 * size  # x, and y of a quarter
    mx.eval(dx)


def test_derivatives_close_over_five_primitives():
    x = mx.random.normal((1, 6, 6, 2))

    def orders(pool):
        f = power_sum(fixed(pool(2), 3, 2), 4)
        for _ in range(3):
            f = power_sum(mx.grad(f), 2)
        return {name for name, _ in graph_nodes(mx.grad(f)(x))}

    found = orders(max_op) | orders(avg_op)
    ours = {name for name in found if "Pool" in name}
    assert ours == {
        "MaxPool",
        "MaxPoolScatter",
        "MaxPoolGather",
        "AvgPool",
        "AvgPoolGrad",
    }
    assert not {name for name in found if name in ("Scatter", "Gather", "AsStrided")}


def test_offsets_take_one_byte_each():
    """Peak memory of forward and gradient: y, dy, dx and the offsets, no more."""
    x = mx.random.normal((4, 256, 256, 16))
    y_bytes = x.nbytes // 4
    dy = mx.ones((4, 128, 128, 16))
    mx.eval(x, dy)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(mx.vjp(lambda x: max_op(2)(x, 2), [x], [dy]))
    used = mx.get_peak_memory() - before
    offsets = y_bytes // 4
    needed = y_bytes + offsets + x.nbytes
    assert used <= needed + offsets // 2
