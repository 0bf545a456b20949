"""Hypothesis strategies: window geometries, and data in which ties, NaN, infinities
and all-negative windows are common."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from hypothesis import strategies as st
from reference import Adaptive, Geometry, Windows

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
LARGEST_KERNEL = {1: 9, 2: 5, 3: 3}
LARGEST_MARGIN = {1: 12, 2: 6, 3: 3}
LARGEST_ADAPTIVE = {1: 25, 2: 9, 3: 5}


@st.composite
def axes(
    draw, ndim: int, ceil_mode: bool
) -> tuple[int, int, int, tuple[int, int], int]:
    """(size, kernel, stride, padding, dilation) of one axis, legal together."""
    kernel = draw(st.integers(1, LARGEST_KERNEL[ndim]))
    stride = draw(st.integers(1, 4))
    dilation = draw(st.sampled_from([1, 1, 1, 2, 3]))
    reach = dilation * (kernel - 1) + 1
    padding = draw(
        st.one_of(
            st.just((0, 0)),
            st.integers(0, reach // 2).map(lambda p: (p, p)),
            st.tuples(st.integers(0, 4), st.integers(0, 4)),
            st.tuples(st.integers(0, reach + 1), st.integers(0, reach + 1)),
        )
    )
    least = max(1, reach - sum(padding) - ceil_mode * (stride - 1))
    size = draw(st.integers(least, least + LARGEST_MARGIN[ndim]))
    return size, kernel, stride, padding, dilation


@st.composite
def geometries(draw, ndims: tuple[int, ...] = (1, 2, 3)) -> Geometry:
    ndim = draw(st.sampled_from(ndims))
    ceil_mode = draw(st.booleans())
    per_axis = [draw(axes(ndim, ceil_mode)) for _ in range(ndim)]
    size, kernel, stride, padding, dilation = zip(*per_axis, strict=True)
    return Geometry(size, kernel, stride, padding, dilation, ceil_mode)


def mlx_nn_geometries() -> st.SearchStrategy[Geometry]:
    """Those that mlx.nn has too: one padding a side, no dilation, floor."""
    return geometries().filter(
        lambda g: (
            not g.ceil_mode
            and set(g.dilation) == {1}
            and all(low == high for low, high in g.padding)
        )
    )


@st.composite
def adaptives(draw, ndims: tuple[int, ...] = (1, 2, 3)) -> Adaptive:
    """Sizes that divide and that do not, and outputs larger than the input."""
    ndim = draw(st.sampled_from(ndims))
    largest = LARGEST_ADAPTIVE[ndim]
    sizes, outputs = [], []
    for _ in range(ndim):
        size = draw(st.integers(1, largest))
        divisors = [d for d in range(1, size + 1) if size % d == 0]
        sizes.append(size)
        outputs.append(
            draw(st.one_of(st.integers(1, largest + 2), st.sampled_from(divisors)))
        )
    return Adaptive(tuple(sizes), tuple(outputs))


@dataclass(frozen=True)
class Data:
    """Random values of a kind; the same fields give the same values."""

    kind: str
    seed: int

    def array(self, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
        values = self._values(np.random.default_rng(self.seed), shape, dtype)
        return mx.array(values).astype(dtype)

    def _values(self, rng, shape, dtype) -> np.ndarray:
        if dtype == mx.bool_:
            return rng.random(shape) < {"low": 0, "ties": 0.1}.get(self.kind, 0.5)
        if dtype == mx.complex64:
            parts = np.stack([self._floats(rng, shape) for _ in range(2)], axis=-1)
            return parts.view(np.complex128)[..., 0]
        if mx.issubdtype(dtype, mx.integer):
            return self._integers(rng, shape, dtype)
        values = self._floats(rng, shape)
        return values if dtype == mx.float64 else values.astype(np.float32)

    def _integers(self, rng, shape, dtype) -> np.ndarray:
        limits = mx.iinfo(dtype)
        low, high = limits.min, limits.max
        kind = np.array(mx.zeros(1, dtype)).dtype
        if self.kind == "low":
            return np.full(shape, low, kind)
        if self.kind == "extremes":
            return rng.choice(np.array([low, low + 1, 0, high - 1, high], kind), shape)
        return rng.integers(max(low, -3), 4, shape).astype(kind)

    def _floats(self, rng, shape) -> np.ndarray:
        small = rng.integers(-3, 4, shape).astype(np.float64)
        if self.kind == "low":
            return np.full(shape, -np.inf)
        if self.kind == "negative":
            return -1 - np.abs(small)
        if self.kind == "relu":
            return np.maximum(small, 0)
        if self.kind == "normal":
            return rng.standard_normal(shape)
        if self.kind == "nan":
            return np.where(rng.random(shape) < 0.15, np.nan, small)
        if self.kind == "rare nan":
            return np.where(rng.random(shape) < 0.003, np.nan, small)
        if self.kind == "infinite":
            infinite = rng.choice([-np.inf, -np.inf, -np.inf, np.inf, np.nan], shape)
            return np.where(rng.random(shape) < 0.7, infinite, small)
        return small


FINITE = ("ties", "negative", "relu", "normal")
ANY = (*FINITE, "nan", "rare nan", "infinite", "low", "extremes")


def data(kinds: tuple[str, ...] = ANY) -> st.SearchStrategy[Data]:
    return st.builds(Data, st.sampled_from(kinds), st.integers(0, 2**16))


@dataclass(frozen=True)
class Case:
    geometry: Windows
    batch: int
    channels: int
    data: Data

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.batch, *self.geometry.size, self.channels)

    @property
    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, *self.geometry.output, self.channels)

    @property
    def taps(self) -> int:
        return math.prod(self.geometry.kernel)

    def input(self, dtype: mx.Dtype = mx.float32) -> mx.array:
        return self.data.array(self.input_shape, dtype)

    def more(self, shape: tuple[int, ...], dtype: mx.Dtype = mx.float32) -> mx.array:
        """Finite values for a cotangent or a tangent."""
        kind = ("normal", "ties")[self.data.seed % 2]
        return Data(kind, self.data.seed + 1).array(shape, dtype)


def cases(
    kinds: tuple[str, ...] = ANY,
    shapes: st.SearchStrategy[Windows] | None = None,
    max_batch: int = 2,
) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        geometries() if shapes is None else shapes,
        st.integers(1, max_batch),
        st.sampled_from(CHANNELS),
        data(kinds),
    )


def adaptive_cases(
    kinds: tuple[str, ...] = ANY, max_batch: int = 2
) -> st.SearchStrategy[Case]:
    return cases(kinds, adaptives(), max_batch)


def average_options() -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries(
        {
            "count_include_pad": st.booleans(),
            "divisor_override": st.sampled_from([None, None, None, 1, 3, 7, -2]),
        }
    )
