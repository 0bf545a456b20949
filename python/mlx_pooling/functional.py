"""Pooling as functions, with PyTorch's arguments in PyTorch's order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import SupportsIndex

import mlx.core as mx

from . import _ext
from ._arguments import (
    IntOrInts,
    Maxima,
    OptionalInts,
    OutputSize,
    Padding,
    Stream,
    check_flag,
    check_norm_type,
    make_adaptive_window,
    make_unpool_window,
    make_window,
)
from ._lp import lp_pool


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
) -> Maxima:
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
        padding (int, tuple(int), tuple(tuple(int, int)) or str): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
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
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.array([1, 3, 2, 5, 4, 0]).reshape(1, 6, 1)
        >>> max_pool1d(x, 2).flatten().tolist()
        [3, 5, 4]
        >>> values, indices = max_pool1d(x, 3, stride=2, padding=1, return_indices=True)
        >>> values.flatten().tolist(), indices.flatten().tolist()
        ([3, 5, 5], [1, 3, 3])
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
) -> Maxima:
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
        padding (int, tuple(int, int), tuple of 2 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
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
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = 10 * mx.arange(16).reshape(1, 4, 4, 1)
        >>> values, indices = max_pool2d(x, 2, return_indices=True)
        >>> values[0, ..., 0].tolist()
        [[50, 70], [130, 150]]
        >>> indices[0, ..., 0].tolist()
        [[5, 7], [13, 15]]
        >>> max_pool2d(x, 3, stride=2, padding=((0, 1), (0, 1)))[0, ..., 0].tolist()
        [[100, 110], [140, 150]]
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
) -> Maxima:
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
        padding (int, tuple(int, int, int), tuple of 3 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
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
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(24).reshape(1, 2, 3, 4, 1)
        >>> max_pool3d(x, (2, 3, 2)).flatten().tolist()
        [21, 23]
        >>> max_pool3d(x, 2, ceil_mode=True)[0, ..., 0].tolist()
        [[[17, 19], [21, 23]]]
    """
    window = make_window(
        "max_pool3d", 3, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode
    )
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def min_pool1d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> Maxima:
    """Min pooling over 1 spatial axis.

    Each output is the minimum over a window. Padding never wins; a window
    without a tap inside the input gives ``inf`` (an integer dtype's highest value,
    ``True`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    minima goes to the first in row-major order. Definition:
    the negative of ``torch.nn.functional.max_pool1d`` of ``-x``, on channels-last
    arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any real dtype.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int), tuple(tuple(int, int)) or str): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        dilation (int or tuple(int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        return_indices (bool): Also return where the minima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The minima, ``(N, L_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the unpadded input,
        ``l``, as uint32; ``4294967295`` where a window
        has no tap inside the input.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.array([3.0, 1.0, 2.0, 5.0]).reshape(1, 4, 1)
        >>> min_pool1d(x, 2).flatten().tolist()
        [1.0, 2.0]
    """
    window = make_window(
        "min_pool1d",
        1,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        minimum=True,
    )
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def min_pool2d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> Maxima:
    """Min pooling over 2 spatial axes.

    Each output is the minimum over a window. Padding never wins; a window
    without a tap inside the input gives ``inf`` (an integer dtype's highest value,
    ``True`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    minima goes to the first in row-major order. Definition:
    the negative of ``torch.nn.functional.max_pool2d`` of ``-x``, on channels-last
    arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any real dtype.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int, int), tuple of 2 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        dilation (int or tuple(int, int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        return_indices (bool): Also return where the minima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The minima, ``(N, H_out, W_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the unpadded input,
        ``h * W + w``, as uint32; ``4294967295`` where a window
        has no tap inside the input.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.array([[3.0, 1.0], [2.0, 5.0]]).reshape(1, 2, 2, 1)
        >>> y, indices = min_pool2d(x, 2, return_indices=True)
        >>> y.item(), indices.item()
        (1.0, 1)
    """
    window = make_window(
        "min_pool2d",
        2,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        minimum=True,
    )
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def min_pool3d(
    x: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: Padding = 0,
    dilation: IntOrInts = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> Maxima:
    """Min pooling over 3 spatial axes.

    Each output is the minimum over a window. Padding never wins; a window
    without a tap inside the input gives ``inf`` (an integer dtype's highest value,
    ``True`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    minima goes to the first in row-major order. Definition:
    the negative of ``torch.nn.functional.max_pool3d`` of ``-x``, on channels-last
    arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any real dtype.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int, int, int), tuple of 3 tuple(int, int) or str):
            Positions to add at both ends of each axis, or a ``(lo, hi)`` pair for each
            axis; any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
        dilation (int or tuple(int, int, int)): Distance between the taps of a
            window. Default: ``1``.
        ceil_mode (bool): Round output sizes up instead of down; a last window
            that starts beyond the input is dropped. Default: ``False``.
        return_indices (bool): Also return where the minima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The minima, ``(N, D_out, H_out, W_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the unpadded input,
        ``(d * H + h) * W + w``, as uint32; ``4294967295`` where a window
        has no tap inside the input.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a complex dtype, or an output
            too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(8.0).reshape(1, 2, 2, 2, 1)
        >>> min_pool3d(x, (2, 1, 2)).flatten().tolist()
        [0.0, 2.0]
    """
    window = make_window(
        "min_pool3d",
        3,
        kernel_size,
        stride,
        padding,
        dilation,
        ceil_mode=ceil_mode,
        minimum=True,
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
    divisor_override: SupportsIndex | None = None,
    *,
    dilation: IntOrInts = 1,
    stream: Stream = None,
) -> mx.array:
    """Average pooling over 1 spatial axis.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in 32 bits (64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.functional.avg_pool1d``,
    on channels-last arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any dtype.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows.
            Default: ``kernel_size``.
        padding (int, tuple(int), tuple(tuple(int, int)) or str): Positions to
            add at both ends of each axis, or a ``(lo, hi)`` pair for each axis;
            any non-negative size. ``"valid"``: none; ``"same"``: as many as give
            ``ceil(size / stride)`` outputs, an odd one at the high end.
            Default: ``0``.
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
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.array([1.0, 3.0, 2.0, 4.0]).reshape(1, 4, 1)
        >>> avg_pool1d(x, 2).flatten().tolist()
        [2.0, 3.0]
        >>> avg_pool1d(x, 2, padding=1).flatten().tolist()
        [0.5, 2.5, 2.0]
        >>> avg_pool1d(x, 2, padding=1, count_include_pad=False).flatten().tolist()
        [1.0, 2.5, 4.0]
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
    divisor_override: SupportsIndex | None = None,
    *,
    dilation: IntOrInts = 1,
    stream: Stream = None,
) -> mx.array:
    """Average pooling over 2 spatial axes.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in 32 bits (64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.functional.avg_pool2d``,
    on channels-last arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any dtype.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows.
            Default: ``kernel_size``.
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
        dilation (int or tuple(int, int)): Distance between the taps of a
            window. Default: ``1``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(16).reshape(1, 4, 4, 1)  # integers give float32
        >>> avg_pool2d(x, 2)[0, ..., 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
        >>> avg_pool2d(x, 2, divisor_override=1)[0, ..., 0].tolist()
        [[10.0, 18.0], [42.0, 50.0]]
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
    divisor_override: SupportsIndex | None = None,
    *,
    dilation: IntOrInts = 1,
    stream: Stream = None,
) -> mx.array:
    """Average pooling over 3 spatial axes.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in 32 bits (64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.functional.avg_pool3d``,
    on channels-last arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any dtype.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows.
            Default: ``kernel_size``.
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
        dilation (int or tuple(int, int, int)): Distance between the taps of a
            window. Default: ``1``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, D_out, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a size of the wrong form or out of range, an axis too short
            for a window, a wrong number of axes, a zero ``divisor_override``,
            or an output too large to index.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(24).reshape(1, 2, 3, 4, 1)
        >>> avg_pool3d(x, (2, 3, 2)).flatten().tolist()
        [10.5, 12.5]
        >>> avg_pool3d(x, 2, ceil_mode=True)[0, ..., 0].tolist()
        [[[8.5, 10.5], [14.5, 16.5]]]
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


def adaptive_avg_pool1d(
    x: mx.array,
    output_size: OutputSize,
    *,
    stream: Stream = None,
) -> mx.array:
    """Average pooling to a given size over 1 spatial axis.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the average over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``, accumulated in
    32 bits (64 for float64). Definition:
    ``torch.nn.functional.adaptive_avg_pool1d``, on channels-last arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any dtype.
        output_size (int, None or tuple(int)): Outputs along each axis; with
            None as many as inputs.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, L_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For an output size of the wrong form or negative, an empty axis
            that is to have outputs, or a wrong number of axes.
        TypeError: For an ``x`` that is no array.

    Examples:
        >>> x = mx.arange(5.0).reshape(1, 5, 1)
        >>> adaptive_avg_pool1d(x, 2).flatten().tolist()
        [1.0, 3.0]
    """
    window = make_adaptive_window("adaptive_avg_pool1d", 1, output_size)
    return _ext.avg_pool(x, window, stream)


def adaptive_avg_pool2d(
    x: mx.array,
    output_size: OutputSize,
    *,
    stream: Stream = None,
) -> mx.array:
    """Average pooling to a given size over 2 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the average over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``, accumulated in
    32 bits (64 for float64). Definition:
    ``torch.nn.functional.adaptive_avg_pool2d``, on channels-last arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any dtype.
        output_size (int, None or tuple(int, int)): Outputs along each axis; with
            None as many as inputs.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For an output size of the wrong form or negative, an empty axis
            that is to have outputs, or a wrong number of axes.
        TypeError: For an ``x`` that is no array.

    Examples:
        >>> x = mx.arange(9.0).reshape(1, 3, 3, 1)
        >>> adaptive_avg_pool2d(x, (2, 1)).flatten().tolist()
        [2.5, 5.5]
    """
    window = make_adaptive_window("adaptive_avg_pool2d", 2, output_size)
    return _ext.avg_pool(x, window, stream)


def adaptive_avg_pool3d(
    x: mx.array,
    output_size: OutputSize,
    *,
    stream: Stream = None,
) -> mx.array:
    """Average pooling to a given size over 3 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the average over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``, accumulated in
    32 bits (64 for float64). Definition:
    ``torch.nn.functional.adaptive_avg_pool3d``, on channels-last arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any dtype.
        output_size (int, None or tuple(int, int, int)): Outputs along each axis; with
            None as many as inputs.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The averages, ``(N, D_out, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For an output size of the wrong form or negative, an empty axis
            that is to have outputs, or a wrong number of axes.
        TypeError: For an ``x`` that is no array.

    Examples:
        >>> x = mx.arange(8.0).reshape(1, 2, 2, 2, 1)
        >>> adaptive_avg_pool3d(x, (1, None, 1)).flatten().tolist()
        [2.5, 4.5]
    """
    window = make_adaptive_window("adaptive_avg_pool3d", 3, output_size)
    return _ext.avg_pool(x, window, stream)


def adaptive_max_pool1d(
    x: mx.array,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> Maxima:
    """Max pooling to a given size over 1 spatial axis.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the maximum over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``. A NaN in the window
    gives NaN. The whole gradient of equal maxima goes to the first in row-major
    order. Definition: ``torch.nn.functional.adaptive_max_pool1d``, on
    channels-last arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any real dtype.
        output_size (int, None or tuple(int)): Outputs along each axis; with
            None as many as inputs.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The maxima, ``(N, L_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the input,
        ``l``, as uint32.

    Raises:
        ValueError: For an output size of the wrong form or negative, an empty axis
            that is to have outputs, or a wrong number of axes, a complex dtype.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(5.0).reshape(1, 5, 1)
        >>> adaptive_max_pool1d(x, 2).flatten().tolist()
        [2.0, 4.0]
    """
    window = make_adaptive_window("adaptive_max_pool1d", 1, output_size)
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def adaptive_max_pool2d(
    x: mx.array,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> Maxima:
    """Max pooling to a given size over 2 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the maximum over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``. A NaN in the window
    gives NaN. The whole gradient of equal maxima goes to the first in row-major
    order. Definition: ``torch.nn.functional.adaptive_max_pool2d``, on
    channels-last arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any real dtype.
        output_size (int, None or tuple(int, int)): Outputs along each axis; with
            None as many as inputs.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The maxima, ``(N, H_out, W_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the input,
        ``h * W + w``, as uint32.

    Raises:
        ValueError: For an output size of the wrong form or negative, an empty axis
            that is to have outputs, or a wrong number of axes, a complex dtype.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(9.0).reshape(1, 3, 3, 1)
        >>> adaptive_max_pool2d(x, (2, 1)).flatten().tolist()
        [5.0, 8.0]
    """
    window = make_adaptive_window("adaptive_max_pool2d", 2, output_size)
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def adaptive_max_pool3d(
    x: mx.array,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    stream: Stream = None,
) -> Maxima:
    """Max pooling to a given size over 3 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the maximum over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``. A NaN in the window
    gives NaN. The whole gradient of equal maxima goes to the first in row-major
    order. Definition: ``torch.nn.functional.adaptive_max_pool3d``, on
    channels-last arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any real dtype.
        output_size (int, None or tuple(int, int, int)): Outputs along each axis; with
            None as many as inputs.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array or tuple(array, array): The maxima, ``(N, D_out, H_out, W_out, C)``
        (without ``N`` if ``x`` has none), in the dtype of ``x``; with
        ``return_indices`` also their flat positions in the input,
        ``(d * H + h) * W + w``, as uint32.

    Raises:
        ValueError: For an output size of the wrong form or negative, an empty axis
            that is to have outputs, or a wrong number of axes, a complex dtype.
        TypeError: For an ``x`` that is no array or a flag that is no bool.

    Examples:
        >>> x = mx.arange(8.0).reshape(1, 2, 2, 2, 1)
        >>> adaptive_max_pool3d(x, (1, None, 1)).flatten().tolist()
        [5.0, 7.0]
    """
    window = make_adaptive_window("adaptive_max_pool3d", 3, output_size)
    if check_flag(window.name, "return_indices", return_indices):
        return _ext.max_pool_with_indices(x, window, stream)
    return _ext.max_pool(x, window, stream)


def lp_pool1d(
    x: mx.array,
    norm_type: float,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    ceil_mode: bool = False,
    *,
    stream: Stream = None,
) -> mx.array:
    """Power-average pooling over 1 spatial axis.

    Each output is ``(sum of x ** norm_type) ** (1 / norm_type)`` over a window,
    computed in float32 (float64 for float64). Where the sum is 0 the gradient is zero,
    and where an element is 0 if ``norm_type`` is less than 1; where the sum is negative
    the output is NaN, unless ``norm_type`` is 1. At infinity it is the maximum of
    absolute values. Definition: ``torch.nn.functional.lp_pool1d``, on
    channels-last arrays.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any real dtype.
        norm_type (float): The exponent, positive, at most ``2**100`` or infinite; 1
            gives sums, infinity maxima.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows.
            Default: ``kernel_size``.
        ceil_mode (bool): Round output sizes up instead of down; a last window that
            reaches beyond the input is scaled up to the full number of taps.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: Shape ``(N, L_out, C)`` (without ``N`` if ``x`` has none), in
        the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a ``norm_type`` out of range, a size of the wrong form
            or out of range, an axis too short for a window, a wrong number of axes
            or a complex dtype.
        TypeError: For an ``x`` that is no array, a ``norm_type`` that is no number or
            a flag that is no bool.

    Examples:
        >>> x = mx.array([3.0, 4.0, 6.0, 8.0]).reshape(1, 4, 1)
        >>> lp_pool1d(x, 2, 2).flatten().tolist()
        [5.0, 10.0]
    """
    window = make_window("lp_pool1d", 1, kernel_size, stride, 0, 1, ceil_mode=ceil_mode)
    return lp_pool(x, check_norm_type(window.name, norm_type), window, stream)


def lp_pool2d(
    x: mx.array,
    norm_type: float,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    ceil_mode: bool = False,
    *,
    stream: Stream = None,
) -> mx.array:
    """Power-average pooling over 2 spatial axes.

    Each output is ``(sum of x ** norm_type) ** (1 / norm_type)`` over a window,
    computed in float32 (float64 for float64). Where the sum is 0 the gradient is zero,
    and where an element is 0 if ``norm_type`` is less than 1; where the sum is negative
    the output is NaN, unless ``norm_type`` is 1. At infinity it is the maximum of
    absolute values. Definition: ``torch.nn.functional.lp_pool2d``, on
    channels-last arrays.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any real dtype.
        norm_type (float): The exponent, positive, at most ``2**100`` or infinite; 1
            gives sums, infinity maxima.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        ceil_mode (bool): Round output sizes up instead of down; a last window that
            reaches beyond the input is scaled up to the full number of taps.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: Shape ``(N, H_out, W_out, C)`` (without ``N`` if ``x`` has none), in
        the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a ``norm_type`` out of range, a size of the wrong form
            or out of range, an axis too short for a window, a wrong number of axes
            or a complex dtype.
        TypeError: For an ``x`` that is no array, a ``norm_type`` that is no number or
            a flag that is no bool.

    Examples:
        >>> x = mx.array([[3.0, 4.0], [0.0, 0.0]]).reshape(1, 2, 2, 1)
        >>> lp_pool2d(x, 2, 2).flatten().tolist()
        [5.0]
    """
    window = make_window("lp_pool2d", 2, kernel_size, stride, 0, 1, ceil_mode=ceil_mode)
    return lp_pool(x, check_norm_type(window.name, norm_type), window, stream)


def lp_pool3d(
    x: mx.array,
    norm_type: float,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    ceil_mode: bool = False,
    *,
    stream: Stream = None,
) -> mx.array:
    """Power-average pooling over 3 spatial axes.

    Each output is ``(sum of x ** norm_type) ** (1 / norm_type)`` over a window,
    computed in float32 (float64 for float64). Where the sum is 0 the gradient is zero,
    and where an element is 0 if ``norm_type`` is less than 1; where the sum is negative
    the output is NaN, unless ``norm_type`` is 1. At infinity it is the maximum of
    absolute values. Definition: ``torch.nn.functional.lp_pool3d``, on
    channels-last arrays.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any real dtype.
        norm_type (float): The exponent, positive, at most ``2**100`` or infinite; 1
            gives sums, infinity maxima.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        ceil_mode (bool): Round output sizes up instead of down; a last window that
            reaches beyond the input is scaled up to the full number of taps.
            Default: ``False``.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: Shape ``(N, D_out, H_out, W_out, C)`` (without ``N`` if ``x`` has none),
        in the dtype of ``x``; float32 for integers and bool.

    Raises:
        ValueError: For a ``norm_type`` out of range, a size of the wrong form
            or out of range, an axis too short for a window, a wrong number of axes
            or a complex dtype.
        TypeError: For an ``x`` that is no array, a ``norm_type`` that is no number or
            a flag that is no bool.

    Examples:
        >>> x = mx.ones((1, 1, 2, 2, 1))
        >>> lp_pool3d(x, 2, (1, 2, 2)).flatten().tolist()
        [2.0]
    """
    window = make_window("lp_pool3d", 3, kernel_size, stride, 0, 1, ceil_mode=ceil_mode)
    return lp_pool(x, check_norm_type(window.name, norm_type), window, stream)


def max_unpool1d(
    x: mx.array,
    indices: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    output_size: OptionalInts | None = None,
    *,
    stream: Stream = None,
) -> mx.array:
    """Undo a max pooling over 1 spatial axis.

    Puts each element at the position that its index names in a plane that is zero
    elsewhere. An index outside the plane is passed over; of several equal ones the
    first in row-major order counts, and it alone has a gradient. Definition:
    ``torch.nn.functional.max_unpool1d``, on channels-last arrays, which leaves repeated
    indices open.

    Args:
        x (array): Shape ``(N, L, C)`` or ``(L, C)``; any dtype.
        indices (array): Flat positions in the plane, ``l``, of the shape of
            ``x`` and any integer dtype: the indices of ``max_pool1d``.
        kernel_size (int or tuple(int)): That of the pooling.
        stride (int or tuple(int), optional): That of the pooling.
            Default: ``kernel_size``.
        padding (int or tuple(int)): That of the pooling. Default: ``0``.
        output_size (tuple(int), optional): The plane's size along each axis, or a
            whole shape, with channels and perhaps batch. Less than a ``stride`` from
            the default, ``(size - 1) * stride - 2 * padding + kernel_size``, which
            None stands for.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The plane, ``(N, L_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``.

    Raises:
        ValueError: For a size of the wrong form or out of range, a wrong number of
            axes, indices that are no integers or of another shape than ``x``, or an
            output size that does not pool to that shape.
        TypeError: For an ``x`` or ``indices`` that are no arrays.

    Examples:
        >>> x = mx.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1)
        >>> y, indices = max_pool1d(x, 2, return_indices=True)
        >>> max_unpool1d(y, indices, 2).flatten().tolist()
        [0.0, 3.0, 2.0, 0.0]
    """
    window = make_unpool_window(
        "max_unpool1d", 1, kernel_size, stride, padding, output_size
    )
    return _ext.max_unpool(x, indices, window, stream)


def max_unpool2d(
    x: mx.array,
    indices: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    output_size: OptionalInts | None = None,
    *,
    stream: Stream = None,
) -> mx.array:
    """Undo a max pooling over 2 spatial axes.

    Puts each element at the position that its index names in a plane that is zero
    elsewhere. An index outside the plane is passed over; of several equal ones the
    first in row-major order counts, and it alone has a gradient. Definition:
    ``torch.nn.functional.max_unpool2d``, on channels-last arrays, which leaves repeated
    indices open.

    Args:
        x (array): Shape ``(N, H, W, C)`` or ``(H, W, C)``; any dtype.
        indices (array): Flat positions in the plane, ``h * W + w``, of the shape of
            ``x`` and any integer dtype: the indices of ``max_pool2d``.
        kernel_size (int or tuple(int, int)): That of the pooling.
        stride (int or tuple(int, int), optional): That of the pooling.
            Default: ``kernel_size``.
        padding (int or tuple(int, int)): That of the pooling. Default: ``0``.
        output_size (tuple(int, int), optional): The plane's size along each axis, or a
            whole shape, with channels and perhaps batch. Less than a ``stride`` from
            the default, ``(size - 1) * stride - 2 * padding + kernel_size``, which
            None stands for.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The plane, ``(N, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``.

    Raises:
        ValueError: For a size of the wrong form or out of range, a wrong number of
            axes, indices that are no integers or of another shape than ``x``, or an
            output size that does not pool to that shape.
        TypeError: For an ``x`` or ``indices`` that are no arrays.

    Examples:
        >>> x = mx.array([[1.0, 3.0], [2.0, 0.0]]).reshape(1, 2, 2, 1)
        >>> y, indices = max_pool2d(x, 2, return_indices=True)
        >>> max_unpool2d(y, indices, 2).flatten().tolist()
        [0.0, 3.0, 0.0, 0.0]
    """
    window = make_unpool_window(
        "max_unpool2d", 2, kernel_size, stride, padding, output_size
    )
    return _ext.max_unpool(x, indices, window, stream)


def max_unpool3d(
    x: mx.array,
    indices: mx.array,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    output_size: OptionalInts | None = None,
    *,
    stream: Stream = None,
) -> mx.array:
    """Undo a max pooling over 3 spatial axes.

    Puts each element at the position that its index names in a plane that is zero
    elsewhere. An index outside the plane is passed over; of several equal ones the
    first in row-major order counts, and it alone has a gradient. Definition:
    ``torch.nn.functional.max_unpool3d``, on channels-last arrays, which leaves repeated
    indices open.

    Args:
        x (array): Shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``; any dtype.
        indices (array): Flat positions in the plane, ``(d * H + h) * W + w``, of the
            shape of ``x`` and any integer dtype: the indices of ``max_pool3d``.
        kernel_size (int or tuple(int, int, int)): That of the pooling.
        stride (int or tuple(int, int, int), optional): That of the pooling.
            Default: ``kernel_size``.
        padding (int or tuple(int, int, int)): That of the pooling. Default: ``0``.
        output_size (tuple(int, int, int), optional): The plane's size along each axis,
            or a whole shape, with channels and perhaps batch. Less than a ``stride``
            from the default, ``(size - 1) * stride - 2 * padding + kernel_size``, which
            None stands for.
        stream (Stream or Device, optional): Where to compute.

    Returns:
        array: The plane, ``(N, D_out, H_out, W_out, C)`` (without ``N`` if ``x`` has
        none), in the dtype of ``x``.

    Raises:
        ValueError: For a size of the wrong form or out of range, a wrong number of
            axes, indices that are no integers or of another shape than ``x``, or an
            output size that does not pool to that shape.
        TypeError: For an ``x`` or ``indices`` that are no arrays.

    Examples:
        >>> x = mx.array([[1.0, 3.0], [2.0, 0.0]]).reshape(1, 1, 2, 2, 1)
        >>> y, indices = max_pool3d(x, (1, 2, 2), return_indices=True)
        >>> max_unpool3d(y, indices, (1, 2, 2)).flatten().tolist()
        [0.0, 3.0, 0.0, 0.0]
    """
    window = make_unpool_window(
        "max_unpool3d", 3, kernel_size, stride, padding, output_size
    )
    return _ext.max_unpool(x, indices, window, stream)


@contextmanager
def composed() -> Iterator[None]:
    """Inside this context operations are composed of MLX's own primitives.

    That is how they run on devices for which there is no kernel here. Results
    and gradients are the same; speed and memory are not. Applies to the
    operations that this thread builds, not to when they are evaluated.

    What ``mx.export_function`` traces inside can be exported. Outside, it says
    "Unable to serialize primitive", of one of MLX's or of this package. Gradients
    of maxima and of unpooling have to be taken before: MLX exports no
    ``stop_gradient``, without which it refuses those of what is imported again.
    ``mx.compile`` refuses ``shapeless=True``; so does what ``mx.export_function``
    writes with it, but only when that is called.

    Adaptive pooling into windows of different sizes takes operations for each
    output, and time that grows with their square.

    Examples:
        >>> x = mx.arange(8.0).reshape(1, 8, 1)
        >>> with composed():
        ...     y = max_pool1d(x, 4)
        >>> y.flatten().tolist()
        [3.0, 7.0]
    """
    _ext.begin_composed()
    try:
        yield
    finally:
        _ext.end_composed()
