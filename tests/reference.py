"""Pooling in NumPy, from the definitions; shares no code with the package.

Arrays are (N, *spatial, C) with one to three spatial axes. Everything loops over
windows and is vectorised over N and C only: it is meant to be read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

NO_INDEX = 0xFFFFFFFF


@dataclass(frozen=True)
class Geometry:
    """Which input positions belong to which output. One entry a spatial axis."""

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
        if room < 0:
            raise ValueError("the kernel is larger than the padded input")
        stride = self.stride[axis]
        if not self.ceil_mode:
            return room // stride + 1
        count = -(-room // stride) + 1
        last_start = (count - 1) * stride
        return count if last_start < self.size[axis] + low else count - 1


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


def _axis_taps(g: Geometry, axis: int, o: int) -> list[int]:
    start = o * g.stride[axis] - g.padding[axis][0]
    return [start + tap * g.dilation[axis] for tap in range(g.kernel[axis])]


def _window(g: Geometry, output: tuple[int, ...]) -> Window:
    per_axis = [_axis_taps(g, axis, o) for axis, o in enumerate(output)]
    offsets, positions = [], []
    for offset, place in enumerate(itertools.product(*per_axis)):
        if all(0 <= p < size for p, size in zip(place, g.size, strict=True)):
            offsets.append(offset)
            positions.append(int(np.ravel_multi_index(place, g.size)))
    padded_count = math.prod(
        sum(-low <= p < size + high for p in taps)
        for taps, size, (low, high) in zip(per_axis, g.size, g.padding, strict=True)
    )
    return Window(
        output, np.array(offsets, int), np.array(positions, int), padded_count
    )


@lru_cache(maxsize=256)
def windows(g: Geometry) -> list[Window]:
    return [_window(g, output) for output in np.ndindex(g.output)]


def _planes(x: np.ndarray, spatial: int) -> np.ndarray:
    """(N, *spatial, C) as (N, positions, C)."""
    positions = math.prod(x.shape[1 : 1 + spatial])
    return x.reshape(x.shape[0], positions, x.shape[-1])


def _window_values(x: np.ndarray, g: Geometry) -> Iterator[tuple[Window, np.ndarray]]:
    planes = _planes(x, g.ndim)
    for window in windows(g):
        yield window, planes[:, window.positions]


def lowest(dtype: np.dtype) -> float | int | bool:
    if dtype == np.bool_:
        return False
    if np.issubdtype(dtype, np.integer):
        return int(np.iinfo(dtype).min)
    return -np.inf


def _winner(taps: np.ndarray) -> np.ndarray:
    """Which tap of (N, taps, C) is the maximum: the last NaN, else the first of the
    largest."""
    nan = np.isnan(taps)
    last_nan = taps.shape[1] - 1 - np.argmax(nan[:, ::-1], axis=1)
    first_largest = np.argmax(np.where(nan, lowest(taps.dtype), taps), axis=1)
    return np.where(nan.any(axis=1), last_nan, first_largest)


@dataclass(frozen=True)
class MaxPool:
    values: np.ndarray
    offsets: np.ndarray  # tap number in the kernel, -1 where no tap is valid
    indices: np.ndarray  # flat spatial index, NO_INDEX where no tap is valid


def max_pool(x: np.ndarray, g: Geometry) -> MaxPool:
    shape = (x.shape[0], *g.output, x.shape[-1])
    values = np.full(shape, lowest(x.dtype), x.dtype)
    offsets = np.full(shape, -1, np.int64)
    indices = np.full(shape, NO_INDEX, np.int64)
    for window, taps in _window_values(x, g):
        if len(window.positions):
            at = (slice(None), *window.output)
            winner = _winner(taps)
            values[at] = np.take_along_axis(taps, winner[:, None], axis=1)[:, 0]
            offsets[at] = window.offsets[winner]
            indices[at] = window.positions[winner]
    return MaxPool(values, offsets, indices)


def gather(t: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The derivative of max_pool: t at the position that won each window."""
    spatial = t.ndim - 2
    planes = _planes(t, spatial)
    flat = _planes(indices, spatial)
    picked = np.zeros(flat.shape, t.dtype)
    for n, o, c in np.ndindex(flat.shape):
        if flat[n, o, c] != NO_INDEX:
            picked[n, o, c] = planes[n, flat[n, o, c], c]
    return picked.reshape(indices.shape)


def scatter(dy: np.ndarray, indices: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """The adjoint of gather: each dy is added to the position that won its window."""
    flat_dy, flat = _planes(dy, len(size)), _planes(indices, len(size))
    dx = np.zeros((dy.shape[0], math.prod(size), dy.shape[-1]), dy.dtype)
    for n, o, c in np.ndindex(flat.shape):
        if flat[n, o, c] != NO_INDEX:
            dx[n, flat[n, o, c], c] += flat_dy[n, o, c]
    return dx.reshape(dy.shape[0], *size, dy.shape[-1])


def _by_parts(f: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
    """Complex arithmetic would let a NaN or infinity of one part into the other."""
    parts = np.stack([f(z.real), f(z.imag)], axis=-1)
    return parts.view(np.complex128)[..., 0]


def avg_pool(
    x: np.ndarray,
    g: Geometry,
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
    g: Geometry,
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
