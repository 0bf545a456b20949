"""Pooling with indices, and unpooling by them, against PyTorch channels-last.

    python benchmarks/unpool.py
    python benchmarks/unpool.py --filter segnet --json unpool.json

The pairs of layers that decoders such as SegNet's are made of. mlx.nn has neither.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import mlx.core as mx
import mlx_pooling
import numpy as np
from command import (
    add_device,
    add_filter,
    add_json,
    add_threads,
    add_timing,
    new_parser,
    select,
    start,
    track,
    write_json,
)
from contenders import torch
from measure import Action, interleave
from report import MEAN, OURS, TORCH, mean_speedups, number
from rich import box
from rich.table import Table
from shapes import Case, make_case

CASES = (
    make_case("SegNet pool1", "max", (2, 224, 224, 64), 2, 2),
    make_case("SegNet pool2", "max", (4, 112, 112, 128), 2, 2),
    make_case("SegNet pool3", "max", (8, 56, 56, 256), 2, 2),
    make_case("SegNet pool5", "max", (8, 14, 14, 512), 2, 2),
    make_case("SegNet batch 1", "max", (1, 56, 56, 256), 2, 2),
    make_case("ResNet stem", "max", (8, 112, 112, 64), 3, 2, 1),
    make_case("Inception branch", "max", (8, 28, 28, 192), 3, 1, 1),
    make_case("MNIST", "max", (32, 28, 28, 1), 2, 2),
    make_case("3-D U-Net", "max", (1, 32, 64, 64, 32), 2, 2),
)
STEPS = ("indices", "unpool", "unpool + vjp")

Result = dict[str, Any]
Layer = Callable[..., Any]


@dataclass(frozen=True)
class Pair:
    """One library's layers on one case: actions, and results that are to agree."""

    steps: dict[str, Action]
    indices: np.ndarray
    plane: np.ndarray


def layers(case: Case, functions: Any) -> tuple[Layer, Layer]:
    """Pooling that returns indices, and what puts maxima back by these."""
    axes = len(case.kernel)
    window = (case.kernel, case.stride, case.padding)
    pool = getattr(functions, f"max_pool{axes}d")
    unpool = getattr(functions, f"max_unpool{axes}d")
    return (
        lambda x: pool(x, *window, return_indices=True),
        lambda y, indices: unpool(y, indices, *window, output_size=case.shape[1:-1]),
    )


def our_pair(case: Case, x: mx.array, dz: mx.array) -> Pair:
    pool, unpool = layers(case, mlx_pooling)
    y, indices = pool(x)
    mx.eval(y, indices)
    place = partial(unpool, indices=indices)
    steps = (
        lambda: mx.eval(pool(x)),
        lambda: mx.eval(place(y)),
        lambda: mx.eval(mx.vjp(place, [y], [dz])),
    )
    return Pair(
        dict(zip(STEPS, steps, strict=True)), np.array(indices), np.array(place(y))
    )


def torch_pair(case: Case, *operands: mx.array) -> Pair:
    pool, unpool = layers(case, torch.nn.functional)
    x, dz = (torch.from_numpy(np.array(a)).movedim(-1, 1) for a in operands)
    y, indices = pool(x)
    leaf = y.clone().requires_grad_()
    steps = (
        lambda: pool(x),
        lambda: unpool(y, indices),
        lambda: torch.autograd.grad(unpool(leaf, indices), leaf, dz),
    )
    return Pair(
        dict(zip(STEPS, steps, strict=True)),
        indices.movedim(1, -1).numpy(),
        unpool(y, indices).movedim(1, -1).numpy(),
    )


def pairs(case: Case) -> dict[str, Pair]:
    x, dz = (mx.random.normal(case.shape, key=mx.random.key(i)) for i in range(2))
    found = {OURS: our_pair(case, x, dz)}
    if torch is not None and mx.default_device() == mx.cpu:
        found[TORCH] = torch_pair(case, x, dz)
        for field in ("indices", "plane"):
            if not np.array_equal(*(getattr(pair, field) for pair in found.values())):
                raise SystemExit(f"{case.name}: {field} of {OURS} and {TORCH} differ")
    return found


def run_case(case: Case, args: argparse.Namespace) -> Result:
    """Milliseconds of each step by library, ready for JSON."""
    found = pairs(case)
    result: Result = {**asdict(case), "window": case.window, "ms": {}}
    for step in STEPS:
        actions = {library: pair.steps[step] for library, pair in found.items()}
        times = interleave(actions, args.repeats, args.min_time)
        result["ms"][step] = {library: 1e3 * t for library, t in times.items()}
    return result


def speedup(result: Result, step: str) -> float | None:
    ms = result["ms"][step]
    return ms[TORCH] / ms[OURS] if TORCH in ms else None


def table(results: list[Result], means: dict[str, float | None]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("case", "window", "input"):
        table.add_column(head, no_wrap=True)
    for step in STEPS:
        for head in (f"{step}\nms", f"{TORCH}\nms", f"vs\n{TORCH}"):
            table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        cells = []
        for step in STEPS:
            ms = result["ms"][step]
            cells += [ms[OURS], ms.get(TORCH), speedup(result, step)]
        table.add_row(
            result["name"],
            result["window"],
            "x".join(map(str, result["shape"])),
            *map(number, cells),
            end_section=result is results[-1],
        )
    blanks = [""] * 2
    table.add_row(
        MEAN, *blanks, *(c for step in STEPS for c in (*blanks, number(means[step])))
    )
    return table


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    add_device(parser)
    add_filter(parser)
    add_timing(parser)
    add_threads(parser, "threads of every library")
    add_json(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cases = select(CASES, args.filter)
    console, about = start(args, "torch")
    results = [run_case(case, args) for case in track(cases, lambda c: c.name)]
    means = mean_speedups(results, STEPS, speedup)
    console.print(table(results, means))
    write_json(args.json, about=about, results=results, means=means)


if __name__ == "__main__":
    main()
