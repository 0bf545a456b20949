"""Quantized arrays and pooling are what their definitions in NumPy are."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import re

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from mlx_pooling import QuantizedArray, _ext, composed, quantize_per_tensor
from mlx_pooling._arguments import make_window
from strategies import Case, average_options, cases
from support import INPUTS, NDIMS, assert_identical, geometry, graph_nodes, sum_pool
from test_methods import EACH_WINDOW

DTYPES = (mx.uint8, mx.int8, mx.int32)
NUMPY = {mx.uint8: np.uint8, mx.int8: np.int8, mx.int32: np.int32}
EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES, ids=str)
KINDS = pytest.mark.parametrize("kind", ["max", "avg"])
# Some whose inverse is exact in float32, some whose is not.
SCALES = (0.25, 1.5, 0.1, 1 / 3, 0.007)


def op(kind: str, ndim: int):
    return getattr(mlx_pooling, f"quantized_{kind}_pool{ndim}d")


def max_pool(q: QuantizedArray, g: reference.Geometry) -> QuantizedArray:
    return op("max", g.ndim)(q, g.kernel, g.stride, g.padding, g.dilation, g.ceil_mode)


def avg_pool(q: QuantizedArray, g: reference.Geometry, **options) -> QuantizedArray:
    return op("avg", g.ndim)(q, g.kernel, g.stride, g.padding, g.ceil_mode, **options)


def integers(shape: tuple[int, ...], dtype: mx.Dtype, seed: int = 0) -> np.ndarray:
    """From all of the dtype's range; int32 also from as little as 8 bits have."""
    limits = np.iinfo(np.int8 if seed % 2 and dtype == mx.int32 else NUMPY[dtype])
    rng = np.random.default_rng(seed)
    values = rng.integers(limits.min, limits.max, shape, np.int64, endpoint=True)
    return values.astype(NUMPY[dtype])


def zero_points(dtype: mx.Dtype) -> tuple[int, ...]:
    limits = mx.iinfo(dtype)
    return (limits.min, 0, 1, 3, 100, limits.max)


def saturated(scaled: np.ndarray, dtype: mx.Dtype) -> np.ndarray:
    limits = mx.iinfo(dtype)
    nearest = np.clip(np.rint(scaled.astype(np.float64)), limits.min, limits.max)
    return np.where(np.isnan(nearest), limits.max, nearest).astype(NUMPY[dtype])


def quantized(
    x: np.ndarray, scale: float, zero_point: int, dtype: mx.Dtype
) -> np.ndarray:
    inverse = np.float32(1) / np.float32(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == mx.int32:
            scaled = x * inverse + np.float32(zero_point)
        else:  # float64 holds the product and each sum near a tie
            scaled = (x.astype(np.float64) * inverse + zero_point).astype(np.float32)
    return saturated(scaled, dtype)


def sums(steps: np.ndarray, g: reference.Geometry) -> np.ndarray:
    totals = np.zeros((len(steps), *g.output, steps.shape[-1]), np.int64)
    planes = steps.reshape(len(steps), -1, steps.shape[-1])
    for window in reference.windows(g):
        totals[(slice(None), *window.output)] = planes[:, window.positions].sum(1)
    return totals


def averaged(
    values: np.ndarray,
    zero_point: int,
    dtype: mx.Dtype,
    g: reference.Geometry,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> np.ndarray:
    totals = sums(values.astype(np.int64) - zero_point, g).astype(np.float32)
    shares = np.ones((*g.output, 1), np.float32)
    for window in reference.windows(g):
        # None counts no tap but those whose sum is 0.
        divisor = window.divisor(count_include_pad, divisor_override) or 1
        shares[window.output] = np.float32(1) / np.float32(divisor)
    return saturated(totals * shares + np.float32(zero_point), dtype)


def assert_integers(q: QuantizedArray, expected: np.ndarray) -> None:
    assert q.shape == expected.shape
    assert NUMPY[q.dtype] == expected.dtype
    np.testing.assert_array_equal(np.array(q.int_repr()), expected)


# Arrays


@EACH_DTYPE
def test_an_array_is_its_integers_scale_and_zero_point(dtype: mx.Dtype):
    values = mx.array(integers((2, 3, 4), dtype))
    q = QuantizedArray(values, 0.1, 7)
    assert_identical(q.int_repr(), values)
    assert (q.scale, q.zero_point, q.dtype) == (0.1, 7, dtype)
    assert (q.shape, q.ndim, q.size, len(q)) == ((2, 3, 4), 3, 24, 2)


@EACH_DTYPE
def test_dequantize(dtype: mx.Dtype):
    values = integers((1000,), dtype)
    for scale, zero_point in itertools.product(SCALES, zero_points(dtype)):
        q = QuantizedArray(mx.array(values), scale, zero_point)
        steps = (values.astype(np.int64) - zero_point).astype(np.float32)
        assert_identical(q.dequantize(), mx.array(steps * np.float32(scale)))


def test_parts():
    values = mx.array(integers((4, 5, 2), mx.uint8))
    q = QuantizedArray(values, 0.5, 3)
    for index in (0, -1, slice(1, 3), (..., 1), (slice(None), 2), mx.array([2, 0])):
        part = q[index]
        assert isinstance(part, QuantizedArray)
        assert (part.scale, part.zero_point) == (0.5, 3)
        assert_identical(part.int_repr(), values[index])
    rows = list(q)
    assert len(rows) == 4
    for row, expected in zip(rows, values, strict=True):
        assert_identical(row.int_repr(), expected)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda q: pickle.loads(pickle.dumps(q))],
    ids=["copy", "deepcopy", "pickle"],
)
@EACH_DTYPE
def test_copies(copied, dtype: mx.Dtype):
    q = QuantizedArray(mx.array(integers((3, 2), dtype)), 1 / 3, 5)
    other = copied(q)
    assert_identical(other.int_repr(), q.int_repr())
    assert (other.scale, other.zero_point) == (q.scale, q.zero_point)
    assert repr(other) == repr(q)


def test_the_integers_that_are_handed_out_may_be_changed():
    q = QuantizedArray(mx.array([10, 20, 30], mx.uint8), 0.5, 0)
    integers = q.int_repr()
    integers -= 3
    integers[0] = 0
    assert q.int_repr().tolist() == [10, 20, 30]
    # Another operation would take longer than a small pooling.
    assert not graph_nodes(q.int_repr())


def test_repr():
    values = mx.array([[3, 4], [0, 255]], mx.uint8)
    assert repr(QuantizedArray(values, 1.5, 3)) == (
        "array([[0, 1.5],\n"
        "       [-4.5, 378]], size=(2, 2), dtype=uint8,\n"
        "      quantization_scheme=per_tensor_affine, scale=1.5, zero_point=3)"
    )
    assert repr(QuantizedArray(mx.array(-7, mx.int32), 2, -8)) == (
        "array(2, size=(), dtype=int32,\n"
        "      quantization_scheme=per_tensor_affine, scale=2.0, zero_point=-8)"
    )


def test_a_scale_of_numpy_and_a_zero_point_of_numpy():
    q = QuantizedArray(mx.array([1], mx.int8), np.float32(0.5), np.int64(-3))
    assert type(q.scale) is float and type(q.zero_point) is int


# Rounding to integers


@pytest.mark.parametrize("scale", SCALES)
@EACH_DTYPE
def test_quantizing_around_every_8_bit_integer_and_tie(dtype: mx.Dtype, scale: float):
    limits = mx.iinfo(mx.uint8 if dtype == mx.uint8 else mx.int8)
    for zero_point in (0, 1, 3, 100, limits.max):
        steps = np.arange(limits.min - 2, limits.max + 2.25, 0.25) - zero_point
        at = (steps * scale).astype(np.float32)
        above, below = (np.nextafter(at, np.float32(to)) for to in (np.inf, -np.inf))
        x = np.stack([at, above, below])
        q = quantize_per_tensor(mx.array(x), scale, zero_point, dtype)
        assert (q.scale, q.zero_point) == (scale, zero_point)
        assert_integers(q, quantized(x, scale, zero_point, dtype))


@EACH_DTYPE
def test_every_integer_survives_dequantizing(dtype: mx.Dtype):
    limits = mx.iinfo(mx.int8 if dtype == mx.int32 else dtype)
    values = np.arange(limits.min, limits.max + 1).astype(NUMPY[dtype])
    for scale, zero_point in itertools.product(SCALES, (0, 3, limits.max)):
        q = QuantizedArray(mx.array(values), scale, zero_point)
        again = quantize_per_tensor(q.dequantize(), scale, zero_point, dtype)
        assert_integers(again, values)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@EACH_DTYPE
def test_quantizing_what_is_out_of_range(dtype: mx.Dtype, scale: float):
    limits = mx.iinfo(dtype)
    low, high, zero_point = limits.min, limits.max, 5
    x = np.array([np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 0, -0.0, 1e-45], np.float32)
    q = quantize_per_tensor(mx.array(x), scale, zero_point, dtype)
    assert_integers(q, quantized(x, scale, zero_point, dtype))
    assert q.int_repr()[:3].tolist() == [high, low, high]
    assert q.int_repr()[5:7].tolist() == [zero_point] * 2


def test_quantizing_to_the_ends_of_int32():
    x = np.array([2147483520, 2147483648, -2147483648, -2147483904], np.float32)
    q = quantize_per_tensor(mx.array(x), 1, 0, mx.int32)
    assert q.int_repr().tolist() == [2147483520, 2**31 - 1, -(2**31), -(2**31)]


@pytest.mark.parametrize("half", [mx.float16, mx.bfloat16], ids=str)
@EACH_DTYPE
def test_quantizing_half_types(dtype: mx.Dtype, half: mx.Dtype):
    x = mx.arange(-40, 40, 0.125).astype(half)
    q = quantize_per_tensor(x, 0.3, 3, dtype)
    x = np.array(x.astype(mx.float32))
    assert_integers(q, quantized(x, 0.3, 3, dtype))


# Pooling


@EACH_DTYPE
@given(case=cases())
def test_max_pool_of_any_geometry(dtype: mx.Dtype, case: Case):
    values = integers(case.input_shape, dtype, case.data.seed)
    y = max_pool(QuantizedArray(mx.array(values), 0.1, 3), case.geometry)
    assert (y.scale, y.zero_point) == (0.1, 3)
    assert_integers(y, reference.max_pool(values, case.geometry).values)


def undilated(g: reference.Geometry) -> reference.Geometry:
    return reference.Geometry(
        g.size, g.kernel, g.stride, g.padding, (1,) * g.ndim, g.ceil_mode
    )


@EACH_DTYPE
@given(case=cases(), options=average_options(), pick=st.integers(0, 5))
def test_avg_pool_of_any_geometry(
    dtype: mx.Dtype, case: Case, options: dict, pick: int
):
    g = undilated(case.geometry)
    values = integers(case.input_shape, dtype, case.data.seed)
    zero_point = zero_points(dtype)[pick]
    y = avg_pool(QuantizedArray(mx.array(values), 0.1, zero_point), g, **options)
    assert (y.scale, y.zero_point) == (0.1, zero_point)
    assert_integers(y, averaged(values, zero_point, dtype, g, **options))


@pytest.mark.parametrize("zero_point", [0, 1, 3, 127])
@pytest.mark.parametrize("dtype", [mx.uint8, mx.int8], ids=str)
def test_averages_of_every_pair(dtype: mx.Dtype, zero_point: int):
    limits = mx.iinfo(dtype)
    every = np.arange(limits.min, limits.max + 1).astype(NUMPY[dtype])
    pairs = np.stack([np.repeat(every, 256), np.tile(every, 256)])
    y = op("avg", 1)(QuantizedArray(mx.array(pairs), 0.1, zero_point), 2)
    expected = averaged(pairs[None], zero_point, dtype, geometry((2,), 2))[0]
    assert_integers(y, expected)


@pytest.mark.parametrize("taps", [3, 4, 6, 9, 14, 16, 49, 98])
@pytest.mark.parametrize("dtype", [mx.uint8, mx.int8], ids=str)
def test_averages_of_every_sum(dtype: mx.Dtype, taps: int):
    """What is rounded depends on the sum alone; 1 / 14 makes float32 miss ties."""
    limits = mx.iinfo(dtype)
    total = np.arange(255 * taps + 1)
    share, left = np.divmod(total, taps)
    values = share + (np.arange(taps)[:, None] < left) + limits.min
    values = values.astype(NUMPY[dtype])
    for zero_point in (0, 1):
        y = op("avg", 1)(QuantizedArray(mx.array(values), 0.1, zero_point), taps)
        expected = averaged(values[None], zero_point, dtype, geometry((taps,), taps))
        assert_integers(y, expected[0])


@pytest.mark.parametrize("dtype", [mx.uint8, mx.int8], ids=str)
@EACH_WINDOW
def test_averages_by_every_method(window, dtype: mx.Dtype):
    g = undilated(geometry(*window))
    for channels in (1, 2, 3, 4, 5, 12, 16, 70):
        values = integers((2, *g.size, channels), dtype, channels)
        for options in ({}, {"count_include_pad": False}):
            y = avg_pool(QuantizedArray(mx.array(values), 0.1, 101), g, **options)
            assert_integers(y, averaged(values, 101, dtype, g, **options))


@EACH_DTYPE
@NDIMS
@KINDS
def test_a_constant_stays_what_it_is(kind: str, ndim: int, dtype: mx.Dtype):
    limits = mx.iinfo(dtype)
    for value in (limits.min, 0, limits.max):
        q = QuantizedArray(mx.full(INPUTS[ndim], value, dtype), 0.1, value)
        y = op(kind, ndim)(q, 3, 2, 1)
        assert_identical(y.int_repr(), mx.full(y.shape, value, dtype))


def test_padding_counts_as_zero_points():
    q = QuantizedArray(mx.array([[10], [20]], mx.uint8), 0.1, 4)
    assert op("avg", 1)(q, 2, 2, 1).int_repr().tolist() == [[7], [12]]
    alone = op("avg", 1)(q, 2, 2, 1, count_include_pad=False)
    assert alone.int_repr().tolist() == [[10], [20]]


def test_the_zero_point_is_added_before_rounding():
    for zero_point, expected in ((2, 2), (3, 4)):
        values = mx.array([[zero_point], [zero_point + 1]], mx.uint8)
        y = op("avg", 1)(QuantizedArray(values, 0.1, zero_point), 2)
        assert y.int_repr().item() == expected


@pytest.mark.parametrize("stride", [(), [], None, 3, (3, 3)], ids=repr)
@KINDS
def test_no_stride_is_that_of_the_kernel(kind: str, stride):
    q = QuantizedArray(mx.array(integers((7, 8, 2), mx.uint8)), 0.1, 3)
    expected = op(kind, 2)(q, 3, 3)
    assert_identical(op(kind, 2)(q, 3, stride).int_repr(), expected.int_repr())


@pytest.mark.parametrize("padding", ["same", "valid"])
@KINDS
def test_padding_by_name(kind: str, padding: str):
    q = QuantizedArray(mx.array(integers((7, 8, 2), mx.uint8)), 0.1, 3)
    pads = ((1, 1), (0, 1)) if padding == "same" else 0
    expected = op(kind, 2)(q, 3, 2, pads)
    assert_identical(op(kind, 2)(q, 3, 2, padding).int_repr(), expected.int_repr())


@EACH_DTYPE
@NDIMS
@KINDS
def test_empty_arrays(kind: str, ndim: int, dtype: mx.Dtype):
    for shape in ((0, *INPUTS[ndim][1:]), (*INPUTS[ndim][:-1], 0)):
        y = op(kind, ndim)(QuantizedArray(mx.zeros(shape, dtype), 0.1, 3), 2, 2, 1)
        assert y.size == 0 and y.dtype == dtype and y.ndim == ndim + 2
    empty = quantize_per_tensor(mx.zeros((0, 2)), 0.1, 3, dtype)
    assert empty.shape == (0, 2)


@NDIMS
@KINDS
def test_a_batch_is_optional(kind: str, ndim: int):
    q = QuantizedArray(mx.array(integers(INPUTS[ndim], mx.int8)), 0.1, 3)
    batched, alone = (op(kind, ndim)(x, 3, 2, 1) for x in (q, q[0]))
    assert_identical(alone.int_repr(), batched[0].int_repr())


@pytest.mark.parametrize("window", [(2, 1, 1), (3, 2, 2)], ids=str)
@pytest.mark.parametrize("size", [(0, 4), (4, 0)], ids=str)
def test_a_spatial_axis_of_no_length(size: tuple[int, ...], window: tuple):
    for channels in (1, 3, 70):
        q = QuantizedArray(mx.zeros((1, *size, channels), mx.uint8), 0.1, 100)
        y = op("avg", 2)(q, *window)
        assert_identical(y.int_repr(), mx.full(y.shape, 100, mx.uint8))


def test_views_of_channels_first():
    values = mx.array(integers((2, 5, 9, 30), mx.int8))
    q = QuantizedArray(values.transpose(0, 2, 3, 1), 0.1, -3)
    compact = QuantizedArray(mx.contiguous(q.int_repr()), 0.1, -3)
    for stride in (1, 2):
        y, expected = (op("avg", 2)(q, 3, stride, 1) for q in (q, compact))
        assert_identical(y.int_repr(), expected.int_repr())


def test_views():
    values = mx.array(integers((2, 3, 9, 8), mx.uint8))
    q = QuantizedArray(values, 0.1, 3)
    for index in ((slice(None), 1), (..., slice(None, None, -2)), slice(1, None)):
        part = q[index]
        compact = QuantizedArray(mx.contiguous(part.int_repr()), 0.1, 3)
        for kind in ("max", "avg"):
            y, expected = (op(kind, 2)(q, 2) for q in (part, compact))
            assert_identical(y.int_repr(), expected.int_repr())


# Sums


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64], ids=str)
@given(case=cases())
def test_sums_are_exact(dtype: mx.Dtype, case: Case):
    """Those of float32 would not be."""
    reach = 2**24 if dtype == mx.int32 else 2**50
    rng = np.random.default_rng(case.data.seed)
    x = rng.integers(-reach, reach, case.input_shape, np.int64, endpoint=True)
    y = sum_pool(mx.array(x).astype(dtype), case.geometry)
    assert y.dtype == dtype
    np.testing.assert_array_equal(np.array(y), sums(x, case.geometry))


def test_averages_of_int32_do_not_overflow():
    high, low = 2**31 - 1, -(2**31)
    values = mx.full((9, 9, 3), high, mx.int32)
    assert op("avg", 2)(QuantizedArray(values, 0.1, low), 9).int_repr().tolist() == (
        [[[high] * 3]]
    )


def test_sums_of_8_bits_beyond_32():
    taps = 2**31 // 255 + 2
    q = QuantizedArray(mx.full((taps, 1), 255, mx.uint8), 0.1, 0)
    assert op("avg", 1)(q, taps).int_repr().item() == 255


def test_integers_are_averaged_in_float32_elsewhere():
    y = mlx_pooling.avg_pool1d(mx.array([[1], [2]], mx.int32), 2)
    assert_identical(y, mx.array([[1.5]]))


# As part of a computation


def quantized_by_hand(x: mx.array) -> QuantizedArray:
    return QuantizedArray((10 * x).astype(mx.int8), 0.1, 0)


def quantized_to_uint8(x: mx.array) -> QuantizedArray:
    return quantize_per_tensor(x, 0.1, 3, mx.uint8)


def pooled(kind: str, quantize=quantized_to_uint8):
    return lambda x: op(kind, 2)(quantize(x), 3, 2, 1).dequantize()


@pytest.mark.parametrize("quantize", [quantized_by_hand, quantized_to_uint8])
@KINDS
def test_no_gradient_passes(kind: str, quantize):
    f = pooled(kind, quantize)
    x = mx.random.normal((2, 7, 8, 3))
    assert_identical(mx.grad(lambda x: f(x).sum())(x), mx.zeros_like(x))
    with composed():
        assert_identical(mx.grad(lambda x: f(x).sum())(x), mx.zeros_like(x))
    (tangent,) = mx.jvp(f, [x], [mx.ones_like(x)])[1]
    assert_identical(tangent, mx.zeros_like(f(x)))


@pytest.mark.parametrize("shapeless", [False, True])
@KINDS
def test_compile(kind: str, shapeless: bool):
    """Divisors at the edges must follow the shape."""

    options = {"count_include_pad": False} if kind == "avg" else {}

    def f(x: mx.array) -> mx.array:
        return op(kind, 2)(quantized_to_uint8(x), 3, 2, 1, **options).dequantize()

    compiled = mx.compile(f, shapeless=shapeless)
    for size in (6, 5, 9):
        x = mx.random.normal((2, size, size + 1, 3))
        assert_identical(compiled(x), f(x))


def test_shapeless_compile_for_one_channel_and_several():
    """Whose int32 windows are divided by what is inside."""

    def f(x: mx.array) -> mx.array:
        q = QuantizedArray(x, 0.1, 3)
        return op("avg", 2)(q, 3, 2, 1, count_include_pad=False).int_repr()

    compiled = mx.compile(f, shapeless=True)
    for channels in (3, 1, 5):
        x = mx.array(integers((2, 6, 7, channels), mx.int32))
        assert_identical(compiled(x), f(x))


@pytest.mark.parametrize("bad", ["cpu", 0])
def test_a_stream_of_the_wrong_type(bad):
    q = QuantizedArray(mx.array([1, 2], mx.uint8), 0.5, 1)
    message = f"'stream' must be a Stream, Device or None but got {bad!r}."
    with pytest.raises(TypeError, match=re.escape(f"[dequantize] {message}")):
        q.dequantize(stream=bad)
    with pytest.raises(TypeError, match=re.escape(f"[quantize_per_tensor] {message}")):
        quantize_per_tensor(mx.ones(3), 0.1, 0, mx.int8, stream=bad)


def test_compile_tells_zero_points_apart():
    def f(x: mx.array) -> list[mx.array]:
        arrays = [QuantizedArray(x, 0.1, zero_point) for zero_point in (3, 90)]
        return [op("avg", 2)(q, 3, 2, 1).int_repr() for q in arrays]

    x = mx.array(integers((2, 7, 8, 3), mx.uint8))
    for result, expected in zip(mx.compile(f)(x), f(x), strict=True):
        assert_identical(result, expected)


def test_no_derivative_of_the_integers():
    x = mx.array(integers((2, 7, 8, 3), mx.uint8))
    window = make_window("quantized_avg_pool2d", 2, 3, 2, 1, 1, ceil_mode=False)

    def f(x: mx.array) -> mx.array:
        return _ext.quantized_avg_pool(x, 3, window)

    y = f(x)
    if y is None:
        pytest.skip("composed on this device")
    for derivative, like in (
        (mx.vjp(f, [x], [mx.ones_like(y)])[1][0], x),
        (mx.jvp(f, [x], [mx.ones_like(x)])[1][0], y),
    ):
        assert_identical(derivative, mx.zeros_like(like))


@KINDS
def test_vmap(kind: str):
    x = mx.random.normal((4, 2, 7, 8, 3))
    expected = mx.stack([pooled(kind)(each) for each in x])
    assert_identical(mx.vmap(pooled(kind))(x), expected)


@EACH_DTYPE
@given(case=cases(), options=average_options())
def test_composed(dtype: mx.Dtype, case: Case, options: dict):
    q = QuantizedArray(
        mx.array(integers(case.input_shape, dtype, case.data.seed)), 0.1, 3
    )
    g = undilated(case.geometry)
    results = [max_pool(q, case.geometry), avg_pool(q, g, **options)]
    with composed():
        others = [max_pool(q, case.geometry), avg_pool(q, g, **options)]
    for result, other in zip(results, others, strict=True):
        assert_identical(other.int_repr(), result.int_repr())


@KINDS
def test_stream(kind: str):
    x = mx.random.normal((7, 8, 3))
    stream = mx.new_stream(mx.cpu)
    q = quantize_per_tensor(x, 0.1, 3, mx.uint8, stream=stream)
    y = op(kind, 2)(q, 3, 2, 1, stream=stream).dequantize(stream=stream)
    assert_identical(y, pooled(kind)(x))


# Signatures and errors


@NDIMS
def test_signatures_are_those_of_pytorch(ndim: int):
    required = inspect.Parameter.empty
    maxima = {
        **{"input": required, "kernel_size": required, "stride": (), "padding": 0},
        **{"dilation": 1, "ceil_mode": False, "stream": None},
    }
    averages = {
        **{"input": required, "kernel_size": required, "stride": None, "padding": 0},
        **{"ceil_mode": False, "count_include_pad": True, "divisor_override": None},
        "stream": None,
    }
    for kind, expected in (("max", maxima), ("avg", averages)):
        parameters = inspect.signature(op(kind, ndim)).parameters.values()
        assert {p.name: p.default for p in parameters} == expected
        assert [p.name for p in parameters if p.kind is p.KEYWORD_ONLY] == ["stream"]


@pytest.mark.parametrize("input", [mx.zeros((1, 4, 4, 1), mx.uint8), [[1]], None])
@NDIMS
@KINDS
def test_input_that_is_not_quantized(kind: str, ndim: int, input):
    with pytest.raises(TypeError) as raised:
        op(kind, ndim)(input, 2)
    assert str(raised.value) == (
        f"[quantized_{kind}_pool{ndim}d] 'input' must be a QuantizedArray "
        f"but got {type(input).__name__}."
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 0},
        {"kernel_size": 2.0},
        {"kernel_size": 100},
        {"stride": 0},
        {"stride": (1,) * 4},
        {"padding": -1},
        {"padding": "full"},
    ],
    ids=str,
)
@NDIMS
@KINDS
def test_sizes_out_of_range(kind: str, ndim: int, arguments: dict):
    q = QuantizedArray(mx.zeros(INPUTS[ndim], mx.uint8), 0.1, 3)
    with pytest.raises(ValueError) as raised:
        op(kind, ndim)(q, **{"kernel_size": 2, **arguments})
    (argument,) = arguments
    name = f"[quantized_{kind}_pool{ndim}d]"
    assert str(raised.value).startswith(f"{name} '{argument}' must ")


@NDIMS
@KINDS
def test_a_wrong_number_of_axes(kind: str, ndim: int):
    for shape in ((4,) * ndim, (4,) * (ndim + 3)):
        q = QuantizedArray(mx.zeros(shape, mx.uint8), 0.1, 3)
        with pytest.raises(ValueError) as raised:
            op(kind, ndim)(q, 2)
        name = f"[quantized_{kind}_pool{ndim}d]"
        assert str(raised.value).startswith(f"{name} 'input' must have {ndim + 1} (")


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (TypeError, {"ceil_mode": 1}),
        (TypeError, {"count_include_pad": None}),
        (TypeError, {"divisor_override": 2.0}),
        (ValueError, {"divisor_override": 0}),
    ],
    ids=str,
)
@NDIMS
def test_options_of_averages(ndim: int, error: type, arguments: dict):
    q = QuantizedArray(mx.zeros(INPUTS[ndim], mx.uint8), 0.1, 3)
    (argument,) = arguments
    start = rf"^\[quantized_avg_pool{ndim}d\] '{argument}' must "
    with pytest.raises(error, match=start):
        op("avg", ndim)(q, 2, **arguments)


SCALE_RANGE = "'scale' must be positive, and finite and normal in float32, but got"
BAD_SCALES = [
    *((s, ValueError, f"{SCALE_RANGE} {s}.") for s in (0.0, -1.0, 1e-39, 1e39)),
    *((s, ValueError, f"{SCALE_RANGE} {s}.") for s in (np.inf, np.nan, 0, 10**400)),
    *(
        (s, TypeError, f"'scale' must be a real number but got {s!r}.")
        for s in (True, None, "1", 1j, [1.0])
    ),
]
BAD_ZERO_POINTS = [
    *(
        (
            z,
            ValueError,
            f"'zero_point' must be between -128 and 127 for int8 but got {z}.",
        )
        for z in (-129, 128, 2**70)
    ),
    *(
        (z, TypeError, f"'zero_point' must be an integer but got {z!r}.")
        for z in (1.0, True, None, "1")
    ),
]
MAKERS = {
    "QuantizedArray": lambda s, z: QuantizedArray(mx.zeros(2, mx.int8), s, z),
    "quantize_per_tensor": lambda s, z: quantize_per_tensor(mx.zeros(2), s, z, mx.int8),
}
EACH_MAKER = pytest.mark.parametrize("name", MAKERS)


@pytest.mark.parametrize(("scale", "error", "message"), BAD_SCALES, ids=str)
@EACH_MAKER
def test_bad_scales(name: str, scale, error: type, message: str):
    with pytest.raises(error) as raised:
        MAKERS[name](scale, 0)
    assert str(raised.value) == f"[{name}] {message}"


@pytest.mark.parametrize(("zero_point", "error", "message"), BAD_ZERO_POINTS, ids=str)
@EACH_MAKER
def test_bad_zero_points(name: str, zero_point, error: type, message: str):
    with pytest.raises(error) as raised:
        MAKERS[name](1.0, zero_point)
    assert str(raised.value) == f"[{name}] {message}"


@EACH_MAKER
def test_the_limits_of_scale_and_zero_point(name: str):
    for scale in (2.0**-126, float(np.finfo(np.float32).max)):
        for zero_point in (-128, 127):
            q = MAKERS[name](scale, zero_point)
            assert (q.scale, q.zero_point) == (scale, zero_point)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: QuantizedArray(mx.zeros(2), 1.0, 0),
            *(ValueError, "'values' must be uint8, int8 or int32 but got float32."),
        ),
        (
            lambda: QuantizedArray([1, 2], 1.0, 0),
            *(TypeError, "'values' must be an mlx.core.array but got list."),
        ),
        (
            lambda: quantize_per_tensor([1.0], 1.0, 0, mx.uint8),
            *(TypeError, "'x' must be an mlx.core.array but got list."),
        ),
        (
            lambda: quantize_per_tensor(mx.zeros(2, mx.int8), 1.0, 0, mx.uint8),
            *(ValueError, "'x' must be float16, bfloat16 or float32 but got int8."),
        ),
        (
            lambda: quantize_per_tensor(mx.zeros(2), 1.0, 0, mx.int16),
            *(ValueError, "'dtype' must be uint8, int8 or int32 but got int16."),
        ),
        (
            lambda: quantize_per_tensor(mx.zeros(2), 1.0, 0, "uint8"),
            *(TypeError, "'dtype' must be an mlx.core.Dtype but got 'uint8'."),
        ),
    ],
)
def test_bad_arrays_and_dtypes(make, error: type, message: str):
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value).split("] ", 1)[1] == message


def test_what_sums_refuse():
    window = make_window("sum", 1, 2, None, 0, 1, ceil_mode=False)
    with pytest.raises(TypeError, match=r"^\[sum\] 'x' must be an mlx.core.array"):
        _ext.sum_pool(None, window)
    with pytest.raises(ValueError, match="must be int32 or int64 but got uint8"):
        _ext.sum_pool(mx.zeros((1, 4, 2), mx.uint8), window)
