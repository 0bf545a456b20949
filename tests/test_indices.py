"""Indices of the maxima: flat, per plane, uint32."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
import reference
from checks import check_winners
from hypothesis import given
from strategies import Case, Data, cases
from support import (
    FLOATS,
    INTEGERS,
    NDIMS,
    ORDERED,
    assert_identical,
    assert_same,
    exact,
    geometry,
    max_op,
    max_pool,
)


def check(x: mx.array, g: reference.Geometry) -> None:
    check_winners(max_pool, x, g, reference.max_pool(exact(x), g))


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
@given(case=cases())
def test_indices_of_every_dtype(dtype: mx.Dtype, case: Case):
    check(case.input(dtype), case.geometry)


@given(case=cases())
def test_float64_on_cpu(case: Case):
    with mx.stream(mx.cpu):
        check(case.input(mx.float64), case.geometry)


@given(case=cases())
def test_indices_point_at_the_values(case: Case):
    x = case.input()
    values, indices = max_pool(x, case.geometry, return_indices=True)
    planes = exact(x).reshape(case.batch, -1, case.channels)
    flat = exact(indices).reshape(case.batch, -1, case.channels).astype(np.int64)
    found = flat != reference.NO_INDEX
    assert np.all(flat[found] < planes.shape[1])
    picked = np.take_along_axis(planes, np.where(found, flat, 0), axis=1)
    expected = np.where(found, picked, -np.inf)
    np.testing.assert_array_equal(exact(values).reshape(expected.shape), expected)


@NDIMS
def test_ties_take_the_first_tap(ndim: int):
    g = geometry((4,) * ndim, 2)
    _, indices = max_pool(mx.zeros((1, *g.size, 3)), g, return_indices=True)
    first = [2 * sum(p * 4**a for a, p in enumerate(reversed(o)))
             for o in np.ndindex(g.output)]  # fmt: skip
    np.testing.assert_array_equal(exact(indices)[0, ..., 1].ravel(), first)


def test_positive_and_negative_zero_tie():
    x = mx.array([-0.0, 0.0, 0.0, -0.0]).reshape(1, 4, 1)
    _, indices = max_op(1)(x, 2, return_indices=True)
    np.testing.assert_array_equal(exact(indices).ravel(), [0, 2])


@pytest.mark.parametrize("channels", [1, 3, 8, 17])
def test_the_last_nan_wins_wherever_it_is(channels: int):
    base = np.arange(9, dtype=np.float32).reshape(3, 3)
    for first in range(9):
        for second in range(first, 9):
            plane = base.copy().ravel()
            plane[[first, second]] = np.nan
            x = np.broadcast_to(plane.reshape(1, 3, 3, 1), (1, 3, 3, channels))
            for dtype in FLOATS:
                values, indices = max_op(2)(
                    mx.array(x).astype(dtype), 3, return_indices=True
                )
                assert np.isnan(exact(values)).all()
                assert (exact(indices) == second).all()


def test_all_minus_infinity_has_its_first_valid_tap():
    x = mx.full((1, 4, 4, 2), -math.inf)
    values, indices = max_op(2)(x, 3, 2, 1, return_indices=True)
    assert (exact(values) == -np.inf).all()
    np.testing.assert_array_equal(exact(indices)[0, ..., 0], [[0, 1], [4, 5]])


@pytest.mark.parametrize("dtype", [*INTEGERS, mx.bool_], ids=str)
def test_all_lowest_has_its_first_valid_tap(dtype: mx.Dtype):
    low = False if dtype == mx.bool_ else mx.iinfo(dtype).min
    x = mx.full((1, 4, 4, 2), low, dtype)
    _, indices = max_op(2)(x, 3, 2, 1, return_indices=True)
    np.testing.assert_array_equal(exact(indices)[0, ..., 0], [[0, 1], [4, 5]])


@NDIMS
def test_no_valid_tap_has_the_sentinel(ndim: int):
    g = geometry((2,) * ndim, 2, 1, 4)
    _, indices = max_pool(mx.ones((1, *g.size, 3)), g, return_indices=True)
    corner = exact(indices)[(0,) * (ndim + 1)]
    assert (corner == 0xFFFFFFFF).all()


@pytest.mark.parametrize(
    ("size", "kernel"),
    [
        ((40, 40), (15, 17)),  # 255 taps: the last kernel with 8-bit offsets
        ((40, 40), (16, 16)),  # 256
        ((600,), (255,)),
        ((600,), (256,)),
        ((600,), (257,)),
        ((9, 10, 11), (8, 8, 5)),
        ((70_000,), (65_535,)),  # the last with 16-bit offsets
        ((70_000,), (65_536,)),
        ((70_000,), (65_537,)),
        ((300, 300), (256, 257)),
    ],
)
def test_kernels_about_the_limits_of_an_offset_type(size, kernel):
    stride = tuple(max(1, k // 3) for k in kernel)
    padding = ((kernel[0], kernel[0]), *((k // 2, k // 2) for k in kernel[1:]))
    g = geometry(size, kernel, stride, padding)
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, (1, *size, 2)).astype(np.float32)
    x[..., 1] = -np.inf
    x[(0, *(s - 1 for s in size))] = 5  # the last position, the last tap of a window
    check(mx.array(x), g)
    g = geometry(size, kernel, 1)  # full windows: the last tap is taken
    rising = np.arange(math.prod(size), dtype=np.float32).reshape(1, *size, 1)
    _, indices = max_pool(mx.array(rising), g, return_indices=True)
    top = exact(indices).ravel()
    assert top[-1] == math.prod(size) - 1
    assert top[0] == np.ravel_multi_index([k - 1 for k in kernel], size)


def test_indices_of_a_long_axis_are_exact():
    """Past 2**24 a float32 no longer holds every integer."""
    size = 2**24 + 7
    x = mx.zeros((1, size, 1), mx.uint8)
    x[0, size - 1, 0] = 1
    _, indices = max_op(1)(x, 2, 2, ceil_mode=True, return_indices=True)
    assert indices[0, -1, 0].item() == size - 1
    assert indices[0, -2, 0].item() == size - 3


def test_indices_within_a_gradient():
    """return_indices inside a traced function gives the same indices."""
    x = Data("ties", 1).array((2, 7, 7, 3), mx.float32)
    expected = exact(max_op(2)(x, 3, 2, 1, return_indices=True)[1])

    def loss(x):
        values, indices = max_op(2)(x, 3, 2, 1, return_indices=True)
        return values.sum(), indices

    (_, indices), dx = mx.value_and_grad(loss)(x)
    assert_same(indices, expected.astype(np.uint32))
    ones = np.ones(expected.shape)
    assert_same(dx, reference.scatter(ones, expected.astype(np.int64), (7, 7)))


def test_indices_carry_no_gradient():
    x = Data("normal", 1).array((1, 6, 6, 2), mx.float32)

    def loss(x):
        return max_op(2)(x, 2, return_indices=True)[1].astype(mx.float32).sum()

    assert_same(mx.grad(loss)(x), np.zeros((1, 6, 6, 2)))


@NDIMS
def test_unbatched(ndim: int):
    x = Data("nan", 2).array((*(6, 7, 5)[:ndim], 3), mx.float32)
    values, indices = max_op(ndim)(x, 2, 1, 1, return_indices=True)
    batched = max_op(ndim)(x[None], 2, 1, 1, return_indices=True)
    assert_identical(values, batched[0][0])
    assert_identical(indices, batched[1][0])
