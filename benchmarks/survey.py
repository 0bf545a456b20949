"""Random layers against PyTorch channels-last: which are slower than it, and how many.

    python benchmarks/survey.py
    python benchmarks/survey.py --layers 2000 --seed 7 --slowest 40 --plot survey.png
    python benchmarks/survey.py --cold

Sizes, windows, strides, paddings, dilations, dtypes and adaptive outputs that no
network may have, drawn from a seed: the same layers for the same seed. With --cold,
each call takes another copy of the input, which no cache holds then. PyTorch must be
installed.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from command import (
    add_cache,
    add_cold,
    add_json,
    add_threads,
    add_timing,
    copies_of,
    new_parser,
    positive,
    require_cache,
    start,
    track,
    write_json,
)
from contenders import contenders, seconds_of_passes, torch
from report import OURS, PASSES, TORCH, geometric_mean, number
from rich import box
from rich.table import Table
from shapes import Case, make_case

CHANNELS = (1, 2, 3, 4, 6, 8, 10, 16, 20, 32, 48, 64, 100, 128, 256, 512)
BATCHES = (1, 1, 2, 8, 32)
LEAST_ELEMENTS, MOST_ELEMENTS = 1e3, 3e6
# PyTorch has no averages of integers, nor 3-d ones of half types.
DTYPES = ("float32", "float32", "float32", "float16", "bfloat16")

Result = dict[str, Any]


def draw_sizes(rng: random.Random, axes: int, channels: int, batch: int) -> list[int]:
    elements = math.exp(rng.uniform(math.log(LEAST_ELEMENTS), math.log(MOST_ELEMENTS)))
    size = (elements / channels / batch) ** (1 / axes)
    return [max(2, round(size * 2 ** rng.uniform(-1, 1))) for _ in range(axes)]


def draw_adaptive(rng: random.Random, op: str, shape: tuple[int, ...]) -> Case:
    def outputs(size: int) -> int:
        return rng.choice([1, 2, 3, 5, 6, 7, 14, size // 2, size // 3, size])

    sizes = [max(1, min(outputs(size), size)) for size in shape[1:-1]]
    return make_case("", op, shape, tuple(sizes), 0, adaptive=True)


def draw_sliding(rng: random.Random, op: str, shape: tuple[int, ...]) -> Case:
    axes = len(shape) - 2
    kernel = [rng.choice([1, 2, 3, 3, 4, 5, 7, 9, 13]) for _ in range(axes)]
    stride = [rng.choice([1, 1, 2, 2, 3, 4]) for _ in range(axes)]
    if rng.random() < 0.5:
        kernel, stride = kernel[:1] * axes, stride[:1] * axes
    padding = [rng.choice([0, size // 2]) for size in kernel]
    extras: dict[str, Any] = {"ceil_mode": rng.random() < 0.2}
    if op == "max":
        extras["dilation"] = rng.choice([1, 1, 2, 3])
    else:
        extras["count_include_pad"] = rng.random() < 0.7
    return make_case(
        "", op, shape, tuple(kernel), tuple(stride), tuple(padding), **extras
    )


def fits(case: Case) -> bool:
    """Whether windows are no larger than the input."""
    return case.adaptive or all(
        case.dilation * (kernel - 1) < size
        for size, kernel in zip(case.shape[1:-1], case.kernel, strict=True)
    )


def draw(rng: random.Random) -> tuple[Case, str]:
    """A layer that both libraries have, and a dtype."""
    while True:
        axes = rng.choice([1, 2, 2, 2, 3])
        op = rng.choice(["max", "avg"])
        channels, batch = rng.choice(CHANNELS), rng.choice(BATCHES)
        shape = (batch, *draw_sizes(rng, axes, channels, batch), channels)
        draw_case = draw_adaptive if rng.random() < 0.3 else draw_sliding
        case = draw_case(rng, op, shape)
        dtype = DTYPES[0] if axes == 3 and op == "avg" else rng.choice(DTYPES)
        # PyTorch has no channels-last form of adaptive 3-d ones.
        if fits(case) and not (case.adaptive and axes == 3):
            return case, dtype


def run_case(case: Case, dtype: str, args: argparse.Namespace) -> Result | None:
    """Both passes' measurements, ready for JSON; None where PyTorch has no kernel."""
    found = contenders(case, dtype, [TORCH], copies_of(case, dtype, args))
    if TORCH not in found:
        return None
    result: Result = {**asdict(case), "window": case.window, "dtype": dtype}
    for which in PASSES:
        times = seconds_of_passes(found, which, args)
        result[which] = {
            "us": {name: time * 1e6 for name, time in times.items()},
            "speedup": times[TORCH] / times[OURS],
        }
    return result


# What tells the groups apart, of which a layer may be in several.
GROUPS: dict[str, Callable[[Result], bool]] = {
    "all": lambda r: True,
    "maxima": lambda r: r["op"] == "max",
    "averages": lambda r: r["op"] == "avg",
    "1-d": lambda r: len(r["kernel"]) == 1,
    "2-d": lambda r: len(r["kernel"]) == 2,
    "3-d": lambda r: len(r["kernel"]) == 3,
    "adaptive": lambda r: r["adaptive"],
    "dilated": lambda r: r["dilation"] > 1,
    "half types": lambda r: r["dtype"] != "float32",
    "1 to 3 channels": lambda r: r["shape"][-1] < 4,
    "4 to 15 channels": lambda r: 4 <= r["shape"][-1] < 16,
    "under 20 microseconds": lambda r: r["forward"]["us"][TORCH] < 20,
}


def summary(which: str, results: list[Result]) -> dict[str, dict[str, float]]:
    """Speed-ups of each group that has layers."""
    found = {}
    for name, is_in in GROUPS.items():
        speedups = [r[which]["speedup"] for r in results if is_in(r)]
        if len(speedups) > 1:
            found[name] = {
                "layers": len(speedups),
                "slower": sum(speedup < 1 for speedup in speedups),
                "least": min(speedups),
                "5 %": quantiles(speedups, n=20, method="inclusive")[0],
                "median": median(speedups),
                "mean": geometric_mean(speedups),
            }
    return found


def summary_table(which: str, groups: dict[str, dict[str, float]]) -> Table:
    table = Table(
        title=f"{PASSES[which]}, times as fast as {TORCH}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("layers")
    heads = ("", "slower", "", "least", "5 % below", "median", "geometric\nmean")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for name, each in groups.items():
        table.add_row(
            name,
            str(each["layers"]),
            str(each["slower"]),
            f"{each['slower'] / each['layers']:.1%}",
            *(number(each[key]) for key in ("least", "5 %", "median", "mean")),
        )
    return table


def slowest_table(which: str, results: list[Result], count: int) -> Table:
    table = Table(
        title=f"{PASSES[which]}, the slowest", title_justify="left", box=box.SIMPLE_HEAD
    )
    for head in ("window", "input", "dtype"):
        table.add_column(head, no_wrap=True)
    for head in (f"{OURS}\nus", f"{TORCH}\nus", f"vs\n{TORCH}"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in sorted(results, key=lambda r: r[which]["speedup"])[:count]:
        measured = result[which]
        table.add_row(
            result["window"],
            "x".join(map(str, result["shape"])),
            result["dtype"],
            number(measured["us"][OURS]),
            number(measured["us"][TORCH]),
            number(measured["speedup"]),
        )
    return table


def plot(path: Path, results: list[Result]) -> None:
    """How many layers have which speed-up, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    speedups = {w: [r[w]["speedup"] for r in results] for w in PASSES}
    everything = [math.log2(s) for values in speedups.values() for s in values]
    first, last = math.floor(4 * min(everything)), math.ceil(4 * max(everything))
    bins = [2 ** (quarter / 4) for quarter in range(first, last + 1)]
    figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
    for which, values in speedups.items():
        axis.hist(values, bins=bins, alpha=0.6, label=PASSES[which])
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlabel(f"times as fast as {TORCH}")
    axis.set_ylabel("layers")
    axis.set_title(f"{len(results)} random layers")
    axis.legend()
    figure.savefig(path, dpi=120)


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--layers", type=positive, default=400, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument(
        "--slowest",
        type=positive,
        default=10,
        metavar="N",
        help="how many layers to name (default: %(default)s)",
    )
    add_timing(parser)
    parser.set_defaults(repeats=3, min_time=0.004, device="cpu")
    add_threads(parser, "threads of both libraries")
    add_cold(parser)
    add_cache(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a histogram")
    add_json(parser)
    args = parser.parse_args()
    if torch is None:
        parser.error("this compares with PyTorch, which is not installed")
    if args.cold:
        require_cache(parser, args)
    return args


def main() -> None:
    args = parse_args()
    console, about = start(args, "torch", layers=str(args.layers), seed=str(args.seed))
    rng = random.Random(args.seed)
    layers = [draw(rng) for _ in range(args.layers)]
    results = [
        result
        for case, dtype in track(layers, lambda layer: layer[0].window)
        if (result := run_case(case, dtype, args)) is not None
    ]
    console.print()
    groups = {which: summary(which, results) for which in PASSES}
    for which in PASSES:
        console.print(summary_table(which, groups[which]))
        console.print(slowest_table(which, results, args.slowest))
    if args.plot:
        plot(args.plot, results)
    write_json(args.json, about=about, results=results, groups=groups)


if __name__ == "__main__":
    main()
