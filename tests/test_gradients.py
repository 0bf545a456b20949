"""Derivatives of every order and mode against the reference's linear maps."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
import reference
from hypothesis import given
from strategies import ANY, FINITE, Case, Data, average_options, cases, geometries
from support import (
    FLOATS,
    absolute,
    assert_identical,
    assert_rounded,
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
    vjp,
)


def check_max_vjp(case: Case, dtype: mx.Dtype) -> None:
    g = case.geometry
    x, dy = case.input(dtype), case.more(case.output_shape, dtype)
    dx = vjp(lambda x: max_pool(x, g), x, dy)
    assert dx.dtype == dtype
    indices = reference.max_pool(exact(x), g).indices
    expected = reference.scatter(exact(dy), indices, g.size)
    magnitude = reference.scatter(np.abs(exact(dy)), indices, g.size)
    assert_rounded(dx, expected, magnitude, case.taps)


def check_max_jvp(case: Case, dtype: mx.Dtype) -> None:
    g = case.geometry
    x, t = case.input(dtype), case.more(case.input_shape, dtype)
    dy = jvp(lambda x: max_pool(x, g), x, t)
    assert dy.dtype == dtype
    indices = reference.max_pool(exact(x), g).indices
    assert_same(dy, reference.gather(exact(t), indices))


def check_avg_vjp(case: Case, dtype: mx.Dtype, options: dict) -> None:
    g = case.geometry
    x, dy = case.input(dtype), case.more(case.output_shape, dtype)
    dx = vjp(lambda x: avg_pool(x, g, **options), x, dy)
    assert dx.dtype == dtype
    expected = reference.avg_pool_grad(exact(dy), g, **options)
    magnitude = reference.avg_pool_grad(absolute(exact(dy)), g, **options)
    assert_rounded(dx, expected, magnitude, case.taps)


def check_avg_jvp(case: Case, dtype: mx.Dtype, options: dict) -> None:
    g = case.geometry
    x, t = case.input(dtype), case.more(case.input_shape, dtype)
    dy = jvp(lambda x: avg_pool(x, g, **options), x, t)
    assert dy.dtype == dtype
    expected = reference.avg_pool(exact(t), g, **options)
    magnitude = reference.avg_pool(absolute(exact(t)), g, **options)
    assert_rounded(dy, expected, magnitude, case.taps)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases())
def test_max_vjp(dtype: mx.Dtype, case: Case):
    check_max_vjp(case, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases())
def test_max_jvp(dtype: mx.Dtype, case: Case):
    check_max_jvp(case, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases(), options=average_options())
def test_avg_vjp(dtype: mx.Dtype, case: Case, options: dict):
    check_avg_vjp(case, dtype, options)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases(), options=average_options())
def test_avg_jvp(dtype: mx.Dtype, case: Case, options: dict):
    check_avg_jvp(case, dtype, options)


@given(case=cases(), options=average_options())
def test_complex_average(case: Case, options: dict):
    """The adjoint acts on each part by itself, as a real linear map."""
    check_avg_vjp(case, mx.complex64, options)
    check_avg_jvp(case, mx.complex64, options)


@given(case=cases(), options=average_options())
def test_float64_on_cpu(case: Case, options: dict):
    with mx.stream(mx.cpu):
        check_max_vjp(case, mx.float64)
        check_max_jvp(case, mx.float64)
        check_avg_vjp(case, mx.float64, options)
        check_avg_jvp(case, mx.float64, options)


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
        check_max_vjp(case, dtype)
    for dtype in (*FLOATS, mx.complex64):
        leave_garbage(case.input_shape, dtype)
        check_avg_vjp(case, dtype, {})
    with mx.stream(mx.cpu):
        check_max_vjp(case, mx.float64)
        check_avg_vjp(case, mx.float64, {})


@pytest.mark.parametrize("ndim", [1, 2, 3])
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
        check_max_vjp(case, dtype)
        leave_garbage(case.input_shape, dtype)
        check_avg_vjp(case, dtype, {"count_include_pad": False})
    check_avg_vjp(case, mx.complex64, {"divisor_override": -3})
    x = case.input()
    for kind in ("nan", "infinite"):
        dy = Data(kind, 1).array(case.output_shape, mx.float32)
        dx = vjp(lambda x: max_pool(x, g), x, dy)
        indices = reference.max_pool(exact(x), g).indices
        assert_same(dx, reference.scatter(exact(dy), indices, g.size))


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("kind", ANY)
def test_each_kind_of_data(ndim: int, kind: str):
    """Overlapping, padded, dilated windows, and one overhanging in ceil_mode."""
    g = geometry(
        (9, 8, 7)[:ndim], 3, 2, padding=((1, 2),) * ndim, dilation=2, ceil_mode=True
    )
    case = Case(g, 2, 5, Data(kind, 0))
    for dtype in FLOATS:
        check_max_vjp(case, dtype)
        check_max_jvp(case, dtype)
        check_avg_vjp(case, dtype, {"count_include_pad": False})
        check_avg_jvp(case, dtype, {"count_include_pad": True})


@pytest.mark.parametrize("channels", [*range(1, 20), 31, 64, 65, 130])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_every_small_number_of_channels(ndim: int, channels: int):
    for stride in (1, 2, 3, 4):  # overlapping, adjoining and separate windows
        g = geometry((8, 7, 6)[:ndim], 3, stride, 1)
        case = Case(g, 2, channels, Data("ties", channels))
        check_max_vjp(case, mx.float32)
        check_avg_vjp(case, mx.float32, {})


@pytest.mark.parametrize("kernel", [5, 7, 9, 13, 17, 32])
@pytest.mark.parametrize("stride", [1, 2, 5, 32])
def test_large_windows(kernel: int, stride: int):
    size = (20, 17) if stride == 1 and kernel > 13 else (40, 33)
    g = geometry(size, kernel, stride, kernel // 2)
    for kind in ("nan", "normal"):
        case = Case(g, 1, 3, Data(kind, kernel))
        check_max_vjp(case, mx.float32)
        check_avg_vjp(case, mx.float32, {})
        check_avg_vjp(case, mx.float16, {"count_include_pad": False})


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
    check_max_vjp(case, mx.float32)
    check_avg_vjp(case, mx.float32, {"count_include_pad": False})


@pytest.mark.parametrize("kernel", [255, 256, 65_535, 65_536, 65_600])
def test_kernels_about_the_limits_of_an_offset_type(kernel: int):
    g = geometry((70_000,), kernel, kernel // 3, ((kernel, 5),))
    x = Data("normal", 0).array((1, *g.size, 2), mx.float32)
    dy = Data("ties", 1).array((1, *g.output, 2), mx.float32)
    indices = exact(max_pool(x, g, return_indices=True)[1]).astype(np.int64)
    assert (indices == reference.NO_INDEX).any()
    f = fixed(max_pool, g)
    assert_same(vjp(f, x, dy), reference.scatter(exact(dy), indices, g.size))
    t = Data("normal", 2).array((1, *g.size, 2), mx.float32)
    assert_same(jvp(f, x, t), reference.gather(exact(t), indices))


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
def test_max_gradients_of_first_to_third_order(case: Case):
    """f = sum(w y^4): each further derivative is again scatter of a multiple of
    gather."""
    g = case.geometry
    x = mx.clip(case.input(), -2, 2)
    w = case.more(case.output_shape)
    u, v = (Data("ties", s).array(case.input_shape, mx.float32) for s in (8, 9))

    def f(x):
        y = mx.where(mx.isinf(y := max_pool(x, g)), 0, y)
        return (w * y**4).sum()

    first = mx.grad(f)
    second = mx.grad(lambda x: (first(x) * u).sum())
    third = mx.grad(lambda x: (second(x) * v).sum())

    found = reference.max_pool(exact(x), g)
    y = np.where(np.isinf(found.values), 0, found.values)
    uy, vy = (reference.gather(exact(a), found.indices) for a in (u, v))
    terms = (
        (first, 4 * exact(w) * y**3),
        (second, 12 * exact(w) * y**2 * uy),
        (third, 24 * exact(w) * y * uy * vy),
    )
    for gradient, per_window in terms:
        expected = reference.scatter(per_window, found.indices, g.size)
        magnitude = reference.scatter(np.abs(per_window), found.indices, g.size)
        assert_rounded(gradient(x), expected, 4 * magnitude, case.taps)


@given(case=cases(FINITE, max_batch=1), options=average_options())
def test_avg_gradients_of_first_to_third_order(case: Case, options: dict):
    g = case.geometry
    x = mx.clip(case.input(), -2, 2)
    w = case.more(case.output_shape)
    u, v = (Data("ties", s).array(case.input_shape, mx.float32) for s in (8, 9))

    def f(x):
        return (w * avg_pool(x, g, **options) ** 4).sum()

    first = mx.grad(f)
    second = mx.grad(lambda x: (first(x) * u).sum())
    third = mx.grad(lambda x: (second(x) * v).sum())

    negative = (options["divisor_override"] or 1) < 0
    y, uy, vy = (reference.avg_pool(exact(a), g, **options) for a in (x, u, v))
    if options["divisor_override"]:
        options = options | {"divisor_override": abs(options["divisor_override"])}
    ay, au, av = (reference.avg_pool(np.abs(exact(a)), g, **options) for a in (x, u, v))
    weights = -exact(w) if negative else exact(w)
    terms = (
        (first, 4 * weights * y**3, 4 * ay**3),
        (second, 12 * weights * y**2 * uy, 12 * ay**2 * au),
        (third, 24 * weights * y * uy * vy, 24 * ay * au * av),
    )
    for gradient, per_window, size in terms:
        expected = reference.avg_pool_grad(per_window, g, **options)
        magnitude = reference.avg_pool_grad(np.abs(weights) * size, g, **options)
        assert_rounded(gradient(x), expected, 4 * magnitude, case.taps)


@given(case=cases(FINITE))
def test_forward_and_reverse_mode_are_adjoint(case: Case):
    """<dy, J t> = <J' dy, t>, exactly, for whole numbers."""
    g = case.geometry
    x = case.input()
    t = Data("ties", 1).array(case.input_shape, mx.float32)
    dy = Data("ties", 2).array(case.output_shape, mx.float32)
    f = fixed(max_pool, g)
    forward = (dy * jvp(f, x, t)).sum()
    reverse = (vjp(f, x, dy) * t).sum()
    assert forward.item() == reverse.item()


@given(case=cases(FINITE))
def test_the_other_mixed_modes(case: Case):
    """Forward over reverse, reverse over forward and forward over forward."""
    g = case.geometry
    x = case.input()
    indices = reference.max_pool(exact(x), g).indices
    t = Data("ties", 1).array(case.input_shape, mx.float32)
    dy = Data("ties", 2).array(case.output_shape, mx.float32)
    f = fixed(max_pool, g)

    forward_over_reverse = jvp(lambda dy: vjp(f, x, dy), dy, dy)
    assert_same(forward_over_reverse, reference.scatter(exact(dy), indices, g.size))
    reverse_over_forward = vjp(lambda t: jvp(f, x, t), t, dy)
    assert_same(reverse_over_forward, reference.scatter(exact(dy), indices, g.size))
    forward_over_forward = jvp(lambda t: jvp(f, x, t), t, t)
    assert_same(forward_over_forward, reference.gather(exact(t), indices))

    a = fixed(avg_pool, g, divisor_override=1)
    forward_over_reverse = jvp(lambda dy: vjp(a, x, dy), dy, dy)
    expected = reference.avg_pool_grad(exact(dy), g, divisor_override=1)
    assert_same(forward_over_reverse, expected)
    reverse_over_forward = vjp(lambda t: jvp(a, x, t), t, dy)
    assert_same(reverse_over_forward, expected)


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


@pytest.mark.parametrize("pool", [max_op, avg_op])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (2, 2), (7, 3)])
def test_gradients_are_the_same_bits_each_time(pool, kernel: int, stride: int):
    x = mx.random.normal((4, 40, 40, 24), key=mx.random.key(0))
    f = fixed(pool(2), kernel, stride, kernel // 2)
    dy = mx.random.normal(f(x).shape, key=mx.random.key(1))
    first = vjp(f, x, dy)
    for _ in range(5):
        assert_identical(vjp(f, x, dy), first)


@pytest.mark.parametrize("pool", [max_op, avg_op])
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


@pytest.mark.parametrize("pool", [max_op, avg_op])
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
