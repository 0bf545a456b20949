"""Runs operations on the CPU kernels and on the shaders, in one process."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from reference import Geometry
from strategies import Data
from support import Op, avg_pool, jvp, max_pool, vjp

from metal import shader_host

Run = Callable[[], list[mx.array]]

# Of data, in which what wins a window differs.
KINDS = ("ties", "nan", "infinite", "low", "extremes")


def extremes(pool: Op, x: mx.array, *args, **options) -> Run:
    """Extremes with and without their indices, gather and scatter of small integers."""
    t = Data("ties", 1).array(x.shape, x.dtype)
    dy = Data("ties", 2).array(pool(x, *args, **options).shape, x.dtype)

    def values(x: mx.array) -> mx.array:
        return pool(x, *args, **options)

    def run() -> list[mx.array]:
        with_indices = pool(x, *args, **options, return_indices=True)
        return [values(x), *with_indices, jvp(values, x, t), vjp(values, x, dy)]

    return run


def maxima(x: mx.array, g: Geometry) -> Run:
    return extremes(max_pool, x, g)


def averages(x: mx.array, dy: mx.array, g: Geometry, options: dict) -> Run:
    """Average, and its adjoint."""

    def pool(x: mx.array) -> mx.array:
        return avg_pool(x, g, **options)

    return lambda: [pool(x), vjp(pool, x, dy)]


def exact_averages(g: Geometry, channels: int, dtype: mx.Dtype, options: dict) -> Run:
    """Of small integers, whose sums are exact: only quotients are rounded."""
    x = Data("ties", channels).array((2, *g.size, channels), dtype)
    dy = Data("ties", 7).array((2, *g.output, channels), dtype)
    return averages(x, dy, g, options)


def tolerance(dtype: mx.Dtype, least: float = 1e-5) -> float:
    """Relative, of a quotient."""
    return {mx.float16: 2e-3, mx.bfloat16: 2e-2}.get(dtype, least)


def on_kernels(run: Run) -> list[mx.array]:
    shader_host.run_shaders(False)
    outputs = run()
    mx.eval(outputs)
    assert shader_host.take_records() == []
    return outputs


def records_of(outputs: list[mx.array]) -> list[dict]:
    """What the launches did that evaluate these."""
    mx.eval(outputs)
    records = shader_host.take_records()
    assert not [record for record in records if record["error"]]
    return records


def on_shaders(run: Run, order: str) -> tuple[list[mx.array], list[str]]:
    """The outputs, and the kernels launched."""
    shader_host.run_shaders(True, order)
    outputs = run()
    return outputs, [record["kernel"] for record in records_of(outputs)]


def kinds(kernels: list[str]) -> set[str]:
    """Without a word on whether it is one of few channels."""
    return {kernel[: kernel.index("<")].removesuffix("_flat") for kernel in kernels}


def bits(a: mx.array) -> np.ndarray:
    return np.array(mx.view(a.reshape(-1, 1), mx.uint8)) if a.size else np.zeros(0)


def assert_same_bits(actual: mx.array, expected: mx.array) -> None:
    """But for those of a NaN."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if mx.issubdtype(actual.dtype, mx.floating):
        nan = mx.isnan(expected)
        np.testing.assert_array_equal(np.array(mx.isnan(actual)), np.array(nan))
        zero = mx.zeros_like(expected)
        actual, expected = mx.where(nan, zero, actual), mx.where(nan, zero, expected)
    np.testing.assert_array_equal(bits(actual), bits(expected))


def agreed(run: Run) -> tuple[list[tuple[mx.array, mx.array]], list[str]]:
    """Each output of shaders and kernels, and the shaders' kernels.

    Whatever the order of the threads, the shaders give the very same bits.
    """
    expected = on_kernels(run)
    actual, kernels = on_shaders(run, shader_host.ORDERS[0])
    for order in shader_host.ORDERS[1:]:
        for first, other in zip(actual, on_shaders(run, order)[0], strict=True):
            np.testing.assert_array_equal(bits(first), bits(other))
    return list(zip(actual, expected, strict=True)), kernels


def assert_agree(run: Run) -> list[str]:
    outputs, kernels = agreed(run)
    for actual, expected in outputs:
        assert_same_bits(actual, expected)
    return kernels


def error_of_fault(fault: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the one launch is found to do wrong, of shaders with a fault in them."""
    monkeypatch.setenv("MLX_POOLING_SHADER_FAULT", fault)
    shader_host.run_shaders(True)
    mx.eval(run())
    (record,) = shader_host.take_records()
    return record["error"]
