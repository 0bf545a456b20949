"""CPU kernels and shaders, run in one process, give the same results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from agreement import (
    KINDS,
    agreed,
    assert_agree,
    averages,
    exact_averages,
    maxima,
    on_kernels,
    on_shaders,
)
from hypothesis import given
from reference import Geometry
from strategies import FINITE, Case, Data, average_options, cases
from support import (
    FLOATS,
    INTEGERS,
    ORDERED,
    PRECISION,
    avg_pool,
    exact,
    geometry,
    max_pool,
    short_name,
    sum_pool,
)

METAL_NAMES = {
    mx.bool_: "bool",
    mx.uint8: "uchar",
    mx.uint16: "ushort",
    mx.uint32: "uint",
    mx.uint64: "ulong",
    mx.int8: "char",
    mx.int16: "short",
    mx.int32: "int",
    mx.int64: "long",
    mx.float16: "half",
    mx.bfloat16: "bfloat",
    mx.float32: "float",
    mx.complex64: "float",
}
METAL_TYPES = list(METAL_NAMES)
WORDS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
AVG_DTYPES = (*FLOATS, mx.complex64)
SUM_DTYPES = (mx.int32, mx.int64)
INTEGER_DTYPES = (mx.bool_, *INTEGERS)
HUGE = 2**31 - 1


def parts(a: mx.array) -> mx.array:
    return mx.view(a, mx.float32) if a.dtype == mx.complex64 else a


def last_place(a: mx.array) -> np.ndarray:
    """What one unit in the last place of each element is worth."""
    fraction, smallest = PRECISION[a.dtype]
    magnitude = np.maximum(np.abs(exact(a)), 2.0**smallest)
    return 2.0 ** (np.floor(np.log2(magnitude)) - fraction)


def assert_averages_agree(x: mx.array, dy: mx.array, g: Geometry, options: dict):
    """Within one rounding, besides the error of float32 sums of the same terms."""
    terms = math.prod(g.kernel)
    positive = [abs(parts(a)).astype(mx.float32) for a in (x, dy)]
    magnitudes = on_kernels(averages(*positive, g, options))
    outputs, _ = agreed(averages(x, dy, g, options))
    for (actual, expected), magnitude in zip(outputs, magnitudes, strict=True):
        actual, expected = parts(actual), parts(expected)
        error = 2 * terms * 2.0**-24 * np.abs(exact(magnitude)) + last_place(expected)
        assert np.all(np.abs(exact(actual) - exact(expected)) <= error)


GEOMETRIES = {
    "1d": geometry((11,), 3, 2, 1),
    "1d, all columns": geometry((14,), 5, 1),
    # More than are unrolled, and more taps than are constants.
    "1d, many columns": geometry((14,), 7, 1, 3),
    "1d, many taps": geometry((50,), 20, 4, 3),
    "2d": geometry((7, 9), 3, 2, ((1, 0), (0, 1))),
    "2d, overhang": geometry((8, 10), (2, 3), (3, 2), 1, ceil_mode=True),
    "2d, dilated": geometry((8, 9), 2, 1, 2, (3, 2)),
    "2d, apart": geometry((6, 8), 2),
    "2d, only padding": geometry((2, 5), 2, 1, 5),
    "3d": geometry((4, 5, 7), (2, 3, 3), (1, 2, 1), 1),
    "64-bit rows": geometry((6, 9), 3, (2**30, 2), ((HUGE, 0), (1, 1))),
    "64-bit columns": geometry((5, 6), 3, (1, 2**30), ((0, 1), (HUGE, HUGE))),
    "64-bit depth": geometry((3, 4, 7), 2, (2**30, 1, 1), ((0, HUGE), (1, 0), (1, 1))),
}


def geometries(
    dtype: mx.Dtype, channels: int, step: int = 4
) -> list[tuple[int, Geometry]]:
    """All, or of few channels, which take kernels of their own each, one in `step`.

    Each geometry meets each number of channels, and each type of elements.
    """
    found = list(enumerate(GEOMETRIES.values()))
    is_full = channels * dtype.size % 16 == 0
    if is_full:
        return found
    return found[(METAL_TYPES.index(dtype) + channels) % step :: step]


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 32])
@pytest.mark.parametrize("dtype", ORDERED, ids=short_name)
def test_maxima(dtype: mx.Dtype, channels: int):
    for i, g in geometries(dtype, channels, 6):
        x = Data(KINDS[i % len(KINDS)], i).array((2, *g.size, channels), dtype)
        assert_agree(maxima(x, g))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 32])
@pytest.mark.parametrize("dtype", AVG_DTYPES, ids=short_name)
def test_averages(dtype: mx.Dtype, channels: int):
    options = [{}, {"count_include_pad": False}, {"divisor_override": -3}]
    for i, g in geometries(dtype, channels):
        x = Data("normal", i).array((2, *g.size, channels), dtype)
        dy = Data("normal", ~i & 7).array((2, *g.output, channels), dtype)
        assert_averages_agree(x, dy, g, options[i % len(options)])


@pytest.mark.parametrize("dtype", AVG_DTYPES, ids=short_name)
def test_averages_of_exact_sums_agree_to_the_bit(dtype: mx.Dtype):
    for (i, g), override in product(enumerate(GEOMETRIES.values()), (None, 4, -1)):
        x = Data("ties", i).array((2, *g.size, 5), dtype)
        assert_agree(lambda: [avg_pool(x, g, divisor_override=override)])  # noqa: B023


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 32])
@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=short_name)
def test_averages_of_integers(dtype: mx.Dtype, channels: int):
    options = [{}, {"count_include_pad": False}, {"divisor_override": -3}]
    for i, g in geometries(dtype, channels, 6):
        x = Data("ties", i).array((2, *g.size, channels), dtype)
        assert_agree(lambda: [avg_pool(x, g, **options[i % len(options)])])  # noqa: B023


@pytest.mark.parametrize("dtype", SUM_DTYPES, ids=short_name)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 16, 17, 32])
def test_sums(dtype: mx.Dtype, channels: int):
    for i, g in geometries(dtype, channels):
        # So large that neither float32 nor, of int64, float64 could sum them.
        large = 2 ** (8 * dtype.size - 8) + 1
        x = Data("ties", i).array((2, *g.size, channels), dtype) * large
        assert_agree(lambda: [sum_pool(x, g)])  # noqa: B023


@given(case=cases())
def test_maxima_of_any_geometry(case: Case):
    for dtype in (mx.float32, mx.bfloat16, mx.uint8):
        assert_agree(maxima(case.input(dtype), case.geometry))


@given(case=cases(FINITE), options=average_options())
def test_averages_of_any_geometry(case: Case, options: dict):
    for dtype in (mx.float32, mx.float16):
        x, dy = case.input(dtype), case.more(case.output_shape, dtype)
        assert_averages_agree(x, dy, case.geometry, options)


def widths(*dtypes: mx.Dtype) -> list[int]:
    """The vector widths that a plan chooses from for elements of these types."""
    largest = 16 // max(dtype.size for dtype in dtypes)
    return [width for width in (1, 2, 4, 8, 16) if width <= largest]


@dataclass(frozen=True)
class Variant:
    """A choice that plans make, and a small geometry that makes them."""

    dtype: mx.Dtype
    width: int
    tiled: bool
    index: str

    @property
    def geometry(self) -> Geometry:
        size = (9 if self.tiled else 5, 9 if self.tiled else 1)
        if self.index == "int":
            return geometry(size, 3, (2, 1), ((1, 0), (1, 1)))
        return geometry(size, 3, (2**30, 1), ((HUGE, 0), (1, 1)))

    def array(self, shape: tuple[int, ...]) -> mx.array:
        """An odd number of vectors of channels, too many for a run if narrow."""
        vectors = 3 if self.width * self.dtype.size == 16 else 41
        return Data("ties", 0).array((3, *shape, vectors * self.width), self.dtype)

    def over_windows(self, name: str, *types: str) -> str:
        # Only rows with 32-bit indices overlap.
        overlap = self.tiled and self.index == "int"
        rows = 1 if not overlap else 2 if self.width >= 8 else 4
        columns = 2 if overlap else 4 if self.tiled else 1
        return self._kernel(name, *types, self.index, self.width, rows, columns)

    def over_inputs(self, name: str, *types: str) -> str:
        columns = 4 if self.tiled else 1
        return self._kernel(name, *types, self.index, self.width, columns)

    @staticmethod
    def _kernel(name: str, *arguments: object) -> str:
        return f"{name}<{', '.join(map(str, arguments))}>"


# Every type of elements with 32-bit indices; 64-bit ones of three sizes.
VARIANTS = [
    Variant(dtype, width, tiled, index)
    for index, dtypes in {
        "int": ORDERED,
        "long": (mx.uint8, mx.float16, mx.bfloat16, mx.float32),
    }.items()
    for dtype in dtypes
    for width, tiled in product(widths(dtype), (False, True))
]


def variant_name(variant: object) -> str:
    return "-".join(map(str, variant.__dict__.values())).removeprefix("mlx.core.")


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_name)
def test_every_variant_of_max_pool(variant: Variant):
    g = variant.geometry
    seen = assert_agree(maxima(variant.array(g.size), g))
    name, word = METAL_NAMES[variant.dtype], WORDS[variant.dtype.size]
    assert set(seen) == {
        variant.over_windows("max_pool", name, "uchar"),
        variant.over_inputs("max_pool_scatter", name, "uchar"),
        f"max_pool_gather<{word}, uchar, {variant.index}>",
        f"max_pool_gather<uint, uchar, {variant.index}>",
    }


@pytest.mark.parametrize(
    "variant", [v for v in VARIANTS if v.dtype in FLOATS], ids=variant_name
)
def test_every_variant_of_avg_pool(variant: Variant):
    g = variant.geometry
    x, dy = variant.array(g.size), variant.array(g.output)
    assert_averages_agree(x, dy, g, {})
    _, seen = on_shaders(averages(x, dy, g, {}), "forward")
    name = METAL_NAMES[variant.dtype]
    assert set(seen) == {
        variant.over_windows("avg_pool", name, name),
        variant.over_inputs("avg_pool_grad", name),
    }


@pytest.mark.parametrize(
    "variant",
    [
        Variant(dtype, width, tiled, index)
        for dtype, index in product(INTEGER_DTYPES, ("int", "long"))
        for width, tiled in product(widths(dtype, mx.float32), (False, True))
    ],
    ids=variant_name,
)
def test_every_variant_of_averages_of_integers(variant: Variant):
    x = variant.array(variant.geometry.size)
    seen = assert_agree(lambda: [avg_pool(x, variant.geometry)])
    name = METAL_NAMES[variant.dtype]
    assert seen == [variant.over_windows("avg_pool", name, "float")]


@pytest.mark.parametrize(
    "variant",
    [
        Variant(dtype, width, tiled, index)
        for dtype, index in product(SUM_DTYPES, ("int", "long"))
        for width, tiled in product(widths(dtype), (False, True))
    ],
    ids=variant_name,
)
def test_every_variant_of_sums(variant: Variant):
    x = variant.array(variant.geometry.size)
    seen = assert_agree(lambda: [sum_pool(x, variant.geometry)])
    name = METAL_NAMES[variant.dtype]
    assert seen == [variant.over_windows("avg_pool", name, name)]


# More taps than an offset of the next smaller type can number, mostly padding.
WIDE_WINDOWS = {"ushort": (300, 150), "uint": (70000, 35000)}


@pytest.mark.parametrize("offset", WIDE_WINDOWS)
@pytest.mark.parametrize("index", ["int", "long"])
@pytest.mark.parametrize("channels", [43, 46, 12])
def test_wider_offsets(offset: str, index: str, channels: int):
    kernel, padding = WIDE_WINDOWS[offset]
    rows = (1, 0) if index == "int" else (2**30, HUGE)
    g = geometry((4, 4), (3, kernel), (rows[0], 1), ((rows[1], 2), (padding,) * 2))
    x = Data("nan", channels).array((2, *g.size, channels), mx.float32)
    width = channels & -channels
    assert set(assert_agree(maxima(x, g))) == {
        f"max_pool<float, {offset}, {index}, {width}, 1, 1>",
        f"max_pool<float, uchar, {index}, {width}, 1, 1>",
        f"max_pool_scatter<float, {offset}, {index}, {width}, 4>",
        f"max_pool_gather<uint, {offset}, {index}>",
    }


@pytest.mark.parametrize("start", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.uint8], ids=short_name)
def test_inputs_that_start_anywhere(dtype: mx.Dtype, start: int):
    """A view starts at any element; vectors at a quarter of their size."""
    g = GEOMETRIES["2d"]
    shape = (2, *g.size, 16)
    data = Data("ties", start).array((math.prod(shape) + start,), dtype)
    x = data[start:].reshape(shape)
    width = min(4 * (start & -start), 16 // dtype.size)
    (kernel,) = assert_agree(lambda: [max_pool(x, g)])
    assert f", int, {width}, " in kernel


def test_planes_count_from_the_first_of_a_launch(monkeypatch: pytest.MonkeyPatch):
    """No test has the 2^31 rows that take a second launch: make one of the first."""
    counted = "uint(p.first_plane) + plane_of_launch"
    fault = f"{counted} => uint(p.first_plane + 1) + (plane_of_launch - 1)"
    monkeypatch.setenv("MLX_POOLING_SHADER_FAULT", fault)
    g = GEOMETRIES["3d"]
    x = Data("ties", 0).array((2, *g.size, 4), mx.float32)
    assert_agree(maxima(x, g))


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("channels", [3, 48])
@pytest.mark.parametrize("name", ["1d", "2d", "2d, dilated", "3d"])
def test_elements_beyond_the_first_2_to_the_32(name: str, channels: int):
    """Whose kernels are those with 32-bit indices."""
    g = GEOMETRIES[name]
    for dtype in (mx.uint8, mx.float32):
        x = Data("ties", 0).array((2, *g.size, channels), dtype)
        assert not any("long" in kernel for kernel in assert_agree(maxima(x, g)))
    dy = Data("normal", 1).array((2, *g.output, channels), mx.float32)
    assert_averages_agree(x, dy, g, {"count_include_pad": False})


@pytest.mark.parametrize(
    "g",
    [
        geometry((8,), 2, 1, ((2**30, 0),), 2**30),
        geometry((8,), 3, 2**31 - 1, 0, 2**30, ceil_mode=True),  # 2**31 + 1 long
    ],
    ids=["small windows", "windows longer than 32 bits can tell"],
)
def test_a_huge_dilation(g: Geometry):
    """Taps of a window are apart by more than the input: one is valid."""
    assert_agree(maxima(Data("ties", 0).array((1, *g.size, 4), mx.float32), g))
    assert_agree(exact_averages(g, 4, mx.float32, {}))


@pytest.mark.parametrize("shape", [(0, 7, 9, 3), (2, 7, 9, 0)])
def test_empty_arrays_launch_nothing(shape: tuple[int, ...]):
    g = GEOMETRIES["2d"]
    x, dy = mx.zeros(shape), mx.zeros((shape[0], *g.output, shape[-1]))
    assert assert_agree(maxima(x, g)) == []
    assert assert_agree(averages(x, dy, g, {})) == []
