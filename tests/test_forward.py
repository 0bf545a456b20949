"""Values of max and average pooling against the reference."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
import reference
from checks import check_averages
from hypothesis import given
from strategies import ANY, FINITE, Case, Data, average_options, cases
from support import (
    EVERY_DTYPE,
    FLOATS,
    INTEGERS,
    NDIMS,
    ORDERED,
    POOLS,
    assert_identical,
    assert_same,
    avg_op,
    avg_pool,
    every_half,
    exact,
    geometry,
    graph_nodes,
    irregular,
    max_op,
    max_pool,
    normal,
    short_name,
    takes_the_first_zero,
)


def check_max(case: Case, dtype: mx.Dtype) -> None:
    x = case.input(dtype)
    y = max_pool(x, case.geometry)
    assert y.dtype == dtype
    assert_same(y, reference.max_pool(exact(x), case.geometry).values)


def check_avg(case: Case, dtype: mx.Dtype, **options) -> None:
    check_averages(avg_pool, case.input(dtype), case.geometry, **options)


@pytest.mark.parametrize("dtype", ORDERED, ids=short_name)
@given(case=cases())
def test_max_of_every_dtype(dtype: mx.Dtype, case: Case):
    check_max(case, dtype)


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=short_name)
@given(case=cases(), options=average_options())
def test_avg_of_every_dtype(dtype: mx.Dtype, case: Case, options: dict):
    check_avg(case, dtype, **options)


@given(case=cases(), options=average_options())
def test_float64_on_cpu(case: Case, options: dict):
    with mx.stream(mx.cpu):
        check_max(case, mx.float64)
        check_avg(case, mx.float64, **options)


def test_float64_average_keeps_its_precision():
    with mx.stream(mx.cpu):
        x = mx.array([1.0, 2.0**-40], mx.float64).reshape(1, 2, 1)
        y = avg_op(1)(x, 2)
        assert exact(y).item() == (1 + 2.0**-40) / 2


def test_average_is_accumulated_in_float32_and_rounded_once():
    """In float16 a running sum of ones stops at 2048."""
    for dtype in (mx.float16, mx.bfloat16):
        x = mx.ones((1, 100, 100, 3), dtype)
        np.testing.assert_array_equal(exact(avg_op(2)(x, 100)), 1.0)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short_name)
def test_every_half_precision_value_passes_unchanged(dtype: mx.Dtype, device: str):
    x = every_half(dtype, device)
    pairs = mx.repeat(x, 2, axis=1)
    assert_identical(max_op(1)(pairs, 1, 2), x)
    assert_identical(avg_op(1)(pairs, 1, 2), x)
    every_other = mx.grad(lambda x: avg_op(1)(x * x, 1, 2).sum())(pairs)
    assert_identical(every_other[:, ::2], x + x)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=short_name)
def test_averages_are_rounded_to_the_nearest_even(dtype: mx.Dtype, device: str):
    """Neighbours meet halfway; others fall anywhere between two values."""
    x = every_half(dtype, device)
    for partner in (mx.roll(x, 1, axis=1), mx.roll(x, 9999, axis=1)):
        y = avg_op(1)(mx.stack([x, partner], axis=2).reshape(1, -1, 1), 2)
        total = x.astype(mx.float32) + partner.astype(mx.float32)
        assert_identical(y, normal((total / 2).astype(dtype), device))


def test_average_of_large_integers():
    top = mx.iinfo(mx.int32).max
    y = avg_op(1)(mx.full((1, 4, 1), top, mx.int32), 4)
    assert exact(y).item() == np.float32(top)


@NDIMS
@pytest.mark.parametrize("kind", ANY)
def test_each_kind_of_data(ndim: int, kind: str):
    case = Case(irregular(ndim), 2, 5, Data(kind, 0))
    for dtype in FLOATS:
        check_max(case, dtype)
        check_avg(case, dtype, count_include_pad=False)


@NDIMS
@pytest.mark.parametrize("channels", [*range(1, 20), 31, 32, 48, 64, 65, 130, 240])
def test_every_small_number_of_channels(ndim: int, channels: int):
    """Alone, in pairs or more, vectors are searched again if they hold a NaN."""
    g = geometry((8, 7, 6)[:ndim], 3, 2, 1)
    for kind in ("ties", "nan", "rare nan", "infinite"):
        case = Case(g, 2, channels, Data(kind, channels))
        for dtype in (mx.float32, mx.bfloat16, mx.int8):
            check_max(case, dtype)
            check_avg(case, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("channels", [1, 3, 8, 16, 40, 64, 250])
def test_the_first_of_two_zeros_is_the_maximum(dtype: mx.Dtype, channels: int):
    zeros = mx.array([[[-0.0], [0.0], [0.0], [-0.0]]]).astype(dtype)
    x = mx.broadcast_to(zeros, (1, 4, channels))
    y, indices = max_op(1)(x, 2, return_indices=True)
    alone = max_op(1)(x, 2)
    for maxima in (y, alone) if takes_the_first_zero(dtype) else (y,):
        signs = np.signbit(np.array(maxima.astype(mx.float32)))
        np.testing.assert_array_equal(signs, [[[True] * channels, [False] * channels]])
    assert_identical(alone, y)
    np.testing.assert_array_equal(indices[0, :, 0], [0, 2])


@pytest.mark.parametrize("kernel", [2, 3, 5, 7, 9, 13, 17, 32])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_large_windows(kernel: int, stride: int):
    size = (20, 17) if stride == 1 and kernel > 13 else (40, 33)
    g = geometry(size, kernel, stride, kernel // 2)
    for kind in ("nan", "infinite", "normal"):
        case = Case(g, 1, 3, Data(kind, kernel))
        check_max(case, mx.float32)
        check_avg(case, mx.float32)
        check_avg(case, mx.float16, count_include_pad=False)


@given(case=cases())
def test_int_tuple_and_pair_arguments_are_the_same(case: Case):
    g = case.geometry
    n = g.ndim
    kernel, stride, dilation = g.kernel[0], g.stride[0], g.dilation[0]
    padding = g.padding[0][0]
    uniform = geometry(
        tuple(max(s, dilation * (kernel - 1) + 1) for s in g.size),
        kernel,
        stride,
        padding,
        dilation,
    )
    x = case.data.array((2, *uniform.size, case.channels), mx.float32)
    scalar = max_op(n)(x, kernel, stride, padding, dilation)
    tuples = max_op(n)(x, (kernel,) * n, (stride,) * n, (padding,) * n, (dilation,) * n)
    pairs = max_op(n)(x, kernel, stride, ((padding, padding),) * n, dilation)
    lists = max_op(n)(x, [kernel] * n, [stride] * n, [[padding, padding]] * n)
    assert_identical(tuples, scalar)
    assert_identical(pairs, scalar)
    if dilation == 1:
        assert_identical(lists, scalar)
    scalar = avg_op(n)(x, kernel, stride, padding, dilation=dilation)
    tuples = avg_op(n)(
        x, (kernel,) * n, (stride,) * n, (padding,) * n, dilation=(dilation,) * n
    )
    pairs = avg_op(n)(x, kernel, stride, ((padding, padding),) * n, dilation=dilation)
    assert_identical(tuples, scalar)
    assert_identical(pairs, scalar)


@NDIMS
def test_stride_defaults_to_the_kernel(ndim: int):
    x = Data("ties", 0).array((2, *(7, 8, 9)[:ndim], 3), mx.float32)
    kernel = (3, 2, 4)[:ndim]
    for op in (max_op(ndim), avg_op(ndim)):
        assert_identical(op(x, kernel), op(x, kernel, kernel))
        assert_identical(op(x, kernel, None), op(x, kernel, stride=kernel))


def test_positional_order_is_that_of_pytorch():
    x = Data("nan", 3).array((2, 9, 8, 3), mx.float32)
    by_position = max_op(2)(x, 3, 2, 1, 2, True, True)
    by_name = max_op(2)(
        x,
        kernel_size=3,
        stride=2,
        padding=1,
        dilation=2,
        ceil_mode=True,
        return_indices=True,
    )
    for a, b in zip(by_position, by_name, strict=True):
        assert_identical(a, b)
    by_name = avg_op(2)(
        x,
        kernel_size=3,
        stride=2,
        padding=1,
        ceil_mode=True,
        count_include_pad=False,
        divisor_override=5,
    )
    assert_identical(avg_op(2)(x, 3, 2, 1, True, False, 5), by_name)


def test_dilation_of_average_and_stream_are_keyword_only():
    x = mx.zeros((1, 4, 4, 1))
    with pytest.raises(TypeError):
        avg_op(2)(x, 2, 2, 0, False, True, None, 1)
    with pytest.raises(TypeError):
        max_op(2)(x, 2, 2, 0, 1, False, False, mx.cpu)


@POOLS
def test_stream_may_be_a_device_or_a_stream(pool):
    x = Data("ties", 0).array((2, 6, 6, 3), mx.float32)
    expected = pool(2)(x, 2)
    assert_identical(pool(2)(x, 2, stream=mx.cpu), expected)
    assert_identical(pool(2)(x, 2, stream=mx.new_stream(mx.cpu)), expected)
    assert_identical(pool(2)(x, 2, stream=None), expected)


@NDIMS
def test_ceil_mode_rounds_a_part_of_a_window_to_one(ndim: int):
    """As PyTorch, while less than a stride is missing."""
    for size, kernel, stride, padding in ((1, 2, 2, 0), (2, 3, 2, 0), (3, 9, 7, 2)):
        x = mx.arange(1, 1 + size**ndim).reshape(1, *(size,) * ndim, 1)
        pooled, index = max_op(ndim)(
            x, kernel, stride, padding, ceil_mode=True, return_indices=True
        )
        last = size**ndim - 1
        assert pooled.shape == (1,) * (ndim + 2)
        assert (pooled.item(), index.item()) == (last + 1, last)
        average = avg_op(ndim)(x, kernel, stride, padding, ceil_mode=True)
        assert average.item() == np.float32(
            exact(x).sum() / (size + 2 * padding) ** ndim
        )
        with pytest.raises(ValueError, match="'kernel_size' must fit"):
            max_op(ndim)(x, kernel, stride, padding)


@NDIMS
def test_windows_wholly_in_the_padding(ndim: int):
    g = geometry((2, 3, 2)[:ndim], 2, 1, 5)
    for dtype in (mx.float32, mx.bfloat16, mx.int8, mx.uint16, mx.int64, mx.bool_):
        x = mx.ones((1, *g.size, 3), dtype)
        corner = exact(max_pool(x, g))[(0,) * (ndim + 1)]
        lowest = reference.lowest(np.array(x).dtype if dtype in INTEGERS else None)
        assert np.all(corner == (False if dtype == mx.bool_ else lowest))
        for options in (
            {},
            {"count_include_pad": False},
            {"divisor_override": 3},
            {"count_include_pad": False, "divisor_override": -3},
        ):
            y = exact(avg_pool(x, g, **options))
            assert np.all(y[(0,) * (ndim + 1)] == 0)
            assert np.all(np.isfinite(y))


@pytest.mark.parametrize("size", range(1, 12))
@pytest.mark.parametrize("kernel", range(1, 5))
def test_every_small_output_size(size: int, kernel: int):
    x = mx.arange(size, dtype=mx.float32).reshape(1, size, 1)
    for stride in range(1, 6):
        for padding in ((0, 0), (1, 0), (0, 1), (2, 3), (4, 4)):
            for dilation in (1, 2):
                for ceil_mode in (False, True):
                    if dilation * (kernel - 1) + 1 > size + sum(padding):
                        continue
                    g = geometry(
                        (size,), kernel, stride, (padding,), dilation, ceil_mode
                    )
                    expected = reference.max_pool(exact(x), g).values
                    assert_same(max_pool(x, g), expected)
                    assert avg_pool(x, g).shape == expected.shape


def test_one_primitive_and_no_offsets_outside_a_trace():
    x = mx.zeros((1, 128, 128, 256))
    mx.eval(x)
    for pool, name in ((max_op, "MaxPool"), (avg_op, "AvgPool")):
        nodes = dict(graph_nodes(pool(2)(x, 3, 2, 1)))
        nodes.pop("Contiguous", None)  # free here: MLX takes the buffer as it is
        assert nodes == {name: 1}


@given(case=cases(FINITE))
def test_max_is_no_less_than_average(case: Case):
    """A property that needs no reference."""
    x = case.input()
    average = avg_pool(x, case.geometry, count_include_pad=False)
    largest = max_pool(x, case.geometry)
    covered = avg_pool(mx.ones_like(x), case.geometry) > 0
    assert mx.all(mx.where(covered, largest >= average - 1e-5, True)).item()
