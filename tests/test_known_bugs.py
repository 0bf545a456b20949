"""Bugs that users of other libraries met.

Some are beside the rest of their kind: those of adaptive pooling and unpooling, and

- a huge dilation: test_errors.py, test_a_huge_dilation and _of_a_huge_output
- gradients that differ each time: test_gradients.py, test_gradients_are_the_same_bits
- input without a batch: test_layout.py, test_unbatched
- vmap of forward over reverse mode: test_transforms.py, test_vmap_of_jvp_of_vjp
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import reference
from checks import (
    averaging,
    check_averages,
    check_derivatives,
    check_winners,
    of_whole_numbers,
    selection_of_maxima,
)
from strategies import Data
from support import (
    INTEGERS,
    NDIMS,
    POOLS,
    assert_identical,
    assert_same,
    avg_op,
    avg_pool,
    exact,
    fixed,
    geometry,
    max_op,
    max_pool,
    power_sum,
    vjp,
    weighted_sum,
)


def line(*values: float) -> mx.array:
    return mx.array(values, mx.float32).reshape(1, -1, 1)


def flat(x: mx.array) -> list[float]:
    return exact(x).ravel().tolist()


def gradient(f, x: mx.array) -> mx.array:
    return mx.grad(lambda x: f(x).sum())(x)


def check_max(g: reference.Geometry, kind: str = "ties", channels: int = 3) -> None:
    x = Data(kind, 1).array((2, *g.size, channels), mx.float32)
    check_winners(max_pool, x, g, reference.max_pool(exact(x), g))
    linear = of_whole_numbers(selection_of_maxima(x, g))
    check_derivatives(fixed(max_pool, g), x, linear, seed=1)


def check_avg(g: reference.Geometry, channels: int = 3, **options) -> None:
    x = Data("ties", 1).array((2, *g.size, channels), mx.float32)
    check_averages(avg_pool, x, g, **options)
    linear = averaging(g, **options)
    check_derivatives(fixed(avg_pool, g, **options), x, linear, seed=1)


def test_no_ceil_window_lies_wholly_outside():
    x = line(1, 2, 3)
    y = max_op(1)(x, 2, 2, 1, ceil_mode=True)  # a third would start at 3
    assert flat(y) == [1, 3]
    y = max_op(1)(x, 1, 2, 0, ceil_mode=True)
    assert flat(y) == [1, 3]
    for size, kernel, stride in itertools.product(
        range(1, 9), range(1, 5), range(1, 6)
    ):
        for padding in range(kernel // 2 + 1):
            if kernel <= size + 2 * padding:
                y = max_op(1)(mx.ones((1, size, 1)), kernel, stride, padding, 1, True)
                assert set(flat(y)) == {1.0}


def test_no_ceil_average_divides_by_zero():
    for size, kernel, stride in itertools.product(
        range(1, 9), range(1, 5), range(1, 6)
    ):
        for padding, include in itertools.product(
            range(kernel // 2 + 1), (True, False)
        ):
            if kernel <= size + 2 * padding:
                f = fixed(avg_op(1), kernel, stride, padding, True, include)
                x = mx.ones((1, size, 1))
                assert np.isfinite(exact(f(x))).all()
                assert np.isfinite(exact(gradient(f, x))).all()
                if not include:
                    np.testing.assert_allclose(exact(f(x)), 1, rtol=1e-6)


def test_the_overhang_of_ceil_is_not_counted():
    f = fixed(avg_op(1), 2, 2, ceil_mode=True)
    x = line(1, 1, 1, 1, 1)
    assert flat(f(x)) == [1, 1, 1]
    assert flat(gradient(f, x)) == [0.5, 0.5, 0.5, 0.5, 1]
    f = fixed(avg_op(1), 3, 2, 1, ceil_mode=True)
    x = line(3, 3, 3, 3)  # the last window: input, padding, overhang
    assert flat(f(x)) == [2, 3, 1.5]
    np.testing.assert_allclose(flat(gradient(f, x)), [1 / 3, 2 / 3, 1 / 3, 5 / 6])


@pytest.mark.parametrize("size", range(3, 9))
def test_ceil_average_is_the_same_on_every_device(size: int):
    for kernel, stride, padding in itertools.product((2, 3), (1, 2, 3), (0, 1)):
        g = geometry((size, size + 1), kernel, stride, padding, ceil_mode=True)
        check_avg(g)


def test_ceil_output_shape_with_kernel_1_and_stride_2():
    for size in range(1, 10):
        for pool in (max_op, avg_op):
            y = pool(1)(mx.zeros((1, size, 1)), 1, 2, ceil_mode=True)
            mx.eval(y)
            assert y.shape == (1, (size + 1) // 2, 1)


def test_padding_is_not_bound_by_half_the_kernel():
    for kernel, dilation, padding in ((3, 2, 2), (2, 3, 3), (2, 1, 2), (1, 1, 3)):
        check_max(geometry((6, 7), kernel, 1, padding, dilation))
        check_avg(geometry((6, 7), kernel, 1, padding, dilation))


@POOLS
def test_dilation_larger_than_the_input(pool):
    x = line(1, 2, 3)
    with pytest.raises(ValueError):
        pool(1)(x, 2, 1, dilation=5)
    assert flat(pool(1)(x, 1, 1, dilation=5)) == [1, 2, 3]
    check_max(geometry((3,), 2, 1, 3, 5))
    check_max(geometry((3, 4), 3, 2, 6, 5), "infinite")
    check_avg(geometry((3,), 2, 1, 3, 5))


@POOLS
@pytest.mark.parametrize("stride", [0, (0, 2), (2, 0), -1])
def test_stride_0(pool, stride):
    with pytest.raises(ValueError, match="'stride' must be positive"):
        pool(2)(mx.ones((1, 4, 4, 1)), 2, stride)


@POOLS
def test_input_smaller_than_the_kernel(pool):
    for shape in ((1, 1, 4, 2), (1, 4, 1, 2), (4, 1, 2)):
        with pytest.raises(ValueError, match="'kernel_size'"):
            pool(2)(mx.ones(shape), 2)


def test_count_include_pad_with_ceil_mode():
    for include in (True, False):
        for padding in (((0, 1),), ((1, 0),), ((2, 1),)):
            for size in range(3, 9):
                g = geometry((size,), 3, 2, padding, ceil_mode=True)
                check_avg(g, count_include_pad=include)


def test_asymmetric_padding_goes_to_its_own_end():
    x = line(1, 2, 3, 4)
    assert flat(max_op(1)(x, 2, 2, ((1, 1),))) == [1, 3, 4]
    assert flat(max_op(1)(x, 2, 2, ((2, 0),))) == [-np.inf, 2, 4]
    assert flat(max_op(1)(x, 2, 2, ((0, 2),))) == [2, 4, -np.inf]
    assert flat(avg_op(1)(x, 2, 1, ((1, 0),))) == [0.5, 1.5, 2.5, 3.5]
    assert flat(avg_op(1)(x, 2, 1, ((0, 1),))) == [1.5, 2.5, 3.5, 2]
    for pads in itertools.product((0, 2), (1, 3), (0, 1), (0, 4)):
        pairs = (pads[:2], pads[2:])
        check_max(geometry((5, 6), 3, 2, pairs))
        check_avg(geometry((5, 6), 3, 2, pairs))


def test_divisor_override_without_counting_padding():
    f = fixed(avg_op(1), 3, 2, 1, count_include_pad=False, divisor_override=2)
    x = line(1, 2, 3, 4)
    assert flat(f(x)) == [1.5, 4.5]
    assert flat(gradient(f, x)) == [0.5, 1, 0.5, 0.5]


def test_each_parameter_counts_in_a_kernel_cache():
    """Calls alike but for one parameter, one after the other, on one shape."""
    common = {"kernel": (3, 2), "stride": (2, 1), "padding": 1, "dilation": 1}
    changes = (
        {},
        {"kernel": (2, 3)},
        {"kernel": (3, 3)},
        {"stride": (1, 2)},
        {"padding": ((1, 0), (1, 1))},
        {"padding": ((0, 1), (1, 1))},
        {"dilation": (1, 2)},
        {"dilation": (2, 1)},
        {"ceil_mode": True},
        {},
    )
    for change in changes:
        g = geometry((8, 8), **(common | change))
        check_max(g)
        for options in (
            {},
            {"count_include_pad": False},
            {"divisor_override": 2},
            {"divisor_override": 3},
        ):
            check_avg(g, **options)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 16, 17])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_a_nan_at_any_tap_and_in_any_lane(dtype: mx.Dtype, channels: int):
    base = np.arange(16 * channels, dtype=np.float32).reshape(1, 4, 4, channels) % 7
    for row, column, channel in itertools.product(range(4), range(4), range(channels)):
        if channels > 8 and channel % 5:
            continue
        x = base.copy()
        x[0, row, column, channel] = np.nan
        for pool in (max_op, avg_op):
            y = exact(pool(2)(mx.array(x).astype(dtype), 2))
            expected = np.zeros((1, 2, 2, channels), bool)
            expected[0, row // 2, column // 2, channel] = True
            np.testing.assert_array_equal(np.isnan(y), expected)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_windows_of_nan_or_minus_infinity_only(value: float):
    x = mx.full((2, 6, 6, 3), value)
    _, indices = max_op(2)(x, 3, 2, 1, return_indices=True)
    assert exact(indices).max() < 36
    dx = gradient(lambda x: max_op(2)(x, 3, 2, 1), x)
    assert dx.sum().item() == indices.size
    found = reference.max_pool(exact(x), geometry((6, 6), 3, 2, 1))
    assert_same(indices, found.indices)
    assert_same(dx, reference.scatter(np.ones(indices.shape), found.indices, (6, 6)))


def test_gradient_at_ties_after_relu():
    x = mx.zeros((1, 4, 4, 2))
    dx = gradient(lambda x: max_op(2)(mx.maximum(x, 0), 2), x - 1)
    assert_same(dx, np.zeros(x.shape))
    dx = exact(gradient(lambda x: max_op(2)(x, 2), x))
    assert dx[0, ::2, ::2].min() == 1
    assert dx.sum() == 8
    check_max(geometry((9, 9), 3, 2, 1), "relu")


@pytest.mark.parametrize("kernel", [3, 13, 32, 99])
def test_averages_do_not_inherit_from_earlier_windows(kernel: int):
    values = np.full((1, 200, 200, 1), 1e-3, np.float32)
    values[0, 20, 20] = 1e8
    values[0, 60, 60] = np.nan
    values[0, 60, 160] = np.inf
    for ndim in (1, 2):
        x = values if ndim == 2 else values[:, 20]
        g = geometry(x.shape[1:-1], kernel, 1)
        y = exact(avg_pool(mx.array(x), g))
        touched = np.isin(x, (np.float32(1e8), np.nan, np.inf)) | np.isnan(x)
        windows = exact(max_pool(mx.array(touched.astype(np.float32)), g))
        np.testing.assert_allclose(y[windows == 0], 1e-3, rtol=1e-3)
        assert np.isnan(y).any() == (ndim == 2)
        assert not (y < 0).any()


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_half_precision_accumulates_in_float32(dtype: mx.Dtype):
    x = mx.full(
        (1, 64, 64, 3), 3.0, dtype
    )  # 12288 taps' worth overflows bfloat16's 8 bits
    assert set(flat(avg_op(2)(x, 64))) == {3}
    big = mx.full((1, 64, 64, 3), 60000.0, mx.float16)  # the sum overflows float16
    assert np.isfinite(exact(avg_op(2)(big, 64))).all()
    g = geometry((40, 40), 9, 1, 4)
    x = mx.random.normal((1, 40, 40, 3), key=mx.random.key(0)).astype(dtype)
    check_derivatives(fixed(avg_pool, g), x, averaging(g))
    check_derivatives(fixed(max_pool, g), x, selection_of_maxima(x, g))


def memory() -> int:
    """Bytes that this process may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return physical if text == "max" else min(physical, int(text))


def longest_array() -> int:
    """Bytes: on a Mac, arrays of the CPU are Metal's, too."""
    if not mx.metal.is_available():
        return sys.maxsize
    return mx.device_info(mx.gpu)["max_buffer_length"]


@pytest.mark.skipif(memory() < 8 * 2**30, reason="needs 8 GiB of memory")
@pytest.mark.skipif(longest_array() < 2**31 + 2**18, reason="needs one of 2 GiB")
def test_more_than_2_to_the_31_elements():
    rows, columns, channels = 2**16 + 8, 2**12, 8
    values = np.zeros((1, rows, columns, channels), np.uint8)
    marks = ((0, 0, 0), (rows // 2, 9, 3), (rows - 1, columns - 1, 7))
    for row, column, channel in marks:
        values[0, row, column, channel] = 9
    x = mx.array(values)
    del values
    y, indices = max_op(2)(x, 2**9, return_indices=True, ceil_mode=True)
    mx.eval(y, indices)
    del x
    assert y.shape == (1, 129, 8, 8)
    assert y.sum().item() == 27
    for row, column, channel in marks:
        at = (0, row // 2**9, column // 2**9, channel)
        assert y[at].item() == 9
        assert indices[at].item() == row * columns + column
    mx.clear_cache()


@POOLS
def test_long_thin_shapes_and_many_channels(pool):
    def f(x: mx.array) -> mx.array:
        return pool(2)(x, 1, 1, ((1, 0), (0, 0)))[:, 1:]

    for shape in (
        (1, 2**18, 1, 1),
        (1, 1, 2**18, 1),
        (2**18, 1, 1, 1),
        (1, 1, 1, 2**18),
    ):
        x = mx.arange(2**18, dtype=mx.float32).reshape(shape)
        assert_identical(f(x), x)
        assert_identical(gradient(f, x), mx.ones_like(x))
    x = mx.arange(2**18, dtype=mx.float32).reshape(1, 2, 1, 2**17)
    y = pool(2)(x, (2, 1))
    expected = exact(x).max(1) if pool is max_op else exact(x).mean(1)
    assert_same(y, expected[:, None])


@pytest.mark.parametrize("padding", [1, ((1, 0), (0, 2)), ((3, 3), (2, 1))])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_average_backward_with_padding(stride: int, padding):
    for include in (True, False):
        for channels in (1, 4, 8, 11):
            g = geometry((7, 8), 3, stride, padding)
            check_avg(g, channels, count_include_pad=include)


@pytest.mark.parametrize("dilation", [2, 3, (1, 3), (4, 2)])
def test_dilation_with_channels_last(dilation):
    for stride, padding, channels in itertools.product((1, 2, 3), (0, 2), (1, 8, 11)):
        g = geometry((11, 12), 3, stride, padding, dilation)
        check_max(g, "ties", channels)
        check_avg(g, channels)


@POOLS
def test_strided_input_and_expanded_cotangent(pool):
    x = Data("normal", 0).array((2, 8, 6, 10), mx.float32)
    views = (x[:, ::2], x.transpose(0, 2, 1, 3), x[..., 1::2], x[:, ::-1, ::-1])
    for view in views:
        f = fixed(pool(2), 3, 1, 1)
        copy = mx.array(np.array(view))
        assert_identical(f(view), f(copy))
        for cotangent in (
            mx.broadcast_to(mx.array(2.0), view.shape),
            mx.broadcast_to(mx.arange(view.shape[-1], dtype=mx.float32), view.shape),
            mx.ones(view.shape[::-1]).transpose(3, 2, 1, 0),
        ):
            dense = mx.array(np.array(cotangent))
            assert_identical(vjp(f, view, cotangent), vjp(f, copy, dense))


@POOLS
def test_empty_batch_and_its_double_gradient(pool):
    x = mx.zeros((0, 6, 6, 3))
    f = power_sum(fixed(pool(2), 2), 2)
    second = mx.grad(lambda x: (mx.grad(f)(x) ** 2).sum())
    assert pool(2)(x, 2).shape == (0, 3, 3, 3)
    assert f(x).item() == 0
    assert second(x).shape == x.shape
    mx.eval(second(x))
    with pytest.raises(ValueError):
        pool(2)(x, 7)  # no output axis ever has size 0
    with pytest.raises(ValueError):
        pool(2)(mx.zeros((1, 0, 6, 3)), 2)


@pytest.mark.parametrize("dtype", [*INTEGERS, mx.bool_], ids=str)
def test_padding_of_integers_never_wins(dtype: mx.Dtype):
    low, high = False, True
    if dtype != mx.bool_:
        low, high = mx.iinfo(dtype).min, mx.iinfo(dtype).max
    kind = np.array(mx.zeros(1, dtype)).dtype
    for value in (low, high):
        x = mx.array(np.full((1, 3, 3, 5), value, kind))
        y = max_op(2)(x, 3, 1, 1)
        assert y.dtype == dtype
        assert set(np.array(y).ravel().tolist()) == {value}
    alone = max_op(2)(x, 2, 2, 2)[0, 0, 0, 0]
    assert alone.item() == low
    y = avg_op(2)(mx.array(np.full((1, 2, 2, 1), high, kind)), 2)
    assert y.dtype == mx.float32
    assert y.item() == pytest.approx(float(high), rel=1e-6)


def test_complex_input():
    x = mx.array([1 + 2j, 3 - 4j]).reshape(1, 2, 1)
    with pytest.raises(ValueError, match="complex"):
        max_op(1)(x, 2)
    assert avg_op(1)(x, 2).item() == 2 - 1j


@POOLS
@NDIMS
def test_gradients_of_higher_order(pool, ndim: int):
    """Of sum(y**4), against finite differences of the next lower order."""
    x = mx.random.permutation(mx.arange(4**ndim), key=mx.random.key(0)).reshape(
        1, *(4,) * ndim, 1
    )
    x = x.astype(mx.float32) / 4**ndim  # all different: differentiable here
    v = mx.random.normal(x.shape, key=mx.random.key(1))
    f = power_sum(fixed(pool(ndim), 3, 1, 1), 4)
    for _ in range(3):
        step = 1e-3
        expected = (f(x + step * v) - f(x - step * v)) / (2 * step)
        f = weighted_sum(mx.grad(f), v)
        assert f(x).item() == pytest.approx(expected.item(), rel=0.02, abs=5e-3)
