"""Power averages: kernels of their own for exponents 2 and 3, or out of averages."""

from __future__ import annotations

import math
from functools import partial

import mlx.core as mx

from . import _ext
from ._arguments import Stream, check_array, check_stream


def lp_pool(
    x: mx.array,
    norm_type: float,
    window: _ext.Window,
    stream: Stream = None,
) -> mx.array:
    """Pool ``x`` by the norm of each window; see ``functional.lp_pool2d``."""
    _check(x, window.name)
    check_stream(window.name, stream)
    dtype = x.dtype if mx.issubdtype(x.dtype, mx.floating) else mx.float32
    x = x.astype(mx.float64 if dtype == mx.float64 else mx.float32, stream)
    if math.isinf(norm_type):
        largest = _ext.max_pool(_absolute(x, stream), window, stream)
        return largest.astype(dtype, stream)
    norm = _ext.lp_pool(x, norm_type, window, stream)
    if norm is not None:
        return norm.astype(dtype, stream)
    mean = _ext.avg_pool(_power(x, norm_type, stream), window, stream)
    taps = float(math.prod(window.kernel_size))
    total = mx.multiply(mean, taps, stream=stream)
    return _with_flat_zero(total, 1 / norm_type, stream).astype(dtype, stream)


def _check(x: mx.array, name: str) -> None:
    check_array(name, "x", x)
    if mx.issubdtype(x.dtype, mx.complexfloating):
        raise ValueError(f"[{name}] the norm of complex numbers is not defined.")


def _absolute(x: mx.array, stream) -> mx.array:
    """``abs(x)``, of which MLX's second derivative keeps the shape of a trace."""
    is_negative = mx.less(x, 0, stream=stream)
    magnitude = mx.where(is_negative, mx.negative(x, stream=stream), x, stream=stream)
    return _with_flat_zero(magnitude, 1, stream)


def _power(x: mx.array, exponent: float, stream) -> mx.array:
    if exponent < 1:
        return _with_flat_zero(x, exponent, stream)
    # MLX's power takes as long for these as for any other.
    square = partial(mx.square, stream=stream)
    if exponent == 1:
        return x
    if exponent == 2:
        return square(x)
    if exponent == 3:
        return mx.multiply(square(x), x, stream=stream)
    if exponent == 4:
        return square(square(x))
    return mx.power(x, exponent, stream=stream)


def _with_flat_zero(x: mx.array, exponent: float, stream) -> mx.array:
    """``x ** exponent``, with a zero gradient at 0 whatever the exponent."""
    is_zero = mx.equal(x, 0, stream=stream)
    if exponent == 1:
        return mx.where(is_zero, 0, x, stream=stream)
    base = mx.where(is_zero, 1, x, stream=stream)
    power = (
        mx.sqrt(base, stream=stream)
        if exponent == 1 / 2
        else mx.power(base, exponent, stream=stream)
    )
    return mx.where(is_zero, 0, power, stream=stream)
