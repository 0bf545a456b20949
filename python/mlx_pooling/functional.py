"""Pooling as functions, with PyTorch's arguments in PyTorch's order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import mlx.core as mx

from . import _ext
from ._arguments import IntOrInts, Padding, check_flag, make_window

Stream: TypeAlias = mx.Stream | mx.Device | None


def max_pool1d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> mx.array | tuple[mx.array, mx.array]:
    """Max pooling over 1 spatial axis.

    Each output is the maximum over a window. Padding never wins; a window
    without a tap inside the input gives ``-inf`` (an integer dtype's lowest value,
    ``False`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    maxima goes to the first in row-major order. Definition:
    ``torch.nn.functional.max_pool1d``, on channels-last arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any real dtype.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int) or tuple(tuple(int, int))): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. Default: ``0``.
        dilation (int or tuple(int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The maxima, ``(N, L_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the unpadded input,
        ``l``, as uint32; ``4294967295`` where a window
        has no tap inside the input.

    Raises:
        ValueError: For a size of the wrong form or out of range, a window larger than
            the padded input, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.
    """
    window = make_window(
        "max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode
    )
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def max_pool2d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> mx.array | tuple[mx.array, mx.array]:
    """Max pooling over 2 spatial axes.

    Each output is the maximum over a window. Padding never wins; a window
    without a tap inside the input gives ``-inf`` (an integer dtype's lowest value,
    ``False`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    maxima goes to the first in row-major order. Definition:
    ``torch.nn.functional.max_pool2d``, on channels-last arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any real dtype.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int, int) or tuple of 2 tuple(int, int)): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. Default: ``0``.
        dilation (int or tuple(int, int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The maxima, ``(N, H_out, W_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the unpadded input,
        ``h * W + w``, as uint32; ``4294967295`` where a window
        has no tap inside the input.

    Raises:
        ValueError: For a size of the wrong form or out of range, a window larger than
            the padded input, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.
    """
    window = make_window(
        "max_pool2d", 2, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode
    )
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def max_pool3d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> mx.array | tuple[mx.array, mx.array]:
    """Max pooling over 3 spatial axes.

    Each output is the maximum over a window. Padding never wins; a window
    without a tap inside the input gives ``-inf`` (an integer dtype's lowest value,
    ``False`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    maxima goes to the first in row-major order. Definition:
    ``torch.nn.functional.max_pool3d``, on channels-last arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any real dtype.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int, int, int) or tuple of 3 tuple(int, int)): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. Default: ``0``.
        dilation (int or tuple(int, int, int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The maxima, ``(N, D_out, H_out, W_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the unpadded input,
        ``(d * H + h) * W + w``, as uint32; ``4294967295`` where a window
        has no tap inside the input.

    Raises:
        ValueError: For a size of the wrong form or out of range, a window larger than
            the padded input, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.
    """
    window = make_window(
        "max_pool3d", 3, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode
    )
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def avg_pool1d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: IntOrInts = 1,
    stream: Stream = None,
) -> mx.array:
    """Average pooling over 1 spatial axis.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in float32 (float64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.functional.avg_pool1d``,
    on channels-last arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any dtype.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int) or tuple(tuple(int, int))): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. Default: ``0``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        count_include_pad (bool): Count taps in the padding in the divisor; those
            beyond it (under ``ceil_mode``) never count. Default: ``True``.
        divisor_override (int, optional): A non-zero divisor to use instead.
        dilation (int or tuple(int)): Distance between the taps of a
            window. Default: ``1``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, L_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a size of the wrong form or out of range, a window larger than
            the padded input, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.
    """
    window = make_window(
        "avg_pool1d",
        1,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )
    return _ext.avg_pool(x, window, stream)


def avg_pool2d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: IntOrInts = 1,
    stream: Stream = None,
) -> mx.array:
    """Average pooling over 2 spatial axes.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in float32 (float64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.functional.avg_pool2d``,
    on channels-last arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any dtype.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int, int) or tuple of 2 tuple(int, int)): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. Default: ``0``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        count_include_pad (bool): Count taps in the padding in the divisor; those
            beyond it (under ``ceil_mode``) never count. Default: ``True``.
        divisor_override (int, optional): A non-zero divisor to use instead.
        dilation (int or tuple(int, int)): Distance between the taps of a
            window. Default: ``1``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a size of the wrong form or out of range, a window larger than
            the padded input, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.
    """
    window = make_window(
        "avg_pool2d",
        2,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )
    return _ext.avg_pool(x, window, stream)


def avg_pool3d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: IntOrInts = 1,
    stream: Stream = None,
) -> mx.array:
    """Average pooling over 3 spatial axes.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in float32 (float64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.functional.avg_pool3d``,
    on channels-last arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any dtype.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int, int, int) or tuple of 3 tuple(int, int)): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. Default: ``0``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        count_include_pad (bool): Count taps in the padding in the divisor; those
            beyond it (under ``ceil_mode``) never count. Default: ``True``.
        divisor_override (int, optional): A non-zero divisor to use instead.
        dilation (int or tuple(int, int, int)): Distance between the taps of a
            window. Default: ``1``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, D_out, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a size of the wrong form or out of range, a window larger than
            the padded input, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.
    """
    window = make_window(
        "avg_pool3d",
        3,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )
    return _ext.avg_pool(x, window, stream)


@contextmanager
def composed() -> Iterator[None]:
    """Inside this context operations are composed of MLX's own primitives.

    That is how they run on devices for which there is no kernel here. Results
    and gradients are the same; speed and memory are not. Applies to the
    operations that this thread builds, not to when they are evaluated.
    """
    before = _ext.set_composed(True)
    try:
        yield
    finally:
        _ext.set_composed(before)
