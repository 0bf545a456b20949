"""Quantized arrays, and pooling that computes on their integers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from numbers import Real
from typing import SupportsIndex

import mlx.core as mx

from . import _ext
from ._arguments import (
    IntOrInts,
    Padding,
    Stream,
    _integer,
    check_array,
    check_stream,
    make_window,
)
from ._ext import Window

_SMALLEST_NORMAL = 2.0**-126
_LARGEST_STEP = 255  # from one 8-bit integer to another


class QuantizedArray:
    """Integers that stand for ``(value - zero_point) * scale``.

    One scale and one zero point for all of them: PyTorch's
    ``per_tensor_affine`` scheme. Indexing gives a part of it, as of an array. No
    gradient passes.

    Args:
        values (array): The integers, uint8, int8 or int32; any shape.
        scale (float): What a step of 1 is worth; positive, and neither infinite nor
            subnormal in float32.
        zero_point (int): The integer that stands for 0, in the range of the dtype.

    Raises:
        ValueError: For another dtype, or a ``scale`` or ``zero_point`` out of range.
        TypeError: For ``values`` that are no array, a ``scale`` that is no real
            number or a ``zero_point`` that is no integer.

    Examples:
        >>> q = QuantizedArray(mx.array([3, 4, 7], mx.uint8), 0.5, 3)
        >>> q
        array([0, 0.5, 2], size=(3,), dtype=uint8,
              quantization_scheme=per_tensor_affine, scale=0.5, zero_point=3)
        >>> q[1:].int_repr()
        array([4, 7], dtype=uint8)
    """

    def __init__(self, values: mx.array, scale: float, zero_point: int) -> None:
        name = "QuantizedArray"
        check_array(name, "values", values)
        _check_dtype(name, "values", values.dtype)
        # MLX would differentiate integers as what they were rounded from.
        self._values = mx.stop_gradient(values)
        self._scale = _checked_scale(name, scale)
        self._zero_point = _checked_zero_point(name, zero_point, values.dtype)

    @property
    def scale(self) -> float:
        return self._scale

    @property
    def zero_point(self) -> int:
        return self._zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    @property
    def ndim(self) -> int:
        return self._values.ndim

    @property
    def size(self) -> int:
        return self._values.size

    @property
    def dtype(self) -> mx.Dtype:
        """That of the integers."""
        return self._values.dtype

    def int_repr(self) -> mx.array:
        """The integers, in an array that may be changed."""
        return copy(self._values)

    def dequantize(self, *, stream: Stream = None) -> mx.array:
        """What the integers stand for, float32."""
        check_stream("dequantize", stream)
        with _on(stream):
            return _steps(self, mx.int64).astype(mx.float32) * self.scale

    def __getitem__(self, index: object) -> QuantizedArray:
        return _like(self, self._values[index])

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[QuantizedArray]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        numbers = repr(self.dequantize()).removesuffix(", dtype=float32)")
        return (
            f"{numbers}, size={self.shape}, dtype={_dtype_name(self.dtype)},\n"
            "      quantization_scheme=per_tensor_affine, "
            f"scale={self.scale}, zero_point={self.zero_point})"
        )


def quantize_per_tensor(
    x: mx.array,
    scale: float,
    zero_point: int,
    dtype: mx.Dtype,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Round an array to integers with one scale and one zero point.

    Each integer is ``round(x * (1 / scale) + zero_point)``, to the nearest, ties to
    even, clamped to the range of the dtype. The inverse of ``scale`` is rounded to
    float32, and so is what is rounded to an integer; for int32 so is the product
    too. An infinity gives an end of the range, a NaN its highest value. Definition:
    ``torch.quantize_per_tensor``, as it computes on a CPU with AVX2 or AVX-512; on
    others it rounds ties, and numbers as near to one as float32 tells, differently.

    Args:
        x (array): Any shape; float16, bfloat16 or float32.
        scale (float): What a step of 1 is worth; positive, and neither infinite nor
            subnormal in float32.
        zero_point (int): The integer that stands for 0, in the range of ``dtype``.
        dtype (Dtype): ``mx.uint8``, ``mx.int8`` or ``mx.int32``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The integers, of ``dtype`` and in the shape of ``x``.

    Raises:
        ValueError: For another dtype, or a ``scale`` or ``zero_point`` out of range.
        TypeError: For an ``x`` that is no array, a ``scale`` that is no real number,
            a ``zero_point`` that is no integer or a ``dtype`` that is none.

    Examples:
        >>> x = mx.array([-1.0, 0.0, 0.25, 0.75, 100.0])
        >>> quantize_per_tensor(x, 0.5, 1, mx.int8).int_repr()
        array([-1, 1, 2, 2, 127], dtype=int8)
    """
    name = "quantize_per_tensor"
    check_array(name, "x", x)
    if x.dtype not in (mx.float16, mx.bfloat16, mx.float32):
        raise ValueError(
            f"[{name}] 'x' must be float16, bfloat16 or float32 but got "
            f"{_dtype_name(x.dtype)}."
        )
    if not isinstance(dtype, mx.Dtype):
        raise TypeError(
            f"[{name}] 'dtype' must be an mlx.core.Dtype but got {dtype!r}."
        )
    _check_dtype(name, "dtype", dtype)
    scale = _checked_scale(name, scale)
    zero_point = _checked_zero_point(name, zero_point, dtype)
    check_stream(name, stream)
    inverse = _float32(1 / _float32(scale))
    with _on(stream):
        x = x.astype(mx.float32)
        is_fused = dtype.size == 1
        scaled = (
            _multiply_add(x, inverse, zero_point)
            if is_fused
            else x * inverse + zero_point
        )
        return QuantizedArray(_rounded(scaled, dtype), scale, zero_point)


def quantized_max_pool1d(
    input: QuantizedArray,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = (),
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Max pooling of a quantized array over 1 spatial axis.

    Each output is the maximum over a window of the integers; scale and zero point
    stay. Padding never wins; a window without a tap inside the input gives the
    dtype's lowest value. Definition: ``torch.quantized_max_pool1d``, on
    channels-last arrays.

    Args:
        input (QuantizedArray): Shape ``(N, L, C)`` or ``(L, C)``.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows;
            ``kernel_size`` if empty or ``None``. Default: ``()``.
        padding (int, tuple(int), tuple(tuple(int, int)) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        dilation (int or tuple(int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The maxima, ``(N, L_out, C)`` (without ``N`` if
        ``input`` has none), in the dtype of ``input``.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, or an output too large to index.
        TypeError: For an ``input`` that is not quantized or a flag that is no bool.

    Examples:
        >>> q = QuantizedArray(mx.array([[1], [9], [4], [6]], mx.uint8), 0.5, 2)
        >>> quantized_max_pool1d(q, 2).int_repr()
        array([[9],
               [6]], dtype=uint8)
    """
    window = make_window(
        "quantized_max_pool1d",
        1,
        kernel_size,
        _stride(stride),
        padding,
        dilation,
        ceil_mode=ceil_mode,
    )
    return _max_pool(input, window, stream)


def quantized_max_pool2d(
    input: QuantizedArray,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = (),
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Max pooling of a quantized array over 2 spatial axes.

    Each output is the maximum over a window of the integers; scale and zero point
    stay. Padding never wins; a window without a tap inside the input gives the
    dtype's lowest value. Definition: ``torch.quantized_max_pool2d``, on
    channels-last arrays.

    Args:
        input (QuantizedArray): Shape ``(N, H, W, C)`` or ``(H, W, C)``.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows;
            ``kernel_size`` if empty or ``None``. Default: ``()``.
        padding (int, tuple(int, int), tuple of 2 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        dilation (int or tuple(int, int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The maxima, ``(N, H_out, W_out, C)`` (without ``N`` if
        ``input`` has none), in the dtype of ``input``.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, or an output too large to index.
        TypeError: For an ``input`` that is not quantized or a flag that is no bool.

    Examples:
        The example of PyTorch's documentation, channels last:

        >>> x = mx.zeros((2, 2, 2, 2))
        >>> x[0] = mx.array([[[0.1, 0.9], [0.8, 0.2]], [[0.9, 0.3], [0.4, 0.8]]])
        >>> qx = quantize_per_tensor(x, 1.5, 3, mx.uint8)
        >>> quantized_max_pool2d(qx, [2, 2])
        array([[[[1.5, 1.5]]],
               [[[0, 0]]]], size=(2, 1, 1, 2), dtype=uint8,
              quantization_scheme=per_tensor_affine, scale=1.5, zero_point=3)
    """
    window = make_window(
        "quantized_max_pool2d",
        2,
        kernel_size,
        _stride(stride),
        padding,
        dilation,
        ceil_mode=ceil_mode,
    )
    return _max_pool(input, window, stream)


def quantized_max_pool3d(
    input: QuantizedArray,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = (),
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Max pooling of a quantized array over 3 spatial axes.

    Each output is the maximum over a window of the integers; scale and zero point
    stay. Padding never wins; a window without a tap inside the input gives the
    dtype's lowest value. Definition: ``torch.quantized_max_pool3d``, on
    channels-last arrays.

    Args:
        input (QuantizedArray): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows;
            ``kernel_size`` if empty or ``None``. Default: ``()``.
        padding (int, tuple(int, int, int), tuple of 3 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        dilation (int or tuple(int, int, int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The maxima, ``(N, D_out, H_out, W_out, C)`` (without ``N`` if
        ``input`` has none), in the dtype of ``input``.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, or an output too large to index.
        TypeError: For an ``input`` that is not quantized or a flag that is no bool.

    Examples:
        >>> values = mx.arange(8).reshape(2, 2, 2, 1).astype(mx.int8)
        >>> quantized_max_pool3d(QuantizedArray(values, 0.5, 2), 2)
        array([[[[2.5]]]], size=(1, 1, 1, 1), dtype=int8,
              quantization_scheme=per_tensor_affine, scale=0.5, zero_point=2)
    """
    window = make_window(
        "quantized_max_pool3d",
        3,
        kernel_size,
        _stride(stride),
        padding,
        dilation,
        ceil_mode=ceil_mode,
    )
    return _max_pool(input, window, stream)


def quantized_avg_pool1d(
    input: QuantizedArray,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: SupportsIndex | None = None,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Average pooling of a quantized array over 1 spatial axis.

    The distances of the integers from the zero point are summed over each window,
    exactly, and divided by its number of taps, those in the padding counting as
    zero points. Each output is ``round(sum * (1 / taps) + zero_point)``, to the
    nearest, ties to even, clamped to the range of the dtype, all but the sum in
    float32. Scale and zero point stay. Definition:
    ``torch.nn.functional.avg_pool1d`` of a quantized tensor, on channels-last
    arrays. Of PyTorch's kernels, QNNPACK's and the channels that another fills
    AVX vectors with add the zero point after rounding instead: ties may go the
    other way.

    Args:
        input (QuantizedArray): Shape ``(N, L, C)`` or ``(L, C)``.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows;
            ``kernel_size`` if empty or ``None``. Default: ``None``.
        padding (int, tuple(int), tuple(tuple(int, int)) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        count_include_pad (bool): Count taps in the padding in the divisor; those
            beyond it (under ``ceil_mode``) never count. Default: ``True``.
        divisor_override (int, optional): A non-zero divisor to use instead.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The averages, ``(N, L_out, C)`` (without ``N`` if
        ``input`` has none), in the dtype of ``input``.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``input`` that is not quantized or a flag that is no bool.

    Examples:
        >>> q = QuantizedArray(mx.array([[1], [4], [4], [7]], mx.uint8), 0.5, 2)
        >>> quantized_avg_pool1d(q, 2).int_repr()
        array([[2],
               [6]], dtype=uint8)
    """
    window = make_window(
        "quantized_avg_pool1d",
        1,
        kernel_size,
        _stride(stride),
        padding,
        1,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )
    return _avg_pool(input, window, stream)


def quantized_avg_pool2d(
    input: QuantizedArray,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: SupportsIndex | None = None,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Average pooling of a quantized array over 2 spatial axes.

    The distances of the integers from the zero point are summed over each window,
    exactly, and divided by its number of taps, those in the padding counting as
    zero points. Each output is ``round(sum * (1 / taps) + zero_point)``, to the
    nearest, ties to even, clamped to the range of the dtype, all but the sum in
    float32. Scale and zero point stay. Definition:
    ``torch.nn.functional.avg_pool2d`` of a quantized tensor, on channels-last
    arrays. Of PyTorch's kernels, QNNPACK's and the channels that another fills
    AVX vectors with add the zero point after rounding instead: ties may go the
    other way.

    Args:
        input (QuantizedArray): Shape ``(N, H, W, C)`` or ``(H, W, C)``.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows;
            ``kernel_size`` if empty or ``None``. Default: ``None``.
        padding (int, tuple(int, int), tuple of 2 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        count_include_pad (bool): Count taps in the padding in the divisor; those
            beyond it (under ``ceil_mode``) never count. Default: ``True``.
        divisor_override (int, optional): A non-zero divisor to use instead.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The averages, ``(N, H_out, W_out, C)`` (without ``N`` if
        ``input`` has none), in the dtype of ``input``.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``input`` that is not quantized or a flag that is no bool.

    Examples:
        >>> values = mx.arange(16).reshape(4, 4, 1).astype(mx.uint8)
        >>> q = QuantizedArray(values, 0.5, 2)
        >>> quantized_avg_pool2d(q, 2).int_repr().squeeze(-1)
        array([[2, 4],
               [10, 12]], dtype=uint8)
    """
    window = make_window(
        "quantized_avg_pool2d",
        2,
        kernel_size,
        _stride(stride),
        padding,
        1,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )
    return _avg_pool(input, window, stream)


def quantized_avg_pool3d(
    input: QuantizedArray,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: SupportsIndex | None = None,
    *,
    stream: Stream = None,
) -> QuantizedArray:
    """Average pooling of a quantized array over 3 spatial axes.

    The distances of the integers from the zero point are summed over each window,
    exactly, and divided by its number of taps, those in the padding counting as
    zero points. Each output is ``round(sum * (1 / taps) + zero_point)``, to the
    nearest, ties to even, clamped to the range of the dtype, all but the sum in
    float32. Scale and zero point stay. Definition:
    ``torch.nn.functional.avg_pool3d`` of a quantized tensor, on channels-last
    arrays. Of PyTorch's kernels, QNNPACK's and the channels that another fills
    AVX vectors with add the zero point after rounding instead: ties may go the
    other way.

    Args:
        input (QuantizedArray): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows;
            ``kernel_size`` if empty or ``None``. Default: ``None``.
        padding (int, tuple(int, int, int), tuple of 3 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        count_include_pad (bool): Count taps in the padding in the divisor; those
            beyond it (under ``ceil_mode``) never count. Default: ``True``.
        divisor_override (int, optional): A non-zero divisor to use instead.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        QuantizedArray: The averages, ``(N, D_out, H_out, W_out, C)`` (without ``N`` if
        ``input`` has none), in the dtype of ``input``.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``input`` that is not quantized or a flag that is no bool.

    Examples:
        >>> values = mx.arange(8).reshape(2, 2, 2, 1).astype(mx.int8)
        >>> quantized_avg_pool3d(QuantizedArray(values, 0.5, 2), 2)
        array([[[[1]]]], size=(1, 1, 1, 1), dtype=int8,
              quantization_scheme=per_tensor_affine, scale=0.5, zero_point=2)
    """
    window = make_window(
        "quantized_avg_pool3d",
        3,
        kernel_size,
        _stride(stride),
        padding,
        1,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )
    return _avg_pool(input, window, stream)


def _max_pool(input: QuantizedArray, window: Window, stream: Stream) -> QuantizedArray:
    _check_input(window, input)
    return _like(input, _ext.max_pool(input._values, window, stream))


def _avg_pool(input: QuantizedArray, window: Window, stream: Stream) -> QuantizedArray:
    _check_input(window, input)
    values = input._values
    averages = _ext.quantized_avg_pool(values, input.zero_point, window, stream)
    if averages is None:
        with _on(stream):
            averages = _composed_averages(input, window)
    return _like(input, averages)


def _composed_averages(input: QuantizedArray, window: Window) -> mx.array:
    sums = _sums_of_steps(input, window).astype(mx.float32)
    averages = sums * mx.reciprocal(_divisors(input._values, window))
    averages = averages + input.zero_point
    if input.dtype.size == 1 and not window.divisor_override:
        # In range, as the integers are.
        return mx.round(averages).astype(input.dtype)
    return _rounded(averages, input.dtype)


def _sums_of_steps(input: QuantizedArray, window: Window) -> mx.array:
    """Of each window, where the padding is no step from the zero point."""
    dtype = _sum_dtype(input, window)
    if _is_padded(window) or window.ceil_mode:
        return _ext.sum_pool(_steps(input, dtype), window)
    sums = _ext.sum_pool(input._values.astype(dtype), window)
    return sums - mx.array(math.prod(window.kernel_size) * input.zero_point, dtype)


def _is_padded(window: Window) -> bool:
    return any(window.pad_lo) or any(window.pad_hi) or window.same_padding


def _like(input: QuantizedArray, values: mx.array) -> QuantizedArray:
    """As ``input``, of values that come from its own, which pass no gradient."""
    output = object.__new__(QuantizedArray)
    output._values = values
    output._scale = input.scale
    output._zero_point = input.zero_point
    return output


def _on(stream: Stream) -> AbstractContextManager[object]:
    return nullcontext() if stream is None else mx.stream(stream)


def _steps(input: QuantizedArray, dtype: mx.Dtype) -> mx.array:
    """How far each integer is from the zero point."""
    return input._values.astype(dtype) - mx.array(input.zero_point, dtype)


def _sum_dtype(input: QuantizedArray, window: Window) -> mx.Dtype:
    """One in which no window's sum of steps overflows."""
    taps = math.prod(window.kernel_size)
    fits = input.dtype.size == 1 and _LARGEST_STEP * taps < 2**31
    return mx.int32 if fits else mx.int64


def _divisors(x: mx.array, window: Window) -> mx.array:
    """What the sum of each window is divided by; of all, if that is the same."""
    if window.divisor_override:
        return mx.array(float(window.divisor_override))
    if not window.ceil_mode and (window.count_include_pad or not _is_padded(window)):
        return mx.array(float(math.prod(window.kernel_size)))
    # From sum and average of ones. They follow from x, not from its shape, which a
    # shapeless compile changes; of all channels, since MLX's sum of one crashes there.
    ones = x == x
    counts = _ext.sum_pool(ones.astype(mx.int32), window)
    divisors = mx.round(counts / _ext.avg_pool(ones, window))
    return mx.where(counts > 0, divisors, 1)


def _multiply_add(x: mx.array, factor: float, term: int) -> mx.array:
    """``x * factor + term`` in float32, rounded once.

    MLX has no fused multiply-add, nor float64 on a GPU. So this computes the
    rounding errors of the product (Dekker) and of the sum (Knuth), both exactly.
    Where that overflows, beyond 2**115, it rounds twice.
    """
    x_high, x_low = _halves(x)
    factor_high, factor_low = _halves(mx.array(factor))
    product = x * factor
    missing = product - x_high * factor_high - x_low * factor_high - x_high * factor_low
    product_error = x_low * factor_low - missing
    total = product + term
    part = total - product
    error = (product - (total - part)) + (term - part) + product_error
    return mx.where(mx.isfinite(error), total + error, total)


def _halves(x: mx.array) -> tuple[mx.array, mx.array]:
    """Two float32 of 12 bits with x as their sum (Veltkamp)."""
    shifted = x * (2**12 + 1)
    high = shifted - (shifted - x)
    return high, x - high


def _rounded(x: mx.array, dtype: mx.Dtype) -> mx.array:
    """The nearest integers, even ones at ties, in the range of dtype; NaN as +inf."""
    limits = mx.iinfo(dtype)
    nearest = mx.round(x)
    is_inside = nearest < limits.max
    inside = mx.where(is_inside, mx.maximum(nearest, limits.min), limits.min)
    return mx.where(is_inside, inside.astype(dtype), mx.array(limits.max, dtype))


def _float32(value: float) -> float:
    return ctypes.c_float(value).value


def _stride(stride: IntOrInts | None) -> IntOrInts | None:
    return None if isinstance(stride, (list, tuple)) and not stride else stride


def _check_input(window: Window, input: object) -> None:
    name = window.name
    if not isinstance(input, QuantizedArray):
        raise TypeError(
            f"[{name}] 'input' must be a QuantizedArray but got {type(input).__name__}."
        )
    unbatched = len(window.kernel_size) + 1
    if input.ndim not in (unbatched, unbatched + 1):
        raise ValueError(
            f"[{name}] 'input' must have {unbatched} (unbatched) or {unbatched + 1} "
            f"axes, channels last, but got shape {input.shape}."
        )


def _check_dtype(name: str, argument: str, dtype: mx.Dtype) -> None:
    if dtype not in (mx.uint8, mx.int8, mx.int32):
        raise ValueError(
            f"[{name}] '{argument}' must be uint8, int8 or int32 but got "
            f"{_dtype_name(dtype)}."
        )


def _dtype_name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def _checked_scale(name: str, scale: object) -> float:
    if not isinstance(scale, Real) or isinstance(scale, bool):
        raise TypeError(f"[{name}] 'scale' must be a real number but got {scale!r}.")
    try:
        value = float(scale)
    except OverflowError:
        value = math.inf
    if not _SMALLEST_NORMAL <= _float32(value) < math.inf:
        raise ValueError(
            f"[{name}] 'scale' must be positive, and finite and normal in float32, "
            f"but got {scale}."
        )
    return value


def _checked_zero_point(name: str, zero_point: object, dtype: mx.Dtype) -> int:
    value = _integer(zero_point)
    if value is None:
        raise TypeError(
            f"[{name}] 'zero_point' must be an integer but got {zero_point!r}."
        )
    limits = mx.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise ValueError(
            f"[{name}] 'zero_point' must be between {limits.min} and {limits.max} "
            f"for {_dtype_name(dtype)} but got {value}."
        )
    return value
