"""Pooling layers: the names, arguments and results of ``mlx.nn``, and more."""

from __future__ import annotations

from typing import SupportsIndex

import mlx.core as mx
from mlx.nn import Module

from . import _ext
from ._arguments import (
    IntOrInts,
    Maxima,
    OptionalInts,
    OutputSize,
    Padding,
    check_flag,
    check_norm_type,
    make_adaptive_window,
    make_unpool_window,
    make_window,
)
from ._lp import lp_pool


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
            f"padding={'same' if w.same_padding else tuple(padding)}",
        ]
        if any(d != 1 for d in w.dilation):
            shown.append(f"dilation={tuple(w.dilation)}")
        if w.ceil_mode:
            shown.append("ceil_mode=True")
        return ", ".join(shown)


class _MaxPool(_Pool):
    _minimum = False

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
            minimum=self._minimum,
        )

    def _extra_repr(self) -> str:
        indices = ", return_indices=True" if self._return_indices else ""
        return super()._extra_repr() + indices

    def __call__(self, x: mx.array) -> Maxima:
        if self._return_indices:
            return _ext.max_pool_with_indices(x, self._window)
        return _ext.max_pool(x, self._window)


class _MinPool(_MaxPool):
    _minimum = True


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: SupportsIndex | None = None,
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


class _AdaptivePool(_Pool):
    def _extra_repr(self) -> str:
        return f"output_size={tuple(self._window.output_size)}"


class _AdaptiveAvgPool(_AdaptivePool):
    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        name = type(self).__name__
        self._window = make_adaptive_window(name, self._spatial_axes, output_size)

    def __call__(self, x: mx.array) -> mx.array:
        return _ext.avg_pool(x, self._window)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        self._return_indices = check_flag(name, "return_indices", return_indices)
        self._window = make_adaptive_window(name, self._spatial_axes, output_size)

    def _extra_repr(self) -> str:
        indices = ", return_indices=True" if self._return_indices else ""
        return super()._extra_repr() + indices

    def __call__(self, x: mx.array) -> Maxima:
        if self._return_indices:
            return _ext.max_pool_with_indices(x, self._window)
        return _ext.max_pool(x, self._window)


class _Global:
    """Makes an adaptive layer that of one output."""

    def __init__(self) -> None:
        super().__init__(1)  # type: ignore[call-arg] # of the layer beside this class

    def _extra_repr(self) -> str:
        return ""


class _LPPool(_Pool):
    def __init__(
        self,
        norm_type: float,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._norm_type = check_norm_type(name, norm_type)
        self._window = make_window(
            name, self._spatial_axes, kernel_size, stride, 0, 1, ceil_mode=ceil_mode
        )

    def _extra_repr(self) -> str:
        w = self._window
        norm_type = repr(self._norm_type).removesuffix(".0")
        shown = f"norm_type={norm_type}, kernel_size={tuple(w.kernel_size)}, "
        shown += f"stride={tuple(w.stride)}"
        return shown + (", ceil_mode=True" if w.ceil_mode else "")

    def __call__(self, x: mx.array) -> mx.array:
        return lp_pool(x, self._norm_type, self._window)


class _MaxUnpool(_Pool):
    def __init__(
        self,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
    ) -> None:
        super().__init__()
        self._window = make_unpool_window(
            type(self).__name__, self._spatial_axes, kernel_size, stride, padding
        )

    def __call__(
        self,
        x: mx.array,
        indices: mx.array,
        output_size: OptionalInts | None = None,
    ) -> mx.array:
        w = self._window
        if output_size is not None:
            w = make_unpool_window(
                w.name,
                self._spatial_axes,
                w.kernel_size,
                w.stride,
                w.pad_lo,
                output_size,
            )
        return _ext.max_unpool(x, indices, w)


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

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
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

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
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

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MaxPool3d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 16, 32, 32, 4))).shape
        (8, 8, 16, 16, 4)
    """

    _spatial_axes = 3


class MinPool1d(_MinPool):
    """Min pooling over 1 spatial axis.

    Each output is the minimum over a window. Padding never wins; a window
    without a tap inside the input gives ``inf`` (an integer dtype's highest value,
    ``True`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    minima goes to the first in row-major order. Definition:
    the negative of ``torch.nn.MaxPool1d`` of ``-x``, on channels-last arrays.

    Args:
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

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MinPool1d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((4, 16, 5))).shape
        (4, 8, 5)
    """

    _spatial_axes = 1


class MinPool2d(_MinPool):
    """Min pooling over 2 spatial axes.

    Each output is the minimum over a window. Padding never wins; a window
    without a tap inside the input gives ``inf`` (an integer dtype's highest value,
    ``True`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    minima goes to the first in row-major order. Definition:
    the negative of ``torch.nn.MaxPool2d`` of ``-x``, on channels-last arrays.

    Args:
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

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MinPool2d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 32, 32, 4))).shape
        (8, 16, 16, 4)
    """

    _spatial_axes = 2


class MinPool3d(_MinPool):
    """Min pooling over 3 spatial axes.

    Each output is the minimum over a window. Padding never wins; a window
    without a tap inside the input gives ``inf`` (an integer dtype's highest value,
    ``True`` for bool). A NaN in the window gives NaN. The whole gradient of equal
    minima goes to the first in row-major order. Definition:
    the negative of ``torch.nn.MaxPool3d`` of ``-x``, on channels-last arrays.

    Args:
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

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
            a wrong number of axes, a complex dtype or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = MinPool3d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 16, 32, 32, 4))).shape
        (8, 8, 16, 16, 4)
    """

    _spatial_axes = 3


class AvgPool1d(_AvgPool):
    """Average pooling over 1 spatial axis, in place of ``mlx.nn.AvgPool1d``.

    Each output is the sum over a window divided by its number of taps, taps in
    the padding counting as zeros, accumulated in 32 bits (64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.AvgPool1d``,
    on channels-last arrays.

    Args:
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

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
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
    the padding counting as zeros, accumulated in 32 bits (64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.AvgPool2d``,
    on channels-last arrays.

    Args:
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

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
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
    the padding counting as zeros, accumulated in 32 bits (64 for float64). A
    window that counts no tap gives 0. Definition: ``torch.nn.AvgPool3d``,
    on channels-last arrays.

    Args:
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

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a size of the wrong form or out of range.
            Calling the layer raises it for an axis too short for a window,
            a wrong number of axes or an output too large to index.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AvgPool3d(kernel_size=2, stride=2)
        >>> pool(mx.zeros((8, 16, 32, 32, 4))).shape
        (8, 8, 16, 16, 4)
    """

    _spatial_axes = 3


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Average pooling to a given size over 1 spatial axis.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the average over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``, accumulated in
    32 bits (64 for float64). Definition: ``torch.nn.AdaptiveAvgPool1d``, on
    channels-last arrays.

    Args:
        output_size (int, None or tuple(int)): Outputs along each axis; with
            None as many as inputs.

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For an output size of the wrong form or negative. Calling the
            layer raises it for an empty axis that is to have outputs or
            a wrong number of axes.

    Examples:
        >>> pool = AdaptiveAvgPool1d(2)
        >>> x = mx.arange(5.0).reshape(1, 5, 1)
        >>> pool(x).flatten().tolist()
        [1.0, 3.0]
    """

    _spatial_axes = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Average pooling to a given size over 2 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the average over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``, accumulated in
    32 bits (64 for float64). Definition: ``torch.nn.AdaptiveAvgPool2d``, on
    channels-last arrays.

    Args:
        output_size (int, None or tuple(int, int)): Outputs along each axis; with
            None as many as inputs.

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For an output size of the wrong form or negative. Calling the
            layer raises it for an empty axis that is to have outputs or
            a wrong number of axes.

    Examples:
        >>> pool = AdaptiveAvgPool2d((2, 1))
        >>> x = mx.arange(9.0).reshape(1, 3, 3, 1)
        >>> pool(x).flatten().tolist()
        [2.5, 5.5]
    """

    _spatial_axes = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Average pooling to a given size over 3 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the average over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``, accumulated in
    32 bits (64 for float64). Definition: ``torch.nn.AdaptiveAvgPool3d``, on
    channels-last arrays.

    Args:
        output_size (int, None or tuple(int, int, int)): Outputs along each axis; with
            None as many as inputs.

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For an output size of the wrong form or negative. Calling the
            layer raises it for an empty axis that is to have outputs or
            a wrong number of axes.

    Examples:
        >>> pool = AdaptiveAvgPool3d((1, None, 1))
        >>> x = mx.arange(8.0).reshape(1, 2, 2, 2, 1)
        >>> pool(x).flatten().tolist()
        [2.5, 4.5]
    """

    _spatial_axes = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Max pooling to a given size over 1 spatial axis.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the maximum over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``. A NaN in the window
    gives NaN. The whole gradient of equal maxima goes to the first in row-major
    order. Definition: ``torch.nn.AdaptiveMaxPool1d``, on channels-last
    arrays.

    Args:
        output_size (int, None or tuple(int)): Outputs along each axis; with
            None as many as inputs.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For an output size of the wrong form or negative. Calling the
            layer raises it for an empty axis that is to have outputs or
            a wrong number of axes, a complex dtype.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AdaptiveMaxPool1d(2)
        >>> x = mx.arange(5.0).reshape(1, 5, 1)
        >>> pool(x).flatten().tolist()
        [2.0, 4.0]
    """

    _spatial_axes = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Max pooling to a given size over 2 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the maximum over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``. A NaN in the window
    gives NaN. The whole gradient of equal maxima goes to the first in row-major
    order. Definition: ``torch.nn.AdaptiveMaxPool2d``, on channels-last
    arrays.

    Args:
        output_size (int, None or tuple(int, int)): Outputs along each axis; with
            None as many as inputs.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For an output size of the wrong form or negative. Calling the
            layer raises it for an empty axis that is to have outputs or
            a wrong number of axes, a complex dtype.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AdaptiveMaxPool2d((2, 1))
        >>> x = mx.arange(9.0).reshape(1, 3, 3, 1)
        >>> pool(x).flatten().tolist()
        [5.0, 8.0]
    """

    _spatial_axes = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Max pooling to a given size over 3 spatial axes.

    Output ``o`` of an axis with ``I`` inputs and ``O`` outputs is the maximum over
    positions ``floor(o * I / O)`` to ``ceil((o + 1) * I / O) - 1``. A NaN in the window
    gives NaN. The whole gradient of equal maxima goes to the first in row-major
    order. Definition: ``torch.nn.AdaptiveMaxPool3d``, on channels-last
    arrays.

    Args:
        output_size (int, None or tuple(int, int, int)): Outputs along each axis; with
            None as many as inputs.
        return_indices (bool): Also return where the maxima are.
            Default: ``False``.

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For an output size of the wrong form or negative. Calling the
            layer raises it for an empty axis that is to have outputs or
            a wrong number of axes, a complex dtype.
        TypeError: For a flag that is no bool.

    Examples:
        >>> pool = AdaptiveMaxPool3d((1, None, 1))
        >>> x = mx.arange(8.0).reshape(1, 2, 2, 2, 1)
        >>> pool(x).flatten().tolist()
        [5.0, 7.0]
    """

    _spatial_axes = 3


class GlobalAvgPool1d(_Global, AdaptiveAvgPool1d):
    """The average of each channel over 1 spatial axis.

    ``AdaptiveAvgPool1d(1)``: the spatial axes stay, with size 1.

    Shape:
        ``(N, L, C)`` to ``(N, 1, C)``, or both without ``N``.

    Raises:
        ValueError: From a call, for an empty spatial axis or a wrong number of axes.

    Examples:
        >>> GlobalAvgPool1d()(mx.zeros((4, 16, 5))).shape
        (4, 1, 5)
    """


class GlobalAvgPool2d(_Global, AdaptiveAvgPool2d):
    """The average of each channel over 2 spatial axes.

    ``AdaptiveAvgPool2d(1)``: the spatial axes stay, with size 1.

    Shape:
        ``(N, H, W, C)`` to ``(N, 1, 1, C)``, or both without ``N``.

    Raises:
        ValueError: From a call, for an empty spatial axis or a wrong number of axes.

    Examples:
        >>> GlobalAvgPool2d()(mx.zeros((4, 7, 7, 5))).shape
        (4, 1, 1, 5)
    """


class GlobalAvgPool3d(_Global, AdaptiveAvgPool3d):
    """The average of each channel over 3 spatial axes.

    ``AdaptiveAvgPool3d(1)``: the spatial axes stay, with size 1.

    Shape:
        ``(N, D, H, W, C)`` to ``(N, 1, 1, 1, C)``, or both without ``N``.

    Raises:
        ValueError: From a call, for an empty spatial axis or a wrong number of axes.

    Examples:
        >>> GlobalAvgPool3d()(mx.zeros((4, 3, 7, 7, 5))).shape
        (4, 1, 1, 1, 5)
    """


class GlobalMaxPool1d(_Global, AdaptiveMaxPool1d):
    """The maximum of each channel over 1 spatial axis.

    ``AdaptiveMaxPool1d(1)``: the spatial axes stay, with size 1.

    Shape:
        ``(N, L, C)`` to ``(N, 1, C)``, or both without ``N``.

    Raises:
        ValueError: From a call, for an empty spatial axis or a wrong number of axes, or
            a complex dtype.

    Examples:
        >>> GlobalMaxPool1d()(mx.zeros((4, 16, 5))).shape
        (4, 1, 5)
    """


class GlobalMaxPool2d(_Global, AdaptiveMaxPool2d):
    """The maximum of each channel over 2 spatial axes.

    ``AdaptiveMaxPool2d(1)``: the spatial axes stay, with size 1.

    Shape:
        ``(N, H, W, C)`` to ``(N, 1, 1, C)``, or both without ``N``.

    Raises:
        ValueError: From a call, for an empty spatial axis or a wrong number of axes, or
            a complex dtype.

    Examples:
        >>> GlobalMaxPool2d()(mx.zeros((4, 7, 7, 5))).shape
        (4, 1, 1, 5)
    """


class GlobalMaxPool3d(_Global, AdaptiveMaxPool3d):
    """The maximum of each channel over 3 spatial axes.

    ``AdaptiveMaxPool3d(1)``: the spatial axes stay, with size 1.

    Shape:
        ``(N, D, H, W, C)`` to ``(N, 1, 1, 1, C)``, or both without ``N``.

    Raises:
        ValueError: From a call, for an empty spatial axis or a wrong number of axes, or
            a complex dtype.

    Examples:
        >>> GlobalMaxPool3d()(mx.zeros((4, 3, 7, 7, 5))).shape
        (4, 1, 1, 1, 5)
    """


class LPPool1d(_LPPool):
    """Power-average pooling over 1 spatial axis.

    Each output is ``(sum of x ** norm_type) ** (1 / norm_type)`` over a window,
    computed in float32 (float64 for float64). Where the sum is 0 the gradient is zero,
    and where an element is 0 if ``norm_type`` is less than 1; where the sum is negative
    the output is NaN, unless ``norm_type`` is 1. At infinity it is the maximum of
    absolute values. Definition: ``torch.nn.LPPool1d``, on
    channels-last arrays.

    Args:
        norm_type (float): The exponent, positive, at most ``2**100`` or infinite; 1
            gives sums, infinity maxima.
        kernel_size (int or tuple(int)): Taps in a window along each axis.
        stride (int or tuple(int), optional): Distance between windows.
            Default: ``kernel_size``.
        ceil_mode (bool): Round output sizes up instead of down; a last window that
            reaches beyond the input is scaled up to the full number of taps.
            Default: ``False``.

    Shape:
        ``(N, L, C)`` to ``(N, L_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a ``norm_type`` out of range or a size of the wrong
            form or out of range. Calling the layer raises it for an axis too short
            for a window, a wrong number of axes or a complex dtype.
        TypeError: For a ``norm_type`` that is no number or a flag that is no bool.

    Examples:
        >>> pool = LPPool1d(2, 2)
        >>> x = mx.array([3.0, 4.0, 6.0, 8.0]).reshape(1, 4, 1)
        >>> pool(x).flatten().tolist()
        [5.0, 10.0]
    """

    _spatial_axes = 1


class LPPool2d(_LPPool):
    """Power-average pooling over 2 spatial axes.

    Each output is ``(sum of x ** norm_type) ** (1 / norm_type)`` over a window,
    computed in float32 (float64 for float64). Where the sum is 0 the gradient is zero,
    and where an element is 0 if ``norm_type`` is less than 1; where the sum is negative
    the output is NaN, unless ``norm_type`` is 1. At infinity it is the maximum of
    absolute values. Definition: ``torch.nn.LPPool2d``, on
    channels-last arrays.

    Args:
        norm_type (float): The exponent, positive, at most ``2**100`` or infinite; 1
            gives sums, infinity maxima.
        kernel_size (int or tuple(int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        ceil_mode (bool): Round output sizes up instead of down; a last window that
            reaches beyond the input is scaled up to the full number of taps.
            Default: ``False``.

    Shape:
        ``(N, H, W, C)`` to ``(N, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a ``norm_type`` out of range or a size of the wrong
            form or out of range. Calling the layer raises it for an axis too short
            for a window, a wrong number of axes or a complex dtype.
        TypeError: For a ``norm_type`` that is no number or a flag that is no bool.

    Examples:
        >>> pool = LPPool2d(2, 2)
        >>> x = mx.array([[3.0, 4.0], [0.0, 0.0]]).reshape(1, 2, 2, 1)
        >>> pool(x).flatten().tolist()
        [5.0]
    """

    _spatial_axes = 2


class LPPool3d(_LPPool):
    """Power-average pooling over 3 spatial axes.

    Each output is ``(sum of x ** norm_type) ** (1 / norm_type)`` over a window,
    computed in float32 (float64 for float64). Where the sum is 0 the gradient is zero,
    and where an element is 0 if ``norm_type`` is less than 1; where the sum is negative
    the output is NaN, unless ``norm_type`` is 1. At infinity it is the maximum of
    absolute values. Definition: ``torch.nn.LPPool3d``, on
    channels-last arrays.

    Args:
        norm_type (float): The exponent, positive, at most ``2**100`` or infinite; 1
            gives sums, infinity maxima.
        kernel_size (int or tuple(int, int, int)): Taps in a window along each axis.
        stride (int or tuple(int, int, int), optional): Distance between windows.
            Default: ``kernel_size``.
        ceil_mode (bool): Round output sizes up instead of down; a last window that
            reaches beyond the input is scaled up to the full number of taps.
            Default: ``False``.

    Shape:
        ``(N, D, H, W, C)`` to ``(N, D_out, H_out, W_out, C)``, or both without ``N``.

    Raises:
        ValueError: For a ``norm_type`` out of range or a size of the wrong
            form or out of range. Calling the layer raises it for an axis too short
            for a window, a wrong number of axes or a complex dtype.
        TypeError: For a ``norm_type`` that is no number or a flag that is no bool.

    Examples:
        >>> pool = LPPool3d(2, (1, 2, 2))
        >>> x = mx.ones((1, 1, 2, 2, 1))
        >>> pool(x).flatten().tolist()
        [2.0]
    """

    _spatial_axes = 3


class MaxUnpool1d(_MaxUnpool):
    """Undo a max pooling over 1 spatial axis.

    Puts each element at the position that its index names in a plane that is zero
    elsewhere. An index outside the plane is passed over; of several equal ones the
    first in row-major order counts, and it alone has a gradient. Definition:
    ``torch.nn.MaxUnpool1d``, on channels-last arrays, which leaves repeated indices
    open.

    Args:
        kernel_size (int or tuple(int)): That of the pooling.
        stride (int or tuple(int), optional): That of the pooling.
            Default: ``kernel_size``.
        padding (int or tuple(int)): That of the pooling. Default: ``0``.

    Shape:
        ``(N, L, C)`` and indices of the same shape to ``(N, L_out, C)``,
        or all without ``N``. A call takes a third argument, ``output_size``: the
        plane's size along each axis, or a whole shape, less than a ``stride`` from
        ``(size - 1) * stride - 2 * padding + kernel_size``.

    Raises:
        ValueError: For a size of the wrong form or out of range. Calling the layer
            raises it for a wrong number of axes, indices that are no integers or of
            another shape than ``x``, or an output size that does not pool to it.

    Examples:
        >>> x = mx.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1)
        >>> y, indices = MaxPool1d(2, return_indices=True)(x)
        >>> MaxUnpool1d(2)(y, indices).flatten().tolist()
        [0.0, 3.0, 2.0, 0.0]
    """

    _spatial_axes = 1


class MaxUnpool2d(_MaxUnpool):
    """Undo a max pooling over 2 spatial axes.

    Puts each element at the position that its index names in a plane that is zero
    elsewhere. An index outside the plane is passed over; of several equal ones the
    first in row-major order counts, and it alone has a gradient. Definition:
    ``torch.nn.MaxUnpool2d``, on channels-last arrays, which leaves repeated indices
    open.

    Args:
        kernel_size (int or tuple(int, int)): That of the pooling.
        stride (int or tuple(int, int), optional): That of the pooling.
            Default: ``kernel_size``.
        padding (int or tuple(int, int)): That of the pooling. Default: ``0``.

    Shape:
        ``(N, H, W, C)`` and indices of the same shape to ``(N, H_out, W_out, C)``,
        or all without ``N``. A call takes a third argument, ``output_size``: the
        plane's size along each axis, or a whole shape, less than a ``stride`` from
        ``(size - 1) * stride - 2 * padding + kernel_size``.

    Raises:
        ValueError: For a size of the wrong form or out of range. Calling the layer
            raises it for a wrong number of axes, indices that are no integers or of
            another shape than ``x``, or an output size that does not pool to it.

    Examples:
        >>> x = mx.array([[1.0, 3.0], [2.0, 0.0]]).reshape(1, 2, 2, 1)
        >>> y, indices = MaxPool2d(2, return_indices=True)(x)
        >>> MaxUnpool2d(2)(y, indices).flatten().tolist()
        [0.0, 3.0, 0.0, 0.0]
    """

    _spatial_axes = 2


class MaxUnpool3d(_MaxUnpool):
    """Undo a max pooling over 3 spatial axes.

    Puts each element at the position that its index names in a plane that is zero
    elsewhere. An index outside the plane is passed over; of several equal ones the
    first in row-major order counts, and it alone has a gradient. Definition:
    ``torch.nn.MaxUnpool3d``, on channels-last arrays, which leaves repeated indices
    open.

    Args:
        kernel_size (int or tuple(int, int, int)): That of the pooling.
        stride (int or tuple(int, int, int), optional): That of the pooling.
            Default: ``kernel_size``.
        padding (int or tuple(int, int, int)): That of the pooling. Default: ``0``.

    Shape:
        ``(N, D, H, W, C)`` and indices of the same shape to
        ``(N, D_out, H_out, W_out, C)``, or all without ``N``. A call takes a third
        argument, ``output_size``: the plane's size along each axis, or a whole shape,
        less than a ``stride`` from ``(size - 1) * stride - 2 * padding + kernel_size``.

    Raises:
        ValueError: For a size of the wrong form or out of range. Calling the layer
            raises it for a wrong number of axes, indices that are no integers or of
            another shape than ``x``, or an output size that does not pool to it.

    Examples:
        >>> x = mx.array([[1.0, 3.0], [2.0, 0.0]]).reshape(1, 1, 2, 2, 1)
        >>> y, indices = MaxPool3d((1, 2, 2), return_indices=True)(x)
        >>> MaxUnpool3d((1, 2, 2))(y, indices).flatten().tolist()
        [0.0, 3.0, 0.0, 0.0]
    """

    _spatial_axes = 3
