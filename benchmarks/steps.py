"""The steps of an operation that mlx.nn has not, timed against PyTorch's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import mlx.core as mx
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
from report import MEAN, OURS, TORCH, mean_speedups, number, speedup
from rich import box
from rich.table import Table
from shapes import Case

Result: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Steps:
    """Those of one library in one case, and results that are to agree."""

    actions: dict[str, Action]
    results: dict[str, np.ndarray]


# Of a case and its arrays.
MakeSteps: TypeAlias = Callable[..., Steps]


def as_torch(x: mx.array) -> Any:
    """The tensor with the same memory layout, whose channels come first."""
    return torch.from_numpy(np.array(x)).movedim(-1, 1)


def as_numpy(x: Any) -> np.ndarray:
    """A tensor's values, channels last."""
    return x.movedim(1, -1).numpy()


def agree(a: np.ndarray, b: np.ndarray) -> bool:
    """Indices exactly, values up to rounding."""
    is_exact = np.issubdtype(a.dtype, np.integer)
    return np.array_equal(a, b) if is_exact else np.allclose(a, b, rtol=1e-4)


def libraries(case: Case, ours: MakeSteps, torchs: MakeSteps) -> dict[str, Steps]:
    arrays = [mx.random.normal(case.shape, key=mx.random.key(i)) for i in range(2)]
    found = {OURS: ours(case, *arrays)}
    if torch is not None and mx.default_device() == mx.cpu:
        found[TORCH] = torchs(case, *arrays)
        for name, values in found[OURS].results.items():
            if not agree(values, found[TORCH].results[name]):
                raise SystemExit(f"{case.name}: {name} of {OURS} and {TORCH} differ")
    return found


def run_case(case: Case, found: dict[str, Steps], args: argparse.Namespace) -> Result:
    """Milliseconds of each step by library, ready for JSON."""
    result: Result = {**asdict(case), "window": case.window, "ms": {}}
    for step in found[OURS].actions:
        actions = {library: steps.actions[step] for library, steps in found.items()}
        times = interleave(actions, args.repeats, args.min_time)
        result["ms"][step] = {library: 1e3 * t for library, t in times.items()}
    return result


def speedup_of(result: Result, step: str) -> float | None:
    return speedup(result["ms"][step], TORCH)


def table(results: list[Result], means: dict[str, float | None]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("case", "window", "input"):
        table.add_column(head, no_wrap=True)
    for step in means:
        for head in (f"{step}\nms", f"{TORCH}\nms", f"vs\n{TORCH}"):
            table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        cells = []
        for step in means:
            ms = result["ms"][step]
            cells += [ms[OURS], ms.get(TORCH), speedup(ms, TORCH)]
        table.add_row(
            result["name"],
            result["window"],
            "x".join(map(str, result["shape"])),
            *map(number, cells),
            end_section=result is results[-1],
        )
    blanks = [""] * 2
    table.add_row(
        MEAN, *blanks, *(c for mean in means.values() for c in (*blanks, number(mean)))
    )
    return table


def run(
    doc: str | None, cases: Sequence[Case], ours: MakeSteps, torchs: MakeSteps
) -> None:
    """Be the program that ``doc`` describes."""
    parser = new_parser(doc)
    add_device(parser)
    add_filter(parser)
    add_timing(parser)
    add_threads(parser, "threads of every library")
    add_json(parser)
    args = parser.parse_args()
    cases = select(cases, args.filter)
    console, about = start(args, "torch")
    results = [
        run_case(case, libraries(case, ours, torchs), args)
        for case in track(cases, lambda c: c.name)
    ]
    means = mean_speedups(results, list(results[0]["ms"]), speedup_of)
    console.print(table(results, means))
    write_json(args.json, about=about, results=results, means=means)
