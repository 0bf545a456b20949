"""Windows that are not visited one by one and tap by tap, since they are large, overlap
a lot, or are so many of few channels, against the reference; and that results do not
depend on how the work is divided."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
import reference
from metal.shader_host import RUNS_SHADERS
from reference import Geometry
from strategies import Case, Data
from support import (
    FLOATS,
    NDIMS,
    absolute,
    assert_identical,
    assert_rounded,
    assert_same,
    avg_pool,
    exact,
    fixed,
    geometry,
    lp_op,
    max_pool,
    min_pool,
    plain,
    vjp,
)

# (size, kernel, stride, padding, dilation)
WINDOWS = {
    "1-d 13": ((90,), 13, 1, 6, 1),
    "1-d 31": ((90,), 31, 1, 15, 1),
    "1-d 31, lopsided": ((67,), 31, 1, ((29, 3),), 1),
    "1-d as large as the input": ((40,), 40, 1, 20, 1),
    "1-d larger than the input": ((9,), 31, 1, 15, 1),
    "1-d 13/3": ((70,), 13, 3, 6, 1),
    "1-d 25/2": ((70,), 25, 2, 12, 1),
    "1-d 9 dilated": ((60,), 9, 1, 8, 2),
    "1-d 9/2 dilated": ((60,), 9, 2, 8, 3),
    "1-d 3 dilated, padded": ((77,), 3, 1, 4, 4),
    "1-d bands": ((1500,), 7, 1, 3, 1),
    "1-d bands in the padding": ((400,), 8, 1, 400, 1),
    "1-d 31/5 in bands": ((1001,), 31, 5, 15, 1),
    "1-d 24/5 in bands, dilated": ((1002,), 24, 5, 7, 2),
    "1-d 3 in parts": ((1001,), 3, 1, 1, 1),
    "1-d 3/2 in parts": ((1001,), 3, 2, 0, 1),
    "1-d 3/2 in padded parts": ((1001,), 3, 2, 1, 1),
    "1-d 3/2 beyond the input": ((7,), 3, 2, ((3, 5),), 1),
    "1-d 5, of one input": ((1,), 5, 1, 2, 1),
    "2-d 2": ((9, 10), 2, 1, 0, 1),
    "2-d 3": ((11, 12), 3, 1, 1, 1),
    "2-d 4": ((10, 9), 4, 1, ((1, 2), (2, 1)), 1),
    "2-d 5": ((11, 12), 5, 1, 2, 1),
    # Of large windows, blocks may be one longer or shorter than the window.
    "2-d 9 in rows of a longer block": ((18, 20), 9, 1, 4, 1),
    "2-d 9 in rows of a shorter block": ((29, 27), 9, 1, 4, 1),
    "2-d 13": ((20, 18), 13, 1, 6, 1),
    "2-d 31": ((36, 35), 31, 1, 3, 1),
    "2-d 31 in bands": ((64, 9), (31, 3), 1, ((15, 15), (0, 2)), 1),
    "2-d 17 in bands of less": ((37, 9), (17, 2), 1, ((8, 9), (0, 1)), 1),
    "2-d 13/2": ((21, 24), 13, 2, 6, 1),
    "2-d tall": ((24, 9), (13, 1), 1, (6, 0), 1),
    "2-d wide": ((9, 24), (1, 13), 1, (0, 6), 1),
    "2-d 7 dilated": ((20, 21), 7, 1, 6, 2),
    "3-d 3": ((6, 7, 8), 3, 1, 1, 1),
    "3-d 3 in bands of rows": ((3, 11, 60), 3, 1, 1, 1),
    "3-d 3, odd": ((7, 5, 9), 3, 1, ((2, 0), (0, 2), (1, 2)), 1),
    "3-d 3 in long rows": ((3, 3, 450), 3, 1, 1, 1),
    "3-d 3, thin": ((1, 2, 3), 3, 1, 1, 1),
    # As many taps as may be bytes in columns, nearly, and more.
    "2-d 12x5": ((15, 9), (12, 5), 1, (6, 2), 1),
    "2-d 13x5": ((15, 9), (13, 5), 1, (6, 2), 1),
    "3-d 9": ((11, 10, 12), 9, 1, 2, 1),
    "3-d 13": ((15, 14, 13), 13, 1, 1, 1),
    "3-d 11 in stages": ((12, 7, 8), (11, 5, 7), 1, (5, 2, 3), 1),
    "3-d 31": ((33, 4, 32), (31, 2, 31), 1, (1, 0, 1), 1),
    "3-d deep": ((17, 4, 3), (9, 1, 1), 1, (4, 0, 0), 1),
    "3-d middle": ((3, 17, 4), (1, 9, 1), 1, (0, 4, 0), 1),
    "3-d without the middle": ((9, 3, 9), (5, 1, 5), 1, (2, 0, 2), 1),
    "3-d 5/2": ((9, 10, 11), 5, 2, 2, 1),
    "1-d 2/2": ((101,), 2, 2, 0, 1),
    "1-d 3/2": ((90,), 3, 2, 1, 1),
    "1-d 3/4 dilated": ((97,), 3, 4, 2, 2),
    "1-d 2/3": ((65,), 2, 3, 0, 1),
    "1-d 2/3 dilated": ((65,), 2, 3, 1, 2),
    "1-d 2/2 dilated": ((70,), 2, 2, 2, 3),
    "2-d 3 dilated, padded": ((21, 44), 3, 1, 2, 2),
    "2-d 7/2, one axis dilated, padded": ((19, 40), 7, 2, 3, (3, 1)),
    "2-d 7/2, the other axis dilated, padded": ((19, 40), 7, 2, 3, (1, 3)),
    "2-d in rows without a tap": ((1, 7), (2, 11), 1, (1, 5), (2, 1)),
    "2-d 1x7/4x2, most rows in no window": ((19, 45), (1, 7), (4, 2), (0, 3), 1),
    "2-d 2/2": ((8, 70), 2, 2, 0, 1),
    "2-d 2/2 in short rows": ((8, 28), 2, 2, 0, 1),
    "2-d 2/2 in short rows, some in no window": ((9, 29), 2, 2, 0, 1),
    "2-d 2/3 in short rows, padded": ((17, 24), 2, 3, (1, 0), 1),
    "2-d 2/3 in long rows": ((5, 601), 2, 3, 0, 1),
    "2-d 2/2, lopsided": ((9, 51), 2, 2, ((1, 0), (0, 1)), 1),
    "2-d 4/4": ((13, 18), 4, 4, (1, 0), 1),
    "2-d 4/2": ((11, 14), 4, 2, (1, 2), 1),
    "2-d 7/7": ((15, 30), 7, 7, 1, 1),
    "2-d 3/2": ((9, 68), 3, 2, 1, 1),
    "2-d 3/2, some in no window": ((10, 8), 3, 2, 0, 1),
    "2-d 3/2, one axis dilated": ((20, 12), 3, 2, 1, (2, 1)),
    "2-d 3/3 in rows of one": ((9, 4), 3, 3, 1, 1),
    "2-d gaps before the input": ((16, 3), (5, 2), (1, 3), ((2, 2), (4, 50)), (1, 5)),
    "1-d 3/2 dilated, out of order at the end": ((20,), 3, 2, ((8, 5),), 4),
    "2-d 4/4 dilated, out of order within": ((60, 9), (4, 2), (4, 1), (21, 0), (6, 1)),
    "2-d 1/2": ((5, 67), 1, 2, 0, 1),
    "1-d 40/20": ((190,), 40, 20, 9, 1),
    "1-d 70/70": ((285,), 70, 71, 0, 1),
    "1-d 150/150": ((301,), 150, 150, 0, 1),
    "1-d 33/60, most in no window": ((190,), 33, 60, 4, 1),
    "1-d 33/32, beyond the input": ((97,), 33, 32, ((50, 40),), 1),
    "2-d 3x20/2x9": ((8, 44), (3, 20), (2, 9), (1, 8), 1),
    "2-d as large as the input": ((9, 50), (9, 50), 1, 0, 1),
    "2-d 20/20, padded": ((50, 61), 20, 20, (7, 9), 1),
    "2-d 33/33": ((34, 70), 33, 33, 0, 1),
    "2-d 5x40/6x41, some in no window": ((13, 100), (5, 40), (6, 41), 0, 1),
    "2-d 3x20/5x20, the other axis dilated": ((17, 90), (3, 20), (5, 20), 0, (2, 1)),
    "2-d 20x1/20x1": ((90, 5), (20, 1), (20, 1), 0, 1),
    "2-d 3x9/3x19, one axis dilated": ((9, 60), (3, 9), (3, 19), 0, (1, 2)),
    "3-d 2x3x18/9": ((4, 5, 40), (2, 3, 18), (2, 2, 9), (1, 0, 7), 1),
    "3-d 2/2": ((4, 6, 38), 2, 2, 0, 1),
    "3-d 2/2 in short rows": ((4, 6, 28), 2, 2, 0, 1),
    "3-d 3/2": ((5, 6, 9), 3, 2, 1, 1),
    "3-d 3/2, two axes dilated, padded": ((6, 13, 14), 3, 2, 2, (1, 3, 2)),
    "3-d 1x2x7/3x4x2": ((8, 13, 17), (1, 2, 7), (3, 4, 2), (0, 1, 3), 1),
}
EACH_WINDOW = pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
# Every kind of data, with less channels than any vector holds, with as few vectors as
# one visit sees to, and with some of every vector and a rest, or several vectors.
KINDS = {
    "ties": (1, 20, 70),
    "nan": (2, 33, 150),
    "infinite": (3, 16, 70),
    "low": (5, 64, 128),
    "normal": (12, 8, 4),
}


def cases(window: tuple) -> list[Case]:
    return [
        Case(geometry(*window), 2, channels[i], Data(kind, i))
        for i in range(3)
        for kind, channels in KINDS.items()
    ]


def side_by_side(arrays: list[np.ndarray]) -> np.ndarray:
    """Arrays that differ in channels only, for the reference to go through once."""
    return np.concatenate(arrays, axis=-1)


def apart(array: np.ndarray, like: list[np.ndarray]) -> list[np.ndarray]:
    ends = np.cumsum([a.shape[-1] for a in like])
    return np.split(array, ends[:-1], axis=-1)


Found = list[tuple[np.ndarray, np.ndarray]]  # values and indices


def compared(x: mx.array) -> np.ndarray:
    """For the reference, which takes longer over float64."""
    return exact(x).astype(np.float32) if x.dtype in FLOATS else exact(x)


def winners(inputs: list[np.ndarray], g: Geometry) -> Found:
    """Of each."""
    found = reference.max_pool(side_by_side(inputs), g)
    values, indices = apart(found.values, inputs), apart(found.indices, inputs)
    return list(zip(values, indices, strict=True))


def maxima(inputs: list[mx.array], g: Geometry) -> Found:
    return winners(list(map(compared, inputs)), g)


def opposite(x: np.ndarray) -> np.ndarray:
    """In which what was smallest is largest."""
    return x * -1.0 if np.issubdtype(x.dtype, np.floating) else ~x


def minima(inputs: list[mx.array], g: Geometry) -> Found:
    found = winners([opposite(compared(x)) for x in inputs], g)
    return [(opposite(values), indices) for values, indices in found]


def check_winners(
    pool: Callable, inputs: list[mx.array], g: Geometry, expected: Found
) -> None:
    for x, (values, indices) in zip(inputs, expected, strict=True):
        assert_same(pool(x, g), values)
        found = pool(x, g, return_indices=True)
        assert_same(found[0], values)
        assert_same(found[1], indices)


@EACH_WINDOW
def test_maximum_its_index_and_its_gradient(window):
    g, some = geometry(*window), cases(window)
    inputs = [case.input() for case in some]
    expected = maxima(inputs, g)
    check_winners(max_pool, inputs, g, expected)
    check_gradients_of_maxima(some, inputs, expected)


@EACH_WINDOW
@pytest.mark.parametrize(
    "dtype", [mx.int8, mx.uint8, mx.uint16, mx.int64, mx.uint64, mx.bfloat16], ids=str
)
def test_maximum_and_minimum_of_other_dtypes(window, dtype: mx.Dtype):
    g = geometry(*window)
    kind = "extremes" if dtype != mx.bfloat16 else "nan"
    inputs = [
        Data(kind, channels).array((1, *g.size, channels), dtype)
        for channels in (1, 3, 4, 8, 32, 70)
    ]
    check_winners(max_pool, inputs, g, maxima(inputs, g))
    check_winners(min_pool, inputs, g, minima(inputs, g))


@EACH_WINDOW
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_maximum_and_minimum_of_any_half_floats(window, dtype: mx.Dtype):
    """NaNs and zeros of either sign among them, and subnormal ones."""
    g = geometry(*window)
    rng = np.random.default_rng(0)
    inputs = [
        mx.array(rng.integers(2**16, size=(1, *g.size, channels), dtype=np.uint16))
        for channels in (1, 3, 6, 12, 20, 33, 70)
    ]
    infinity = int(mx.array(mx.inf, dtype).view(mx.uint16).item())
    of_one_sign = mx.minimum(inputs[-1] & 0x7FFF, infinity)
    inputs += [of_one_sign, of_one_sign | 0x8000]
    inputs = [bits.view(dtype) for bits in inputs]
    check_winners(max_pool, inputs, g, maxima(inputs, g))
    check_winners(min_pool, inputs, g, minima(inputs, g))


# Of which several whole ones fill a vector, or the same part of each fills one.
SHORT_ROWS = {
    "1/2 of 2": ((2,), 1, 2, 0, 1),
    "2/2 of 2": ((2,), 2, 2, 0, 1),
    "2/2 of 3": ((3,), 2, 2, 0, 1),
    "3/1 of 3": ((3,), 3, 1, 1, 1),
    "5/1 of 5": ((5,), 5, 1, 2, 1),
    "3/1 of 5, beyond its end": ((5,), 3, 1, ((0, 2),), 1),
    "3/1 of 7, dilated": ((7,), 3, 1, 2, 2),
    "4/3 of 9": ((9,), 4, 3, ((3, 1),), 1),
    "3/1 of 17": ((17,), 3, 1, 1, 1),
    "5/1 of 18, beyond its end": ((18,), 5, 1, ((0, 4),), 1),
    "5/1 of 18, beyond its beginning": ((18,), 5, 1, ((4, 0),), 1),
    "5/1 of 20, beyond its beginning": ((20,), 5, 1, ((4, 0),), 1),
    "2/1 of 33": ((33,), 2, 1, 0, 1),
    "3/2 of 41": ((41,), 3, 2, 1, 1),
    "3/4 of 50": ((50,), 3, 4, 1, 1),
    "5/1 of 40, beyond its beginning": ((40,), 5, 1, ((4, 0),), 1),
    "3/1 of 131": ((131,), 3, 1, 1, 1),
    "5/1 of 88, beyond its end": ((88,), 5, 1, ((0, 4),), 1),
    "2/1 of 141": ((141,), 2, 1, 0, 1),
    "2/1 of 261": ((261,), 2, 1, 0, 1),
    "20/20 of 20": ((20,), 20, 20, 0, 1),
    "32/33 of 70": ((70,), 32, 33, 1, 1),
    "2/2 of 2x2": ((2, 2), 2, 2, 0, 1),
    "3/1 of 9x8": ((9, 8), 3, 1, 1, 1),
    "3/1 of 8x21": ((8, 21), 3, 1, ((0, 2), (2, 0)), 1),
    "2/2 of 7x6, some in no window": ((7, 6), 2, (3, 2), 0, 1),
}
EACH_SHORT_ROW = pytest.mark.parametrize("window", SHORT_ROWS.values(), ids=SHORT_ROWS)


def many_rows(window: tuple, kinds: tuple[str, ...]) -> list[Case]:
    g = geometry(*window)
    few = (1, 2, 3, 5)
    return [Case(g, 37, channels, Data(kind, 0)) for kind in kinds for channels in few]


@EACH_SHORT_ROW
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.uint8, mx.int64], ids=str)
def test_maximum_and_its_gradient_of_many_short_rows(window, dtype: mx.Dtype):
    is_float = mx.issubdtype(dtype, mx.floating)
    cases = many_rows(window, ("ties", "nan") if is_float else ("extremes",))
    inputs = [case.input(dtype) for case in cases]
    g = geometry(*window)
    expected = maxima(inputs, g)
    check_winners(max_pool, inputs, g, expected)
    if dtype == mx.float32:
        check_gradients_of_maxima(cases, inputs, expected)


@pytest.mark.parametrize(
    "dtype", [mx.bool_, mx.uint8, mx.int16, mx.uint32, mx.int64, mx.float16], ids=str
)
@pytest.mark.parametrize(
    "name", ["1-d 70/70", "2-d 20/20, padded", "2-d as large as the input"]
)
def test_extremes_of_many_channels(name: str, dtype: mx.Dtype):
    """Of which registers hold a whole position, or one has more than they do."""
    g = geometry(*WINDOWS[name])
    kind = "nan" if dtype == mx.float16 else "extremes"
    inputs = [
        Data(kind, channels).array((1, *g.size, channels), dtype)
        for channels in (130, 200, 270, 331, 603)
    ]
    check_winners(max_pool, inputs, g, maxima(inputs, g))
    check_winners(min_pool, inputs, g, minima(inputs, g))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("channels", [130, 180, 245, 256, 300, 365, 384, 500])
@pytest.mark.parametrize(
    "name",
    ["2-d 4/4", "2-d 4/2", "2-d 7/7", "2-d 20/20, padded", "2-d as large as the input"],
)
def test_large_windows_of_many_channels(name: str, channels: int, dtype: mx.Dtype):
    """Of any number of vectors, and a rest."""
    g = geometry(*WINDOWS[name])
    x = Data("nan", channels).array((1, *g.size, channels), dtype)
    check_winners(max_pool, [x], g, maxima([x], g))
    x = Data("normal", channels).array((1, *g.size, channels), dtype)
    expected = reference.avg_pool(exact(x), g)
    magnitude = reference.avg_pool(absolute(exact(x)), g)
    assert_rounded(avg_pool(x, g), expected, magnitude, int(np.prod(g.kernel)))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.uint8], ids=str)
@pytest.mark.parametrize(
    "window", [((3, 4), 5, 1, 2), ((2, 3, 4), 3, 1, 1)], ids=["5 x 5", "3 x 3 x 3"]
)
def test_columns_of_many_channels(window, dtype: mx.Dtype):
    """Of which the first level of cache has no room for a few columns."""
    g = geometry(*window)
    for channels in (1100, 4200):
        for kind in ("extremes",) if dtype == mx.uint8 else KINDS:
            x = Data(kind, 0).array((1, *g.size, channels), dtype)
            check_winners(max_pool, [x], g, maxima([x], g))
            if kind == "normal":
                expected = reference.avg_pool(exact(x), g)
                magnitude = reference.avg_pool(absolute(exact(x)), g)
                taps = int(np.prod(g.kernel))
                assert_rounded(avg_pool(x, g), expected, magnitude, taps)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("channels", [600, 1100])
def test_gradient_of_runs_of_many_channels(channels: int, dtype: mx.Dtype):
    """So many that a few windows, or one, are all that is listed at a time."""
    g = geometry((6, 21), (3, 9), 1, (1, 4))
    case = Case(g, 2, channels, Data("ties", 1))
    x, dy = case.input(dtype), case.more(case.output_shape, dtype)
    indices = reference.max_pool(exact(x), g).indices
    dx = vjp(lambda x: max_pool(x, g), x, dy)
    expected = reference.scatter(exact(dy), indices, g.size)
    magnitude = reference.scatter(np.abs(exact(dy)), indices, g.size)
    assert_rounded(dx, expected, magnitude, case.taps)


def check_gradients_of_maxima(
    cases: list[Case], inputs: list[mx.array], winners: Found
) -> None:
    for case, x, (_, indices) in zip(cases, inputs, winners, strict=True):
        size = case.geometry.size
        dy = case.more(case.output_shape)
        dx = vjp(fixed(max_pool, case.geometry), x, dy)
        expected = reference.scatter(exact(dy), indices, size)
        magnitude = reference.scatter(np.abs(exact(dy)), indices, size)
        assert_rounded(dx, expected, magnitude, case.taps)


@pytest.mark.parametrize(
    "dtype",
    [mx.bool_, mx.uint8, mx.int16, mx.uint32, mx.int64, mx.float16, mx.bfloat16],
    ids=str,
)
@pytest.mark.parametrize(
    "name", ["1-d 9/2 dilated", "2-d 3", "2-d 3/2", "3-d 3, thin", "3-d 3/2"]
)
def test_gradient_of_the_maximum_of_other_dtypes(name: str, dtype: mx.Dtype):
    """Of channels that leave some of any vector over."""
    g = geometry(*WINDOWS[name])
    for channels in (9, 40, 107):
        x = Data("ties", channels).array((1, *g.size, channels), dtype)
        dy = Data("ties", 0).array((1, *g.output, channels), dtype)
        dx = vjp(lambda x: max_pool(x, g), x, dy)
        indices = reference.max_pool(exact(x), g).indices
        assert_same(dx, reference.scatter(exact(dy), indices, g.size))


@pytest.mark.parametrize(
    "window",
    [((70_000,), 66_000, 500, 0), ((260, 270), 257, 1, 0), ((43, 42, 44), 41, 1, 1)],
    ids=["1-d", "2-d", "3-d"],
)
def test_gradient_of_more_taps_than_are_listed(window):
    g = geometry(*window)
    case = Case(g, 1, 2, Data("ties", 2))
    x, dy = case.input(), case.more(case.output_shape)
    indices = reference.max_pool(compared(x), g).indices
    dx = vjp(lambda x: max_pool(x, g), x, dy)
    expected = reference.scatter(exact(dy), indices, g.size)
    magnitude = reference.scatter(np.abs(exact(dy)), indices, g.size)
    assert_rounded(dx, expected, magnitude, int(np.prod(g.output)))


def test_gradient_of_windows_beside_those_without_a_tap():
    """Where no tap, as an offset of 16 bits, could pass for the next window's."""
    g = geometry((160, 3), (160, 20), 1, ((0, 0), (20, 0)), 1)
    x = mx.zeros((1, 160, 3, 16))
    x[0, 155, 0] = 1
    dy = mx.ones((1, *g.output, 16))
    dx = vjp(lambda x: max_pool(x, g), x, dy)
    indices = reference.max_pool(exact(x), g).indices
    assert_same(dx, reference.scatter(exact(dy), indices, g.size))


def check_averages(
    found: list[mx.array], terms: list[mx.array], of: Callable, taps: int
) -> None:
    """With the magnitudes of their terms, which bound the error."""
    values = list(map(exact, terms))
    values += list(map(absolute, values))
    expected = apart(of(side_by_side(values)), values)
    n = len(terms)
    for y, average, magnitude in zip(found, expected[:n], expected[n:], strict=True):
        assert_rounded(y, average, magnitude, taps)


def check_averages_and_gradients(
    g: Geometry, cases: list[Case], **options: bool
) -> None:
    some = [(case, dtype) for case in cases for dtype in (mx.float32, mx.float16)]
    inputs = [case.input(dtype) for case, dtype in some]
    cotangents = [case.more(case.output_shape, dtype) for case, dtype in some]

    def pool(x: mx.array) -> mx.array:
        return avg_pool(x, g, **options)

    averages = list(map(pool, inputs))
    gradients = [vjp(pool, x, dy) for x, dy in zip(inputs, cotangents, strict=True)]
    taps = int(np.prod(g.kernel))
    check_averages(
        averages, inputs, lambda x: reference.avg_pool(x, g, **options), taps
    )
    check_averages(
        gradients,
        cotangents,
        lambda dy: reference.avg_pool_grad(dy, g, **options),
        taps,
    )


INCLUDE_PAD = pytest.mark.parametrize("count_include_pad", [True, False])


@EACH_WINDOW
@INCLUDE_PAD
def test_average_and_its_gradient(window, count_include_pad: bool):
    some = cases(window)[::3]
    check_averages_and_gradients(
        geometry(*window), some, count_include_pad=count_include_pad
    )


@EACH_SHORT_ROW
@INCLUDE_PAD
def test_average_and_its_gradient_of_many_short_rows(window, count_include_pad: bool):
    some = many_rows(window, ("normal",))
    check_averages_and_gradients(
        geometry(*window), some, count_include_pad=count_include_pad
    )


def check_averages_of_integers(
    g: Geometry, inputs: list[mx.array], **options: bool
) -> None:
    """Of exact sums: only quotients are rounded."""
    values = list(map(exact, inputs))
    expected = reference.avg_pool(side_by_side(values), g, **options)
    averages = apart(expected.astype(np.float32), values)
    for x, average in zip(inputs, averages, strict=True):
        y = avg_pool(x, g, **options)
        assert y.dtype == mx.float32
        assert_same(y, average)


EACH_BYTE = pytest.mark.parametrize("dtype", [mx.bool_, mx.uint8, mx.int8], ids=str)


@EACH_WINDOW
@EACH_BYTE
@INCLUDE_PAD
def test_average_of_integers(window, dtype: mx.Dtype, count_include_pad: bool):
    g = geometry(*window)
    inputs = [
        Data("extremes", channels).array((2, *g.size, channels), dtype)
        for channels in (1, 2, 3, 5, 12, 20, 70, 150)
    ]
    check_averages_of_integers(g, inputs, count_include_pad=count_include_pad)


@EACH_SHORT_ROW
@EACH_BYTE
@INCLUDE_PAD
def test_average_of_integers_of_many_short_rows(
    window, dtype: mx.Dtype, count_include_pad: bool
):
    inputs = [case.input(dtype) for case in many_rows(window, ("extremes",))]
    check_averages_of_integers(
        geometry(*window), inputs, count_include_pad=count_include_pad
    )


@pytest.mark.parametrize("ceil_mode", [False, True])
@EACH_WINDOW
def test_root_of_squares(window, ceil_mode: bool):
    g = plain(geometry(*window, ceil_mode=ceil_mode))
    for channels in (1, 2, 3, 5, 12, 70):
        data = Data("nan" if channels == 2 else "normal", channels)
        x = data.array((2, *g.size, channels), mx.float32)
        expected = reference.lp_pool(exact(x), g, 2)
        with mx.stream(mx.cpu):  # which has float64
            for dtype, tolerance in ((mx.float32, 1e-5), (mx.float64, 1e-12)):
                y = lp_op(g.ndim)(x.astype(dtype), 2, g.kernel, g.stride, g.ceil_mode)
                np.testing.assert_allclose(exact(y), expected, rtol=tolerance)


@NDIMS
def test_an_infinity_or_nan_leaves_with_its_window(ndim: int):
    """A sum from which what leaves the window is subtracted would keep it."""
    size, kernel = ((60,), (30, 28), (18, 17, 16))[ndim - 1], (13, 9, 7)[ndim - 1]
    g = geometry(size, kernel, 1, kernel // 2)
    for special in (np.inf, -np.inf, np.nan):
        x = np.ones((1, *size, 5), np.float32)
        x[(0, *(s // 2 for s in size))] = special
        y = exact(avg_pool(mx.array(x), g, count_include_pad=False))
        assert np.sum(~np.isfinite(y)) == 5 * kernel**ndim
        np.testing.assert_allclose(y[np.isfinite(y)], 1, rtol=1e-6)


@NDIMS
def test_small_terms_survive_large_ones_that_have_left(ndim: int):
    size, kernel = ((60,), (30, 28), (18, 17, 16))[ndim - 1], (13, 9, 7)[ndim - 1]
    g = geometry(size, kernel, 1)
    x = np.full((1, *size, 5), 2.0**-20, np.float32)
    x[(0, *(0,) * ndim)] = 2.0**20
    y = exact(avg_pool(mx.array(x), g))
    np.testing.assert_allclose(y[(0, *(-1,) * ndim)], 2.0**-20, rtol=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 12, 20, 300])
@pytest.mark.parametrize(
    "size", [(20000,), (200, 100), (20, 10, 100), (500, 400)], ids=str
)
@pytest.mark.parametrize("outputs", [1, 2])
def test_long_sums_keep_their_precision(size, outputs: int, channels: int):
    """One chain of so many additions would be off by 2e-4."""
    g = geometry((outputs * size[0], *size[1:]), size)
    x = mx.full((1, *g.size, channels), 0.1)
    np.testing.assert_allclose(exact(avg_pool(x, g)), 0.1, rtol=4e-5)


@pytest.mark.skipif(RUNS_SHADERS, reason="of the CPU's sums in groups")
def test_long_sums_of_short_rows_of_many_channels_keep_their_precision():
    x = mx.full((1, 4000, 16, 300), 0.1)
    y = mlx_pooling.avg_pool2d(x, (4000, 8), (1, 8), stream=mx.cpu)
    np.testing.assert_allclose(exact(y), 0.1, rtol=4e-6)


def test_a_volume_too_small_to_divide():
    g = geometry((9, 10, 11), 9, 1, 4)
    for kind in ("nan", "normal"):
        case = Case(g, 1, 40, Data(kind, 0))
        x, dy = case.input(), case.more(case.output_shape)
        assert_same(max_pool(x, g), reference.max_pool(exact(x), g).values)
        expected = reference.avg_pool(exact(x), g)
        magnitude = reference.avg_pool(absolute(exact(x)), g)
        assert_rounded(avg_pool(x, g), expected, magnitude, case.taps)
        expected = reference.avg_pool_grad(exact(dy), g)
        magnitude = reference.avg_pool_grad(absolute(exact(dy)), g)
        dx = vjp(lambda x: avg_pool(x, g), x, dy)
        assert_rounded(dx, expected, magnitude, case.taps)


DIGESTED = {
    "1-d": ((3000, 24), 31, 1, 15),
    "1-d 31/5 of three channels": ((3000, 3), 31, 5, 15),
    "2-d": ((40, 50, 33), 13, 1, 6),
    "2-d 3": ((90, 90, 64), 3, 1, 1),
    "2-d 3/2": ((91, 90, 64), 3, 2, 1),
    "2-d 5 of many channels": ((6, 7, 2048), 5, 1, 2),
    "3-d": ((12, 20, 21, 40), 5, 1, 2),
    "3-d 3": ((6, 20, 21, 40), 3, 1, 1),
    "2-d 13 in bands of long rows": ((64, 120, 64), 13, 1, 6),
    "3-d 11 in stages": ((12, 14, 15, 24), 11, 1, 5),
    "3-d of few columns": ((24, 48, 64, 1), (13, 16, 64), (1, 16, 64), (6, 0, 0)),
    "global": ((56, 56, 96), 56, 56, 0),
    "global, of more channels": ((56, 56, 256), 56, 56, 0),
    "global, of 12 vectors": ((20, 30, 192), (20, 30), 1, 0),
    "global, of a rest besides what is held at once": ((20, 30, 331), (20, 30), 1, 0),
    "global, of many channels": ((14, 14, 640), 14, 14, 0),
    "global, of a small input of many channels": ((7, 9, 400), (7, 9), 1, 0),
    "global, of vectors and a rest": ((20, 30, 603), (20, 30), 1, 0),
    "7/7": ((50, 50, 64), 7, 7, 0),
    "4/4 of many channels": ((30, 30, 331), 4, 4, 0),
    "2/2": ((90, 90, 64), 2, 2, 0),
    "2/2 of three channels": ((200, 301, 3), 2, 2, 0),
    "3/2 of one channel": ((200, 301, 1), 3, 2, 1),
    # The gap behind a row's last input is the next row's first input.
    "1/2 of four channels": ((1024, 67, 4), 1, (1, 2), 0),
}


def with_lone_nans(x: mx.array) -> mx.array:
    """One in the last channel, of another element of the batch in the first."""
    values = np.array(x)
    values[1].reshape(-1, x.shape[-1])[5, -1] = np.nan
    values[2].reshape(-1, x.shape[-1])[7, 0] = np.nan
    return mx.array(values)


def digest() -> str:
    """Of values, indices and gradients, bit by bit."""
    found = hashlib.sha256()
    for shape, *window in DIGESTED.values():
        for dtype in (mx.float32, mx.float16):
            x = mx.random.normal((3, *shape), key=mx.random.key(0)).astype(dtype)
            for name in ("max", "avg"):
                pool = getattr(mlx_pooling, f"{name}_pool{len(shape) - 1}d")
                y = pool(x, *window)
                extra = []
                if name == "max":
                    for elements in (x, with_lone_nans(x)):
                        extra += pool(elements, *window, return_indices=True)
                dy = mx.random.normal(y.shape, key=mx.random.key(1)).astype(dtype)
                dx = vjp(fixed(pool, *window), x, dy)
                for a in (y, dx, *extra):
                    found.update(np.array(a.view(mx.uint8)).tobytes())
    return found.hexdigest()


@pytest.mark.skipif(RUNS_SHADERS, reason="of the CPU kernels' threads and stores")
def test_results_do_not_depend_on_threads_or_caches():
    digests = {
        subprocess.run(
            [sys.executable, __file__],
            env={
                **os.environ,
                "MLX_POOLING_NUM_THREADS": threads,
                "MLX_POOLING_CACHE_BYTES": cache,
            },
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for threads, cache in (("1", "0"), ("2", "1"), ("4", "1"), ("7", "1"))
    }
    assert len(digests) == 1


@pytest.mark.skipif(RUNS_SHADERS, reason="of the CPU's memory")
@pytest.mark.parametrize("dtype", [mx.float32, mx.uint8])
@pytest.mark.parametrize("size", [2, 9, 150])
def test_results_begin_where_a_cache_line_does(size: int, dtype: mx.Dtype):
    x = mx.ones((1, size, size, 7), dtype)
    pooled, indices = mlx_pooling.max_pool2d(x, 2, return_indices=True)
    unpooled = mlx_pooling.max_unpool2d(pooled, indices, 2, output_size=x.shape[1:3])
    for a in (pooled, unpooled):
        assert np.array(a, copy=False).ctypes.data % 64 == 0


def max_indices(x: mx.array, *window, **where) -> mx.array:
    _, indices = mlx_pooling.max_pool2d(x, *window, return_indices=True, **where)
    return indices


@pytest.mark.skipif(RUNS_SHADERS, reason="of the CPU's memory")
@pytest.mark.parametrize("channels", [144, 256, 320, 390])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.uint8])
def test_results_do_not_depend_on_the_batch(dtype: mx.Dtype, channels: int):
    """Of which that of a large window is read otherwise if it is large, too."""
    x = mx.random.uniform(0, 256, (64, 9, 23, channels), key=mx.random.key(0))
    x = x.astype(dtype)
    for pool in (mlx_pooling.avg_pool2d, mlx_pooling.max_pool2d, max_indices):
        of_all = pool(x, (9, 23), stream=mx.cpu)
        assert_identical(of_all[5:6], pool(x[5:6], (9, 23), stream=mx.cpu))


@pytest.mark.skipif(RUNS_SHADERS, reason="of the CPU's memory")
@pytest.mark.parametrize("batch", [8, 64])
@pytest.mark.parametrize("channels", [640, 656])
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_results_do_not_depend_on_where_an_input_begins(
    name: str, channels: int, batch: int
):
    """In a line of the cache: so many channels are read as if it began with one."""
    pool = getattr(mlx_pooling, name)
    shape = (batch, 5, 7, channels)
    x = mx.random.normal((int(np.prod(shape)),), key=mx.random.key(0))
    expected = pool(x.reshape(shape), (5, 7))
    begins = set()
    for elements in range(16):
        view = mx.concatenate([mx.zeros(elements), x])[elements:].reshape(shape)
        assert mx.array_equal(pool(view, (5, 7)), expected)
        begins.add(np.array(view, copy=False).ctypes.data % 64)
    assert len(begins) >= 4


@pytest.mark.parametrize("channels", [1, 3, 40])
def test_windows_that_all_lie_beyond_the_input(channels: int):
    """So many that work is divided between them alone."""
    x = mx.ones((1, 5, channels))
    options = {"kernel_size": 3, "stride": 1, "padding": ((0, 300_000),)}
    average = np.array(mlx_pooling.avg_pool1d(x, **options))
    maximum = np.array(mlx_pooling.max_pool1d(x, **options))
    assert np.all(average[:, :3] == 1) and np.all(average[:, 5:] == 0)
    assert np.all(maximum[:, :5] == 1) and np.all(maximum[:, 5:] == -np.inf)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    print(digest())
