"""Windows of one element each, as many as the input: nothing is computed, and the
result is the input's memory."""

from __future__ import annotations

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
from strategies import Data
from support import (
    Op,
    adaptive_op,
    assert_identical,
    avg_op,
    fixed,
    max_op,
    min_op,
    unevaluated,
    vjp,
)

SHAPE = (2, 7, 6, 5)

PASS_THROUGH = {
    "max": fixed(max_op(2), 1, 1),
    "min": fixed(min_op(2), 1, 1),
    "avg": fixed(avg_op(2), 1, 1),
    "dilated": fixed(avg_op(2), 1, 1, dilation=3),
    "divided by 1": fixed(avg_op(2), 1, 1, divisor_override=1),
    "adaptive max": fixed(adaptive_op("max", 2), (7, 6)),
    "adaptive avg": fixed(adaptive_op("avg", 2), (7, None)),
}
DO_NOT = {
    "divided by 2": fixed(avg_op(2), 1, 1, divisor_override=2),
    "divided by -1": fixed(avg_op(2), 1, 1, divisor_override=-1),
    "stride": fixed(avg_op(2), 1, (1, 2)),
    "padding": fixed(avg_op(2), 1, 1, ((1, 0), (0, 0))),
    "fewer": fixed(adaptive_op("avg", 2), (7, 5)),
    "only one": fixed(avg_op(2), 1, 7),
}


def values(dtype: mx.Dtype = mx.float32) -> mx.array:
    x = Data("nan" if mx.issubdtype(dtype, mx.floating) else "ties", 0)
    array = x.array(SHAPE, dtype)
    mx.eval(array)
    return array


def share_memory(a: mx.array, b: mx.array) -> bool:
    return np.shares_memory(np.array(a, copy=False), np.array(b, copy=False))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.int8])
@pytest.mark.parametrize("name", PASS_THROUGH)
def test_the_same_memory(name: str, dtype: mx.Dtype):
    for x in (values(dtype), unevaluated(values(dtype))):
        y = PASS_THROUGH[name](x)
        mx.eval(x, y)
        assert_identical(y, x.astype(y.dtype))
        assert share_memory(y, x) == (y.dtype == dtype)


def test_complex_averages():
    x = values(mx.int32) * mx.array(1 + 2j)
    y = avg_op(2)(x, 1, 1)
    mx.eval(x, y)
    assert_identical(y, x)
    assert share_memory(y, x)


@pytest.mark.parametrize("name", DO_NOT)
def test_other_windows_compute(name: str):
    x = values()
    y = DO_NOT[name](x)
    mx.eval(y)
    assert not share_memory(y, x)
    with mlx_pooling.composed():
        assert_identical(y, DO_NOT[name](x))


@pytest.mark.parametrize("name", PASS_THROUGH)
def test_gradients_are_the_cotangents(name: str):
    x, dy = values(), Data("normal", 1).array(SHAPE, mx.float32)
    mx.eval(dy)
    for cotangent in (dy, unevaluated(dy)):
        dx = vjp(PASS_THROUGH[name], x, cotangent)
        mx.eval(dx, cotangent)
        assert_identical(dx, dy)
        assert share_memory(dx, cotangent)


def changed(x: mx.array) -> mx.array:
    x[0] = 5
    x += 1
    return x


@pytest.mark.parametrize("changes", ["input", "output"])
def test_nothing_that_shares_memory_is_written_to(changes: str):
    for x in (values(mx.int32), unevaluated(values(mx.int32))):
        y = max_op(2)(x, 1, 1)
        mx.eval(x, y)
        if changes == "input":
            x = changed(x)
        else:
            y = changed(y)
        mx.eval(x, y)
        expected = values(mx.int32)
        assert_identical(y if changes == "input" else x, expected)


def test_strided_views_are_copied():
    x = values()
    for view in (x.transpose(0, 2, 1, 3), x[:, ::2], mx.broadcast_to(x[:1], SHAPE)):
        y = avg_op(2)(view, 1, 1)
        mx.eval(y)
        assert_identical(y, view)
        assert not share_memory(y, x)


def test_a_part_does_not_keep_the_whole():
    x = mx.zeros((64, 32, 32, 8))
    part = x[1:2]
    mx.eval(x, part)
    y = avg_op(2)(part, 1, 1)
    mx.eval(y)
    assert not share_memory(y, x)


def test_memory_of_others_is_copied():
    """They may write to it. Without a GPU, MLX itself copies."""
    theirs = np.ones(SHAPE, np.float32)
    y = avg_op(2)(mx.asarray(theirs), 1, 1)
    mx.eval(y)
    theirs[:] = 5
    assert_identical(y, mx.ones(SHAPE))


@pytest.mark.parametrize("name", PASS_THROUGH)
def test_transformations(name: str):
    x, f = values(), PASS_THROUGH[name]
    assert_identical(mx.compile(f)(x), x)
    assert_identical(mx.vmap(f)(mx.stack([x, x])), mx.stack([x, x]))


def test_a_shapeless_compile_knows_no_sizes():
    f: Op = mx.compile(fixed(adaptive_op("avg", 2), (7, 6)), shapeless=True)
    assert_identical(f(values()), values())
    larger = mx.repeat(mx.repeat(values(mx.int32), 2, 1), 2, 2).astype(mx.float32)
    assert f(larger).shape == SHAPE
    assert_identical(f(larger), values(mx.int32).astype(mx.float32))
