"""Pooling layers: the names, arguments and results of ``mlx.nn``, and more."""

from __future__ import annotations

import mlx.core as mx
from mlx.nn import Module

from . import _ext
from ._arguments import IntOrInts, Padding, check_flag, make_window


class _Pool(Module):
    _spatial_axes: int
    _window: _ext.Window
    _replaces: Module | None = None  # set by conversion

    def __getstate__(self) -> dict[str, object]:
        """Leave out what it replaces: a copy or a pickle of it replaced nothing."""
        return {k: v for k, v in vars(self).items() if k != "_replaces"}

    def _extra_repr(self) -> str:
        """List the arguments of ``mlx.nn``, and of ours those not default."""
        w = self._window
        symmetric = w.pad_lo == w.pad_hi
        padding = w.pad_lo if symmetric else zip(w.pad_lo, w.pad_hi, strict=True)
        shown = [
            f"kernel_size={tuple(w.kernel_size)}",
            f"stride={tuple(w.stride)}",
            f"padding={tuple(padding)}",
        ]
        if any(d != 1 for d in w.dilation):
            shown.append(f"dilation={tuple(w.dilation)}")
        if w.ceil_mode:
            shown.append("ceil_mode=True")
        return ", ".join(shown)


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: Padding = 0,
        dilation: IntOrInts = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._return_indices = check_flag(name, "return_indices", return_indices)
        self._window = make_window(
            name,
            self._spatial_axes,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode=ceil_mode,
        )

    def _extra_repr(self) -> str:
        indices = ", return_indices=True" if self._return_indices else ""
        return super()._extra_repr() + indices

    def __call__(self, x: mx.array) -> mx.array | tuple[mx.array, mx.array]:
        if self._return_indices:
            return _ext.max_pool_with_indices(x, self._window)
        return _ext.max_pool(x, self._window)


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        dilation: IntOrInts = 1,
    ) -> None:
        super().__init__()
        self._window = make_window(
            type(self).__name__,
            self._spatial_axes,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )

    def _extra_repr(self) -> str:
        shown = super()._extra_repr()
        if not self._window.count_include_pad:
            shown += ", count_include_pad=False"
        if self._window.divisor_override is not None:
            shown += f", divisor_override={self._window.divisor_override}"
        return shown

    def __call__(self, x: mx.array) -> mx.array:
        return _ext.avg_pool(x, self._window)


class MaxPool1d(_MaxPool):
    """Max pooling over 1 spatial axis, in place of ``mlx.nn.MaxPool1d``.

    Each output is the maximum over a window. Padding never wins; a window
    without a tap inside the input gives ``-inf`` (an integer dtype's lowest value,
    ``False`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    maxima goes to the first in row-major order. Definition:
    ``torch.nn.MaxPool1d``, on channels-last arrays.

    Args:
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

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for a window larger than the padded input,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MaxPool1d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((4, 16, 5))).shape
        (4, 8, 5)
    """

    _spatial_axes = 1


class MaxPool2d(_MaxPool):
    """Max pooling over 2 spatial axes, in place of ``mlx.nn.MaxPool2d``.

    Each output is the maximum over a window. Padding never wins; a window
    without a tap inside the input gives ``-inf`` (an integer dtype's lowest value,
    ``False`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    maxima goes to the first in row-major order. Definition:
    ``torch.nn.MaxPool2d``, on channels-last arrays.

    Args:
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

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for a window larger than the padded input,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MaxPool2d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 32, 32, 4))).shape
        (8, 16, 16, 4)
    """

    _spatial_axes = 2


class MaxPool3d(_MaxPool):
    """Max pooling over 3 spatial axes, in place of ``mlx.nn.MaxPool3d``.

    Each output is the maximum over a window. Padding never wins; a window
    without a tap inside the input gives ``-inf`` (an integer dtype's lowest value,
    ``False`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    maxima goes to the first in row-major order. Definition:
    ``torch.nn.MaxPool3d``, on channels-last arrays.

    Args:
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

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for a window larger than the padded input,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MaxPool3d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 16, 32, 32, 4))).shape
        (8, 8, 16, 16, 4)
    """

    _spatial_axes = 3


class AvgPool1d(_AvgPool):
    """Average pooling over 1 spatial axis, in place of ``mlx.nn.AvgPool1d``.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in float32 (float64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.AvgPool1d``,
    on channels-last arrays.

    Args:
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

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for a window larger than the padded input,
            a wrong number of axes or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AvgPool1d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((4, 16, 5))).shape
        (4, 8, 5)
    """

    _spatial_axes = 1


class AvgPool2d(_AvgPool):
    """Average pooling over 2 spatial axes, in place of ``mlx.nn.AvgPool2d``.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in float32 (float64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.AvgPool2d``,
    on channels-last arrays.

    Args:
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

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for a window larger than the padded input,
            a wrong number of axes or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AvgPool2d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 32, 32, 4))).shape
        (8, 16, 16, 4)
    """

    _spatial_axes = 2


class AvgPool3d(_AvgPool):
    """Average pooling over 3 spatial axes, in place of ``mlx.nn.AvgPool3d``.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in float32 (float64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.AvgPool3d``,
    on channels-last arrays.

    Args:
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

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for a window larger than the padded input,
            a wrong number of axes or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AvgPool3d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 16, 32, 32, 4))).shape
        (8, 8, 16, 16, 4)
    """

    _spatial_axes = 3
