"""Between mlx arrays and the NumPy reference: calls, conversions, comparisons."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
from metal.shader_host import RUNS_SHADERS
from mlx_pooling import _ext
from mlx_pooling._arguments import make_window
from reference import Adaptive, Geometry

Op = Callable[..., mx.array]
Spans = int | tuple[int, ...] | tuple[tuple[int, int], ...]

FLOATS = (mx.float16, mx.bfloat16, mx.float32)
INTEGERS = (
    mx.int8,
    mx.int16,
    mx.int32,
    mx.int64,
    mx.uint8,
    mx.uint16,
    mx.uint32,
    mx.uint64,
)
# Of which there are extremes.
ORDERED = (mx.bool_, *INTEGERS, *FLOATS)
EVERY_DTYPE = (*ORDERED, mx.complex64)  # but float64, which only CPUs have

# Stored fraction bits and smallest normal exponent.
PRECISION = {
    mx.float16: (10, -14),
    mx.bfloat16: (7, -126),
    mx.float32: (23, -126),
    mx.float64: (52, -1022),
    mx.complex64: (23, -126),
}

NDIMS = pytest.mark.parametrize("ndim", [1, 2, 3])
KINDS = pytest.mark.parametrize("kind", ["Max", "Avg"])
INPUTS = {1: (1, 8, 2), 2: (1, 8, 9, 2), 3: (1, 8, 9, 7, 2)}  # shapes, by ndim


def max_op(ndim: int) -> Op:
    return getattr(mlx_pooling, f"max_pool{ndim}d")


def avg_op(ndim: int) -> Op:
    return getattr(mlx_pooling, f"avg_pool{ndim}d")


POOLS = pytest.mark.parametrize("pool", [max_op, avg_op], ids=["max", "avg"])


def min_op(ndim: int) -> Op:
    return getattr(mlx_pooling, f"min_pool{ndim}d")


def unpool_op(ndim: int) -> Op:
    return getattr(mlx_pooling, f"max_unpool{ndim}d")


def lp_op(ndim: int) -> Op:
    return getattr(mlx_pooling, f"lp_pool{ndim}d")


def adaptive_op(kind: str, ndim: int) -> Op:
    return getattr(mlx_pooling, f"adaptive_{kind}_pool{ndim}d")


def layer(kind: str, ndim: int) -> type:
    return getattr(mlx_pooling, f"{kind}Pool{ndim}d")


def max_pool(x: mx.array, g: Geometry, **options) -> mx.array:
    return max_op(g.ndim)(
        x, g.kernel, g.stride, g.padding, g.dilation, g.ceil_mode, **options
    )


def min_pool(x: mx.array, g: Geometry, **options) -> mx.array:
    return min_op(g.ndim)(
        x, g.kernel, g.stride, g.padding, g.dilation, g.ceil_mode, **options
    )


def adaptive_max_pool(x: mx.array, g: Adaptive, **options) -> mx.array:
    return adaptive_op("max", g.ndim)(x, g.output, **options)


def adaptive_avg_pool(x: mx.array, g: Adaptive) -> mx.array:
    return adaptive_op("avg", g.ndim)(x, g.output)


def avg_pool(
    x: mx.array,
    g: Geometry,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    **options,
) -> mx.array:
    return avg_op(g.ndim)(
        x,
        g.kernel,
        g.stride,
        g.padding,
        g.ceil_mode,
        count_include_pad,
        divisor_override,
        dilation=g.dilation,
        **options,
    )


def sum_pool(x: mx.array, g: Geometry) -> mx.array:
    """Of int32 or int64, by the kernels of averages."""
    sizes = (g.kernel, g.stride, g.padding, g.dilation)
    window = make_window("sum_pool", g.ndim, *sizes, ceil_mode=g.ceil_mode)
    return _ext.sum_pool(x, window)


def fixed(op: Op, *args, **kwargs) -> Callable[[mx.array], mx.array]:
    """op as a function of its first argument alone."""
    return lambda x: op(x, *args, **kwargs)


def takes_the_first_zero(dtype: mx.Dtype) -> bool:
    """Whether a maximum without its index has the sign of the first of its zeros: the
    CPU's kernels may compare half types as integers."""
    is_on_cpu = mx.default_device() == mx.cpu and not RUNS_SHADERS
    return not is_on_cpu or dtype not in (mx.float16, mx.bfloat16)


def unevaluated(x: mx.array) -> mx.array:
    """The values of x, which are not there yet."""
    return mx.where(x == x, x, x)


def power_sum(f: Op, power: int) -> Callable[[mx.array], mx.array]:
    """A scalar function with f inside, to differentiate."""
    return lambda x: (f(x) ** power).sum()


def weighted_sum(f: Op, weights: mx.array) -> Callable[[mx.array], mx.array]:
    return lambda x: (f(x) * weights).sum()


def vjp(f: Op, x: mx.array, dy: mx.array) -> mx.array:
    return mx.vjp(f, [x], [dy])[1][0]


def jvp(f: Op, x: mx.array, t: mx.array) -> mx.array:
    return mx.jvp(f, [x], [t])[1][0]


def geometry(
    size: Sequence[int],
    kernel: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: Spans = 0,
    dilation: int | tuple[int, ...] = 1,
    ceil_mode: bool = False,
) -> Geometry:
    """A reference geometry from arguments in the short forms that the ops take."""
    ndim = len(size)

    def each(value):
        return (value,) * ndim if isinstance(value, int) else tuple(value)

    pairs = tuple((p, p) if isinstance(p, int) else p for p in each(padding))
    strides = each(kernel if stride is None else stride)
    return Geometry(
        tuple(size), each(kernel), strides, pairs, each(dilation), ceil_mode
    )


def irregular(ndim: int) -> Geometry:
    """Overlapping, padded, dilated windows, and one overhanging in ceil_mode."""
    return geometry((9, 8, 7)[:ndim], 3, 2, ((1, 2),) * ndim, 2, ceil_mode=True)


def plain(g: Geometry) -> Geometry:
    """Without padding or dilation, which norms have not."""
    none, ones = ((0, 0),) * g.ndim, (1,) * g.ndim
    size = tuple(map(max, g.size, g.kernel))
    return Geometry(size, g.kernel, g.stride, none, ones, g.ceil_mode)


def normal(x: mx.array, device: str) -> mx.array:
    """x, of bfloat16 with zeros for its subnormals where the device's arithmetic
    takes them for zeros: on a GPU."""
    if device == "cpu" or x.dtype != mx.bfloat16:
        return x
    bits = np.array(x.view(mx.uint16))
    is_normal = bits & 0x7F80 != 0
    return mx.array(np.where(is_normal, bits, bits & 0x8000)).view(x.dtype)


def every_half(dtype: mx.Dtype, device: str) -> mx.array:
    bits = np.arange(2**16, dtype=np.uint16)
    return normal(mx.array(bits).view(dtype).reshape(1, -1, 1), device)


def exact(a: mx.array) -> np.ndarray:
    """To NumPy; floats become float64, which holds each of their values."""
    if a.dtype == mx.complex64:
        return np.array(a).astype(np.complex128)
    if a.dtype in (mx.float16, mx.bfloat16):
        a = a.astype(mx.float32, stream=mx.cpu)
    if a.dtype in (mx.float32, mx.float64):
        with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
            return np.array(a).astype(np.float64)
    return np.array(a)


def absolute(values: np.ndarray) -> np.ndarray:
    """As floats; of a complex number each part by itself."""
    if np.iscomplexobj(values):
        parts = np.stack([np.abs(values.real), np.abs(values.imag)], axis=-1)
        return parts.view(np.complex128)[..., 0]
    return np.abs(values.astype(np.float64))


def assert_same(actual: mx.array, expected: np.ndarray) -> None:
    """Equal shapes and values, NaN equal to NaN."""
    assert tuple(actual.shape) == expected.shape
    np.testing.assert_array_equal(exact(actual), expected)


def assert_identical(actual: mx.array, expected: mx.array) -> None:
    """The same dtype and the same bits (any NaN equal to any other)."""
    assert actual.dtype == expected.dtype
    assert_same(actual, exact(expected))


def _ulp(value: np.ndarray, dtype: mx.Dtype) -> np.ndarray:
    fraction, smallest = PRECISION[dtype]
    exponent = np.floor(np.log2(np.maximum(np.abs(value), 2.0**smallest)))
    return 2.0 ** (exponent - fraction)


def assert_rounded(
    actual: mx.array, expected: np.ndarray, magnitude: np.ndarray, terms: int
) -> None:
    """Within one rounding to the dtype of a sum accumulated in float32 (or float64).

    magnitude is the same sum with all terms made of one sign, terms how many there are.
    """
    assert tuple(actual.shape) == expected.shape
    got = exact(actual)
    if np.iscomplexobj(got):
        got, expected, magnitude = (
            np.stack([z.real, z.imag]) for z in (got, expected, magnitude)
        )
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(
        np.where(finite, 0, got), np.where(finite, 0, expected)
    )
    unit = 2.0**-53 if actual.dtype == mx.float64 else 2.0**-24
    with np.errstate(invalid="ignore"):
        accumulated = 2 * (terms + 4) * unit * np.abs(magnitude)
        bound = accumulated + _ulp(np.abs(expected) + accumulated, actual.dtype) / 2
        excess = np.where(finite, np.abs(got - expected) - bound, 0)
    worst = np.unravel_index(np.argmax(excess), excess.shape) if excess.size else ()
    assert np.all(excess <= 0), (
        f"{got[worst]} at {worst} should be {expected[worst]} within {bound[worst]}"
    )


def graph_nodes(*outputs: mx.array) -> list[tuple[str, int]]:
    """Each primitive of an unevaluated graph: its name and how many outputs it has."""
    dot = io.StringIO()
    mx.export_to_dot(dot, *outputs)
    lines = dot.getvalue().splitlines()
    names = {
        line.split()[1]: line.split('"')[1]
        for line in lines
        if "shape=rectangle" in line
    }
    return [
        (name, sum(line.startswith(f"{node} ->") for line in lines))
        for node, name in names.items()
    ]


def our_primitives(*outputs: mx.array) -> set[str]:
    """Those of an unevaluated graph that are not MLX's own."""
    return {name for name, _ in graph_nodes(*outputs) if "pool" in name.lower()}


def short_name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")
