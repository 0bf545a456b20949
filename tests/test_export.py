"""In composed() everything exports with mx.export_function; outside, MLX refuses."""

from __future__ import annotations

import math
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling
import numpy as np
import pytest
from checks import Result, arrays, assert_all_identical
from strategies import Data
from support import (
    FLOATS,
    Op,
    adaptive_op,
    avg_op,
    exact,
    fixed,
    layer,
    lp_op,
    max_op,
    min_op,
    power_sum,
    unpool_op,
)

SIZE = (7, 6, 5)

WINDOWS = [
    {},
    {"stride": 1},
    {"stride": 2, "padding": 1},
    {"padding": "same", "stride": 2},
    {"padding": "valid"},
    {"stride": 2, "padding": 1, "ceil_mode": True, "dilation": 2},
]


def pairs(ndim: int) -> dict:
    return {"stride": 3, "padding": ((0, 2), (1, 0), (2, 1))[:ndim]}


def round_trip(ndim: int, **options) -> Op:
    def f(x: mx.array) -> mx.array:
        values, indices = max_op(ndim)(x, 2, return_indices=True)
        return unpool_op(ndim)(values, indices, 2, **options)

    return f


def operations(ndim: int) -> dict[str, Op]:
    """Every operation with every option."""
    found = {}
    for options in (*WINDOWS, pairs(ndim)):
        for name, op in (("max", max_op), ("min", min_op), ("avg", avg_op)):
            found[f"{name} {options}"] = fixed(op(ndim), 3, **options)
        for name, op in (("max", max_op), ("min", min_op)):
            key = f"{name} with indices {options}"
            found[key] = fixed(op(ndim), 3, return_indices=True, **options)
        for extra in ({"count_include_pad": False}, {"divisor_override": -3}):
            found[f"avg {options | extra}"] = fixed(avg_op(ndim), 3, **options, **extra)
    for count in (1, 3, 9, (None, 4, 2)[:ndim]):
        for kind in ("avg", "max"):
            found[f"adaptive {kind} {count}"] = fixed(adaptive_op(kind, ndim), count)
        key = f"adaptive max with indices {count}"
        found[key] = fixed(adaptive_op("max", ndim), count, return_indices=True)
    for p in (1, 2, 1.5, math.inf):
        found[f"lp {p}"] = fixed(lp_op(ndim), p, 2)
        key = f"lp {p} overhanging"
        found[key] = fixed(lp_op(ndim), p, 3, stride=2, ceil_mode=True)
    found["unpool"] = round_trip(ndim)
    found["unpool to the input's size"] = round_trip(ndim, output_size=SIZE[:ndim])
    return found


def exported(path: Path, f: Op, *inputs: mx.array, **options) -> Op:
    with mlx_pooling.composed():
        mx.export_function(str(path), f, *inputs, **options)
    return mx.import_function(str(path))


def check(path: Path, f: Op, x: mx.array) -> None:
    """Equal results, on values that were not there at export; and the kernels'."""
    run = exported(path, f, x)
    other = -2 * x + 1 if mx.issubdtype(x.dtype, mx.floating) else x
    for inputs in (x, other):
        with mlx_pooling.composed():
            expected = f(inputs)
        results = run(inputs)
        assert_all_identical(results, arrays(expected))
        assert_close_to_kernels(results, f(inputs))


def assert_close_to_kernels(results: Result, kernels: Result) -> None:
    rtol = {mx.float16: 2e-3, mx.bfloat16: 2e-2}
    for a, b in zip(results, arrays(kernels), strict=True):
        np.testing.assert_allclose(
            exact(a), exact(b), rtol=rtol.get(a.dtype, 1e-5), atol=1e-5
        )


@pytest.mark.parametrize(
    ("ndim", "f"),
    [
        pytest.param(ndim, f, id=f"{ndim}d {name}")
        for ndim in (1, 2, 3)
        for name, f in operations(ndim).items()
    ],
)
def test_every_operation(ndim: int, f: Op, tmp_path: Path):
    x = mx.random.uniform(0.5, 2, (2, *SIZE[:ndim], 3), key=mx.random.key(0))
    check(tmp_path / "f.mlxfn", f, x)


@pytest.mark.parametrize("dtype", [*FLOATS, mx.int32, mx.uint8, mx.bool_], ids=str)
def test_dtypes(dtype: mx.Dtype, tmp_path: Path):
    x = Data("ties", 0).array((2, *SIZE[:2], 3), dtype)
    for i, f in enumerate(
        (
            fixed(max_op(2), 3, 2, 1, return_indices=True),
            fixed(min_op(2), 3, 2, 1),
            fixed(avg_op(2), 3, 2, 1),
            fixed(adaptive_op("avg", 2), 3),
            round_trip(2),
        )
    ):
        check(tmp_path / f"{i}.mlxfn", f, x)


def test_complex_averages(tmp_path: Path):
    x = Data("normal", 0).array((2, *SIZE[:2], 3), mx.complex64)
    check(tmp_path / "f.mlxfn", fixed(avg_op(2), 3, 2, 1), x)
    check(tmp_path / "g.mlxfn", fixed(adaptive_op("avg", 2), 3), x)


GRADIENTS = {
    "max": fixed(max_op(2), 3, 2, 1),
    "min": fixed(min_op(2), 3, 2, "same"),
    "avg": fixed(avg_op(2), 3, 2, 1, count_include_pad=False),
    "adaptive max": fixed(adaptive_op("max", 2), (3, 4)),
    "adaptive avg": fixed(adaptive_op("avg", 2), (3, 4)),
    "lp": fixed(lp_op(2), 3, 2),
    "unpool": round_trip(2),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, tmp_path: Path):
    x = mx.random.uniform(0.5, 2, (2, *SIZE[:2], 3), key=mx.random.key(0))
    first = mx.grad(power_sum(GRADIENTS[name], 3))
    check(tmp_path / "first.mlxfn", first, x)
    check(tmp_path / "second.mlxfn", mx.grad(power_sum(first, 2)), x)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_what_was_imported(name: str, tmp_path: Path):
    """MLX imports what stops gradients as what passes them on, to indices too."""
    x = mx.random.uniform(0.5, 2, (2, *SIZE[:2], 3), key=mx.random.key(0))
    f = GRADIENTS[name]
    run = exported(tmp_path / "f.mlxfn", f, x)
    gradient = mx.grad(power_sum(lambda x: run(x)[0], 3))
    if name in ("max", "min", "adaptive max", "unpool"):
        with pytest.raises(ValueError, match="with respect to indices"):
            gradient(x)
        return
    expected = mx.grad(power_sum(f, 3))(x)
    np.testing.assert_allclose(exact(gradient(x)), exact(expected), rtol=1e-4)


def test_a_model(tmp_path: Path):
    """Trained or not, it runs where this package is not."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.pool = layer("Max", 2)(2, return_indices=True)
            self.unpool = mlx_pooling.MaxUnpool2d(2)
            self.smallest = layer("Min", 2)(3, 1, "same")
            self.average = layer("Avg", 2)(2)
            self.norm = layer("LP", 2)(2, 2)
            self.adaptive = layer("AdaptiveMax", 2)((3, None))
            self.head = layer("GlobalAvg", 2)()
            self.last = nn.Linear(8, 5)

        def __call__(self, x: mx.array) -> mx.array:
            y, indices = self.pool(nn.relu(self.first(x)))
            y = self.unpool(self.smallest(y), indices)
            y = self.adaptive(self.norm(self.average(y)))
            return self.last(self.head(y).squeeze((1, 2)))

    mx.random.seed(0)
    model = Model()
    x, other = mx.random.normal((2, 2, 20, 16, 3))
    run = exported(tmp_path / "model.mlxfn", lambda x: model(x), x)
    for inputs in (x, other):
        np.testing.assert_allclose(
            exact(run(inputs)[0]), exact(model(inputs)), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", GRADIENTS)
def test_outside_composed_mlx_refuses(name: str, tmp_path: Path):
    x = mx.random.uniform(0.5, 2, (2, *SIZE[:2], 3), key=mx.random.key(0))
    with pytest.raises((ValueError, RuntimeError), match="export_function"):
        mx.export_function(str(tmp_path / "f.mlxfn"), GRADIENTS[name], x)
