"""One case as each library has it: what it computes, and actions to be timed."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from types import ModuleType
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling
import numpy as np
from measure import Action, Name, interleave, peak_bytes
from report import OURS, PASSES, RIVALS, THEIRS, TORCH
from shapes import Case

try:
    import torch
except ImportError:
    torch = None

# Bounds on the difference of outputs; mlx.nn adds up a window in the half type itself.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}

Layer = Callable[[mx.array], mx.array]
Operands = list[tuple[mx.array, mx.array]]  # copies of x and dy, which take turns


@dataclass(frozen=True)
class Contender:
    """One library's layer on one case; an action is ``calls`` passes."""

    output: Callable[[], np.ndarray]
    forward: Action
    vjp: Action | None  # None where integers have no gradient
    calls: int = 1
    vjp_peak: int | None = None


def use_threads(number: int) -> None:
    """Before the first pooling: the number is read then, once for the process."""
    os.environ["MLX_POOLING_NUM_THREADS"] = str(number)
    if torch is not None:
        torch.set_num_threads(number)


def mlx_layer(case: Case, library: ModuleType) -> Layer:
    return getattr(library, case.layer)(*case.sizes.values(), **case.extras)


def output_of(case: Case, dtype: str) -> mx.array:
    """Not evaluated: for its shape and dtype."""
    return mlx_layer(case, mlx_pooling)(mx.zeros(case.shape, getattr(mx, dtype)))


def operands(case: Case, dtype: str, copies: int = 1) -> Operands:
    """The same for every library."""

    def values(shape: tuple[int, ...], key: int) -> mx.array:
        if dtype == "uint8":
            return mx.random.randint(0, 256, shape, mx.uint8, mx.random.key(key))
        numbers = mx.random.normal(shape, key=mx.random.key(key))
        return numbers.astype(getattr(mx, dtype))

    output = output_of(case, dtype).shape
    found = [(values(case.shape, 0), values(output, 1)) for _ in range(copies)]
    mx.eval(found)
    return found


def compulsory_bytes(case: Case, dtype: str) -> dict[str, int]:
    """Bytes that each pass must move at least."""
    y = output_of(case, dtype)
    sizes = case.compulsory_bytes(y.shape, getattr(mx, dtype).size, y.itemsize)
    return dict(zip(PASSES, sizes, strict=True))


def try_gradient(layer: Layer, x: mx.array, dy: mx.array) -> tuple[int, bool]:
    """Peak memory of forward + vjp, and whether it writes dx as dense memory."""
    passes: list[list[mx.array]] = []

    def run() -> None:
        passes.extend(mx.vjp(layer, [x], [dy]))
        mx.eval(passes)

    peak = peak_bytes(run)
    _, (dx,) = passes
    return peak, memoryview(dx).c_contiguous


def mlx_contender(layer: Layer, copies: Operands) -> Contender:
    # A GPU gets several passes before it is waited for, as in a training step: else
    # the wait would be timed, not the kernel.
    calls = 8 if mx.default_device() == mx.gpu else 1
    x, dy = copies[0]
    turns = cycle(copies)

    def some() -> Operands:
        return [next(turns) for _ in range(calls)]

    def output() -> np.ndarray:
        return np.array(layer(x).astype(mx.float32))

    def forward() -> None:
        mx.eval([layer(x) for x, _ in some()])

    if not mx.issubdtype(x.dtype, mx.floating):
        return Contender(output, forward, None, calls)
    peak, dense = try_gradient(layer, x, dy)

    def vjp() -> None:
        passes = [mx.vjp(layer, [x], [dy]) for x, dy in some()]
        # Every library owes dx in dense memory. mlx.nn may return a view, which for a
        # global average is a broadcast that nobody has written yet. What is dense is
        # not charged with another operation; ours always is.
        mx.eval([(y, dx if dense else mx.contiguous(dx)) for (y,), (dx,) in passes])

    return Contender(output, forward, vjp, calls, peak)


def torch_layer(case: Case) -> Callable[[Any], Any]:
    """PyTorch's function; 1-d as 2-d of height 1, which has a channels-last form."""
    sizes = case.sizes
    axes = len(case.kernel)
    if axes == 1:
        height = {"padding": 0}
        sizes = {name: (height.get(name, 1), *size) for name, size in sizes.items()}
        axes = 2
    prefix = "adaptive_" if case.adaptive else ""
    function = getattr(torch.nn.functional, f"{prefix}{case.op}_pool{axes}d")
    return partial(function, **sizes, **case.extras)


def torch_contender(case: Case, copies: Operands, dtype: str) -> Contender | None:
    """PyTorch on the same values, or None where it has no kernel for the type."""

    def channels_last(values: mx.array) -> Any:
        tensor = torch.from_numpy(np.array(values.astype(mx.float32)))
        if len(case.kernel) == 1:
            tensor = tensor.unsqueeze(1)
        # In PyTorch's own memory: NumPy's has huge pages, MLX's and PyTorch's none.
        return tensor.movedim(-1, 1).to(getattr(torch, dtype)).clone()

    layer = torch_layer(case)
    shape = copies[0][1].shape
    turns = cycle(
        [(channels_last(x).requires_grad_(), channels_last(dy)) for x, dy in copies]
    )

    def forward() -> Any:
        leaf, _ = next(turns)
        with torch.no_grad():
            return layer(leaf)

    def vjp() -> Any:
        leaf, cotangent = next(turns)
        return torch.autograd.grad(layer(leaf), leaf, cotangent)

    try:
        forward()
        vjp()
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        return None

    def output() -> np.ndarray:
        return forward().float().movedim(1, -1).numpy().reshape(shape)

    return Contender(output, forward, vjp)


def contenders(
    case: Case, dtype: str, rivals: Collection[str] = RIVALS, copies: int = 1
) -> dict[str, Contender]:
    """The libraries that have this case, their outputs checked to agree.

    Each call takes another of so many copies of the operands.
    """
    mx.clear_cache()  # else earlier cases' buffers leave no room for these

    def some() -> Operands:  # of each library's own: else one would warm another's
        return operands(case, dtype, copies)

    found = {OURS: mlx_contender(mlx_layer(case, mlx_pooling), some())}
    if THEIRS in rivals and not case.extras:
        found[THEIRS] = mlx_contender(mlx_layer(case, nn), some())
    if TORCH in rivals and torch is not None and mx.default_device() == mx.cpu:
        rival = torch_contender(case, some(), dtype)
        if rival is not None:
            found[TORCH] = rival

    if len(found) > 1:
        outputs = {name: each.output() for name, each in found.items()}
        for name, output in outputs.items():
            if not np.allclose(outputs[OURS], output, rtol=0, atol=TOLERANCE[dtype]):
                raise SystemExit(
                    f"{case.name}: the outputs of {OURS} and {name} differ"
                )
    return found


def seconds_of_passes(
    found: Mapping[Name, Contender],
    which: str,
    args: argparse.Namespace,
    **others: Action,
) -> dict[Name | str, float]:
    """Median seconds of a pass of each contender, and of a call to each other action.

    A contender without that pass is left out.
    """
    actions = {name: getattr(each, which) for name, each in found.items()}
    actions = {name: action for name, action in actions.items() if action is not None}
    times = interleave({**actions, **others}, args.repeats, args.min_time)
    calls = {name: each.calls for name, each in found.items()}
    return {name: time / calls.get(name, 1) for name, time in times.items()}
