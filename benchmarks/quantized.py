"""Pooling of quantized integers, against float32 and PyTorch channels-last.

    python benchmarks/quantized.py
    python benchmarks/quantized.py --dtype int8 --filter avg

The 2-d layers of real networks. mlx.nn has none of integers.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
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
from report import MEAN, OURS, TORCH, mean_speedups, number, speedup
from rich import box
from rich.table import Table
from shapes import CASES, Case

FLOAT = "float32"
RIVALS = (FLOAT, TORCH)
SCALE = 0.1
# Even: of odd ones, PyTorch's kernels do not agree which way ties are rounded.
ZERO_POINTS = {"uint8": 128, "int8": 0}

Result = dict[str, Any]


def arguments(case: Case) -> dict[str, Any]:
    return {
        "kernel_size": case.kernel,
        "stride": case.stride,
        "padding": case.padding,
        **case.extras,
    }


def integers(case: Case, dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(limits.min, limits.max + 1, case.shape)
    return values.astype(dtype)


def torch_action(case: Case, values: np.ndarray, dtype: str) -> Action:
    x = torch._make_per_tensor_quantized_tensor(
        torch.from_numpy(values).movedim(-1, 1), SCALE, ZERO_POINTS[dtype]
    ).contiguous(memory_format=torch.channels_last)
    pool = getattr(torch.nn.functional, f"{case.op}_pool2d")
    return partial(pool, x, **arguments(case))


def actions(case: Case, dtype: str) -> dict[str, Action]:
    values = integers(case, dtype)
    q = mlx_pooling.QuantizedArray(mx.array(values), SCALE, ZERO_POINTS[dtype])
    x = q.dequantize()
    mx.eval(x)
    pool = partial(
        getattr(mlx_pooling, f"quantized_{case.op}_pool2d"), q, **arguments(case)
    )
    pool_floats = partial(
        getattr(mlx_pooling, f"{case.op}_pool2d"), x, **arguments(case)
    )
    found: dict[str, Action] = {
        OURS: lambda: mx.eval(pool().int_repr()),
        FLOAT: lambda: mx.eval(pool_floats()),
    }
    if torch is not None and mx.default_device() == mx.cpu:
        found[TORCH] = torch_action(case, values, dtype)
        theirs = found[TORCH]().int_repr().movedim(1, -1).numpy()
        if not np.array_equal(np.array(pool().int_repr()), theirs):
            raise SystemExit(f"{case.name}: {OURS} and {TORCH} differ")
    return found


def run_case(case: Case, args: argparse.Namespace) -> Result:
    """Milliseconds by contender, ready for JSON."""
    times = interleave(actions(case, args.dtype), args.repeats, args.min_time)
    ms = {name: 1e3 * t for name, t in times.items()}
    return {**asdict(case), "window": case.window, "ms": ms}


def speedup_over(result: Result, rival: str) -> float | None:
    return speedup(result["ms"], rival)


def table(results: list[Result], means: dict[str, float | None]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("case", "window", "input"):
        table.add_column(head, no_wrap=True)
    table.add_column(f"{OURS}\nms", justify="right")
    for rival in RIVALS:
        table.add_column(f"{rival}\nms", justify="right")
        table.add_column(f"vs\n{rival}", justify="right")
    for result in results:
        cells = [result["ms"][OURS]]
        for rival in RIVALS:
            cells += [result["ms"].get(rival), speedup_over(result, rival)]
        table.add_row(
            result["name"],
            result["window"],
            "x".join(map(str, result["shape"])),
            *map(number, cells),
            end_section=result is results[-1],
        )
    shown = [cell for rival in RIVALS for cell in ("", number(means[rival]))]
    table.add_row(MEAN, "", "", "", *shown)
    return table


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--dtype", choices=ZERO_POINTS, default="uint8")
    add_device(parser)
    add_filter(parser)
    add_timing(parser)
    add_threads(parser, "threads of every library")
    add_json(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cases = select([c for c in CASES if len(c.kernel) == 2], args.filter)
    console, about = start(args, "torch", dtype=args.dtype)
    results = [run_case(case, args) for case in track(cases, lambda c: c.name)]
    means = mean_speedups(results, RIVALS, speedup_over)
    console.print(table(results, means))
    write_json(args.json, about=about, results=results, means=means)


if __name__ == "__main__":
    main()
