"""Pooling in NumPy, from the definitions; shares no code with the package.

Arrays are (N, *spatial, C) with one to three spatial axes. What reduces windows loops
over them and is vectorised over N and C only: it is meant to be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

NO_INDEX = 0xFFFFFFFF


@dataclass(frozen=True)
class Geometry:
    """Windows all alike. One entry a spatial axis."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def ndim(self) -> int:
        return len(self.size)

    @property
    def output(self) -> tuple[int, ...]:
        return tuple(self._output_axis(axis) for axis in range(self.ndim))

    def _output_axis(self, axis: int) -> int:
        low, high = self.padding[axis]
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        room = self.size[axis] + low + high - reach
        stride = self.stride[axis]
        if room < 0 and not (self.ceil_mode and room > -stride):
            raise ValueError("the kernel is larger than the padded input")
        if not self.ceil_mode:
            return room // stride + 1
        count = -(-room // stride) + 1
        last_start = (count - 1) * stride
        return count if last_start < self.size[axis] + low else count - 1

    def taps(self, axis: int, o: int) -> range:
        start = o * self.stride[axis] - self.padding[axis][0]
        reach = self.dilation[axis] * self.kernel[axis]
        return range(start, start + reach, self.dilation[axis])


def same_upper(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Geometry:
    """ONNX's SAME_UPPER: ceil(size / stride) outputs, the odd padding at the end."""

    def pads(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
        count = math.ceil(size / stride)
        reach = dilation * (kernel - 1) + 1
        total = max(0, (count - 1) * stride + reach - size)
        return total // 2, total - total // 2

    padding = tuple(map(pads, size, kernel, stride, dilation))
    return Geometry(size, kernel, stride, padding, dilation)


@dataclass(frozen=True)
class Adaptive:
    """Windows that share an axis out as evenly as whole positions allow."""

    size: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.size)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),) * self.ndim

    @property
    def kernel(self) -> tuple[int, ...]:
        """How many taps the largest window has."""
        return tuple(
            max((len(self.taps(axis, o)) for o in range(count)), default=0)
            for axis, count in enumerate(self.output)
        )

    def taps(self, axis: int, o: int) -> range:
        size, count = self.size[axis], self.output[axis]
        return range(o * size // count, -(-(o + 1) * size // count))


Windows = Geometry | Adaptive


@dataclass(frozen=True)
class Window:
    """The taps of one output that lie inside the input, in row-major order."""

    output: tuple[int, ...]
    offsets: np.ndarray  # number of each tap within the kernel
    positions: np.ndarray  # flat spatial position of each tap in the input
    padded_count: int  # taps inside the input or its padding

    def divisor(self, count_include_pad: bool, divisor_override: int | None) -> int:
        if divisor_override is not None:
            return divisor_override
        return self.padded_count if count_include_pad else len(self.positions)


def _row_major(axes: list[np.ndarray], shape: Sequence[int]) -> np.ndarray:
    """Flat indices of every combination of indices along the axes of the shape."""
    return np.ravel_multi_index(np.ix_(*axes), shape).ravel()


def _window(g: Windows, output: tuple[int, ...]) -> Window:
    per_axis = [np.array(g.taps(axis, o)) for axis, o in enumerate(output)]
    inside = [
        np.flatnonzero((taps >= 0) & (taps < size))
        for taps, size in zip(per_axis, g.size, strict=True)
    ]
    places = [taps[i] for taps, i in zip(per_axis, inside, strict=True)]
    padded_count = math.prod(
        np.count_nonzero((taps >= -low) & (taps < size + high))
        for taps, size, (low, high) in zip(per_axis, g.size, g.padding, strict=True)
    )
    return Window(
        output,
        _row_major(inside, [len(taps) for taps in per_axis]),
        _row_major(places, g.size),
        padded_count,
    )


@lru_cache(maxsize=256)
def windows(g: Windows) -> list[Window]:
    return [_window(g, output) for output in np.ndindex(g.output)]


def _planes(x: np.ndarray, spatial: int) -> np.ndarray:
    """(N, *spatial, C) as (N, positions, C)."""
    positions = math.prod(x.shape[1 : 1 + spatial])
    return x.reshape(x.shape[0], positions, x.shape[-1])


def _window_values(x: np.ndarray, g: Windows) -> Iterator[tuple[Window, np.ndarray]]:
    planes = _planes(x, g.ndim)
    for window in windows(g):
        yield window, planes[:, window.positions]


def lowest(dtype: np.dtype) -> float | int | bool:
    if dtype == np.bool_:
        return False
    if np.issubdtype(dtype, np.integer):
        return int(np.iinfo(dtype).min)
    return -np.inf


def highest(dtype: np.dtype) -> float | int | bool:
    if dtype == np.bool_:
        return True
    if np.issubdtype(dtype, np.integer):
        return int(np.iinfo(dtype).max)
    return np.inf


def _winner(
    taps: np.ndarray, first_best: Callable[..., np.ndarray], worst: float | int | bool
) -> np.ndarray:
    """Among (N, taps, C) the last NaN, else the first of the best."""
    nan = np.isnan(taps)
    if not nan.any():
        return first_best(taps, axis=1)
    last_nan = taps.shape[1] - 1 - np.argmax(nan[:, ::-1], axis=1)
    best = first_best(np.where(nan, worst, taps), axis=1)
    return np.where(nan.any(axis=1), last_nan, best)


@dataclass(frozen=True)
class Winners:
    values: np.ndarray
    offsets: np.ndarray  # tap number in the kernel, -1 where no tap is valid
    indices: np.ndarray  # flat spatial index, NO_INDEX where no tap is valid


def _winners(
    x: np.ndarray,
    g: Windows,
    first_best: Callable[..., np.ndarray],
    worst: float | int | bool,
) -> Winners:
    """The worst value is that of a window without a valid tap."""
    shape = (x.shape[0], *g.output, x.shape[-1])
    values = np.full(shape, worst, x.dtype)
    offsets = np.full(shape, -1, np.int64)
    indices = np.full(shape, NO_INDEX, np.int64)
    for window, taps in _window_values(x, g):
        if len(window.positions):
            at = (slice(None), *window.output)
            winner = _winner(taps, first_best, worst)
            values[at] = np.take_along_axis(taps, winner[:, None], axis=1)[:, 0]
            offsets[at] = window.offsets[winner]
            indices[at] = window.positions[winner]
    return Winners(values, offsets, indices)


def max_pool(x: np.ndarray, g: Windows) -> Winners:
    return _winners(x, g, np.argmax, lowest(x.dtype))


def min_pool(x: np.ndarray, g: Windows) -> Winners:
    return _winners(x, g, np.argmin, highest(x.dtype))


def gather(t: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The derivative of max_pool and min_pool: t at the position that won."""
    spatial = t.ndim - 2
    planes = _planes(t, spatial)
    flat = _planes(indices, spatial)
    picked = np.zeros(flat.shape, t.dtype)
    n, o, c = np.nonzero(flat != NO_INDEX)
    picked[n, o, c] = planes[n, flat[n, o, c], c]
    return picked.reshape(indices.shape)


def scatter(dy: np.ndarray, indices: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """The adjoint of gather: each dy is added to the position that won its window."""
    flat_dy, flat = _planes(dy, len(size)), _planes(indices, len(size))
    dx = np.zeros((dy.shape[0], math.prod(size), dy.shape[-1]), dy.dtype)
    n, o, c = np.nonzero(flat != NO_INDEX)
    np.add.at(dx, (n, flat[n, o, c], c), flat_dy[n, o, c])
    return dx.reshape(dy.shape[0], *size, dy.shape[-1])


def _by_parts(f: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Complex arithmetic would let a NaN or infinity of one part into the other."""
    parts = np.stack([f(z.real), f(z.imag)], axis=-1)
    return parts.view(np.complex128)[..., 0]


def avg_pool(
    x: np.ndarray,
    g: Windows,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> np.ndarray:
    if np.iscomplexobj(x):
        options = (g, count_include_pad, divisor_override)
        return _by_parts(lambda part: avg_pool(part, *options), x)
    y = np.zeros((x.shape[0], *g.output, x.shape[-1]))
    for window, taps in _window_values(x, g):
        if len(window.positions):
            with np.errstate(invalid="ignore"):  # infinities of both signs
                total = taps.sum(axis=1, dtype=np.float64)
            divisor = window.divisor(count_include_pad, divisor_override)
            y[(slice(None), *window.output)] = total / divisor
    return y


def avg_pool_grad(
    dy: np.ndarray,
    g: Windows,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> np.ndarray:
    """The adjoint of avg_pool: each dy is shared equally among its window's taps."""
    if np.iscomplexobj(dy):
        options = (g, count_include_pad, divisor_override)
        return _by_parts(lambda part: avg_pool_grad(part, *options), dy)
    dx = np.zeros((dy.shape[0], math.prod(g.size), dy.shape[-1]), dy.dtype)
    for window in windows(g):
        if len(window.positions):
            divisor = window.divisor(count_include_pad, divisor_override)
            share = dy[(slice(None), *window.output)] / divisor
            dx[:, window.positions] += share[:, None]
    return dx.reshape(dy.shape[0], *g.size, dy.shape[-1])


def first_uses(indices: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """The indices that an unpooling uses; the others become NO_INDEX: one outside of
    the plane, or one that came before in the same plane."""
    flat = _planes(indices, len(size))
    used = np.full(flat.shape, NO_INDEX, np.int64)
    for n, c in np.ndindex(flat.shape[0], flat.shape[2]):
        seen = set()
        for i, index in enumerate(int(index) for index in flat[n, :, c]):
            if 0 <= index < math.prod(size) and index not in seen:
                seen.add(index)
                used[n, i, c] = index
    return used.reshape(indices.shape)


def max_unpool(x: np.ndarray, indices: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Its derivative is the same of the tangent."""
    flat_x = _planes(x, len(size))
    flat = _planes(first_uses(indices, size), len(size))
    y = np.zeros((x.shape[0], math.prod(size), x.shape[-1]), x.dtype)
    n, i, c = np.nonzero(flat != NO_INDEX)
    y[n, flat[n, i, c], c] = flat_x[n, i, c]
    return y.reshape(x.shape[0], *size, x.shape[-1])


def max_unpool_grad(dy: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The adjoint of max_unpool: dy where each element of x went."""
    return gather(dy, first_uses(indices, dy.shape[1:-1]))


def lp_pool(x: np.ndarray, g: Geometry, p: float) -> np.ndarray:
    """PyTorch's definition: a window cut off at the end counts as a whole one."""
    if math.isinf(p):
        return max_pool(np.abs(x), g).values
    with np.errstate(invalid="ignore"):  # a root of something negative
        average = avg_pool(np.power(x, p), g)
        return np.power(average * math.prod(g.kernel), 1 / p)


def lp_pool_grad(x: np.ndarray, dy: np.ndarray, g: Geometry, p: float) -> np.ndarray:
    """dy times the derivative of the root, to each tap times that of its power."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = avg_pool(np.power(x, p), g) * math.prod(g.kernel)
        of_root = np.where(total == 0, 0, np.power(total, 1 / p - 1))
        shared = avg_pool_grad(dy * of_root * math.prod(g.kernel), g)
        return np.where(shared == 0, 0, shared * np.power(x, p - 1))
