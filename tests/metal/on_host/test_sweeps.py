"""Large windows are taken apart into passes over one axis each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx
import mlx_pooling as mp
import numpy as np
import pytest
from agreement import (
    agreed,
    assert_agree,
    exact_averages,
    kinds,
    maxima,
    on_shaders,
    tolerance,
)
from strategies import Data
from support import FLOATS, exact, geometry, sum_pool

HUGE = 2**31 - 1
DTYPES = (mx.bool_, mx.uint8, mx.int16, mx.int64, *FLOATS)
AVERAGED = (*FLOATS, mx.complex64)
MAXIMA = ((1, "ties"), (3, "nan"), (4, "infinite"), (8, "low"), (2, "extremes"))
AVERAGES = (
    (1, {}),
    (3, {"count_include_pad": False}),
    (4, {"divisor_override": -3}),
    (8, {"count_include_pad": False}),
)

GEOMETRIES = {
    "1d": geometry((41,), 31, 1, 15),
    "2d": geometry((14, 17), 13, 1, 6),
    "2d, uneven": geometry((14, 19), (9, 15), (1, 2), ((0, 4), (7, 1))),
    "2d, overhang": geometry((41, 30), (25, 14), (3, 1), (2, 0), ceil_mode=True),
    "2d, one axis": geometry((13, 3), (11, 1), 1, (5, 0)),
    # As many columns as inputs, but others.
    "2d, apart": geometry((41, 3), (31, 1), (1, 2), ((15, 15), (1, 2))),
    "2d, dilated": geometry((24, 17), (7, 9), 1, (0, 4), (3, 1)),
    "2d, only padding": geometry((9, 10), 9, 1, 13),
    "3d": geometry((6, 9, 8), (5, 7, 5), 1, (2, 3, 2)),
    "64-bit": geometry(
        *((6, 9, 33), (3, 5, 31), 1, ((HUGE - 9, 0), (2, 2), (9, 9))),
        (2**30 - 3, 1, 1),
    ),
}


def some(
    cases: Sequence[tuple], name: str, dtypes: Sequence[mx.Dtype], dtype: mx.Dtype
) -> list[tuple]:
    """Two of them: each geometry meets each, and each type of elements does."""
    first = list(GEOMETRIES).index(name) + dtypes.index(dtype)
    return [cases[(first + step) % len(cases)] for step in (0, 2)]


# Of these, few elements are kept in the widest vectors: passes over the inputs would
# load too much.
DIRECT_BACK = ("1d", "2d, apart", "2d, only padding")


def takes_passes_back(name: str, dtype: mx.Dtype, channels: int) -> bool:
    return name not in DIRECT_BACK or min(channels, 16 // dtype.size) < 8


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_maxima(name: str, dtype: mx.Dtype):
    g = GEOMETRIES[name]
    for channels, kind in some(MAXIMA, name, DTYPES, dtype):
        x = Data(kind, channels).array((2, *g.size, channels), dtype)
        seen = kinds(assert_agree(maxima(x, g)))
        by_passes = takes_passes_back(name, dtype, channels)
        backward = "max_scatter_sweep" if by_passes else "max_pool_scatter"
        assert seen == {"max_sweep", "max_pool_gather", backward}


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_minima(axes: int):
    kernel = (9, 31) if axes == 2 else 11
    x = Data("extremes", axes).array((2, *(12,) * (axes - 1), 40, 4), mx.float32)
    pool = getattr(mp, f"min_pool{axes}d")

    def run() -> list[mx.array]:
        return list(pool(x, kernel, 1, return_indices=True))

    assert "max_sweep" in kinds(assert_agree(run))


@pytest.mark.parametrize("dtype", AVERAGED, ids=str)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_averages(name: str, dtype: mx.Dtype):
    limit = tolerance(dtype)
    for channels, options in some(AVERAGES, name, AVERAGED, dtype):
        run = exact_averages(GEOMETRIES[name], channels, dtype, options)
        outputs, kernels = agreed(run)
        by_passes = takes_passes_back(name, dtype, channels)
        backward = "avg_grad_sweep" if by_passes else "avg_pool_grad"
        assert kinds(kernels) == {"avg_sweep", backward}
        (y, expected_y), (dx, expected_dx) = outputs
        np.testing.assert_allclose(exact(y), exact(expected_y), rtol=limit)
        np.testing.assert_allclose(
            exact(dx), exact(expected_dx), rtol=limit, atol=limit
        )


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64], ids=str)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_sums(name: str, dtype: mx.Dtype):
    g = GEOMETRIES[name]
    x = Data("ties", 1).array((2, *g.size, 3), dtype) * (2 ** (8 * dtype.size - 16) + 1)
    assert kinds(assert_agree(lambda: [sum_pool(x, g)])) == {"avg_sweep"}


def test_the_order_of_additions_does_not_lose_infinities():
    """No sum is subtracted: NaN and infinity stay in their own windows."""
    x = mx.zeros((1, 60, 1))
    x[0, 20] = math.inf
    x[0, 50] = math.nan
    (y,), kernels = on_shaders(lambda: [mp.avg_pool1d(x, 13, 1)], "forward")
    assert kinds(kernels) == {"avg_sweep"}
    starts = np.arange(48)
    expected = np.where((starts >= 8) & (starts <= 20), math.inf, 0)
    expected[starts >= 38] = math.nan
    np.testing.assert_array_equal(np.array(y)[0, :, 0], expected)
