"""How the time grows with the window: kernels 3, 13 and 31 at stride 1.

    python benchmarks/window_size.py
    python benchmarks/window_size.py --kernels 3 5 9 13 21 31 --plot window_size.png

Max and average over 1, 2 and 3 axes, padded by half a kernel, so that every kernel has
the same input and output. PyTorch takes part where it is installed, on the CPU, until
its windows take too long.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from command import (
    add_device,
    add_json,
    add_threads,
    add_timing,
    new_parser,
    positive,
    start,
    track,
    write_json,
)
from contenders import Contender, contenders, seconds_of_passes
from measure import seconds
from report import OURS, PASSES, TORCH, number
from rich import box
from rich.table import Table
from shapes import Case, make_case

DTYPE = "float32"
INPUTS = ((4, 4096, 64), (1, 64, 64, 64), (1, 32, 32, 32, 32))
SERIES = [(op, shape) for shape in INPUTS for op in ("max", "avg")]
LIBRARIES = (OURS, TORCH)

# The aim for the time of any kernel, in times of that of the smallest.
AIM = 2.5

Result = dict[str, Any]
Times = dict[tuple[str, int], float]  # by library and kernel


def series_name(op: str, shape: tuple[int, ...]) -> str:
    return f"{op} {len(shape) - 2}-d"


def window(op: str, shape: tuple[int, ...], kernel: int) -> Case:
    return make_case(series_name(op, shape), op, shape, kernel, 1, kernel // 2)


def variants(
    op: str, shape: tuple[int, ...], args: argparse.Namespace
) -> dict[tuple[str, int], Contender]:
    """Each library with each kernel, PyTorch while it is expected to be fast enough."""
    found: dict[tuple[str, int], Contender] = {}
    expected, before = 0.0, args.kernels[0]
    for kernel in args.kernels:
        expected *= (kernel / before) ** (len(shape) - 2)  # as its taps
        rivals = (TORCH,) if expected <= args.rival_seconds else ()
        some = contenders(window(op, shape, kernel), DTYPE, rivals)
        if TORCH in some:
            expected = max(seconds(some[TORCH].forward), seconds(some[TORCH].vjp))
        found.update({(library, kernel): each for library, each in some.items()})
        before = kernel
    return found


def run_series(
    op: str, shape: tuple[int, ...], args: argparse.Namespace
) -> list[Result]:
    """A result for each kernel, ready for JSON."""
    found = variants(op, shape, args)
    first = args.kernels[0]
    times = {which: seconds_of_passes(found, which, args) for which in PASSES}
    return [
        {
            "name": series_name(op, shape),
            "op": op,
            "shape": shape,
            "kernel": kernel,
            **{which: compare(times[which], kernel, first) for which in PASSES},
        }
        for kernel in args.kernels
    ]


def compare(times: Times, kernel: int, first: int) -> Result:
    """Each library with one kernel against itself with the first."""
    mine = {library: time for (library, k), time in times.items() if k == kernel}
    return {
        "ms": {library: time * 1e3 for library, time in mine.items()},
        "ratio": {name: time / times[name, first] for name, time in mine.items()},
    }


def table(which: str, results: list[Result], kernels: list[int]) -> Table:
    table = Table(title=PASSES[which], title_justify="left", box=box.SIMPLE_HEAD)
    for head in ("", "input"):
        table.add_column(head)
    for head in ("kernel", *(f"{library}\nms" for library in LIBRARIES)):
        table.add_column(head, justify="right")
    for library in LIBRARIES:
        table.add_column(f"{library}\nof {kernels[0]}'s", justify="right")
    for result in results:
        measured = result[which]
        table.add_row(
            result["name"],
            "x".join(map(str, result["shape"])),
            str(result["kernel"]),
            *(number(measured["ms"].get(library)) for library in LIBRARIES),
            *(number(measured["ratio"].get(library)) for library in LIBRARIES),
            end_section=result["kernel"] == kernels[-1],
        )
    return table


def largest(results: list[Result], which: str) -> str:
    """The ratio furthest from the aim, and how many miss it."""

    def ratio(result: Result) -> float:
        return result[which]["ratio"][OURS]

    worst = max(results, key=ratio)
    missed = sum(ratio(result) > AIM for result in results)
    return (
        f"{PASSES[which]}: at most {number(ratio(worst))} times the smallest kernel's "
        f"({worst['name']}, kernel {worst['kernel']}); {missed} above {AIM}"
    )


def plot(path: Path, title: str, results: list[Result], kernels: list[int]) -> None:
    """Ratio against kernel, one panel a pass, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        ncols=2, sharey=True, figsize=(11, 5), layout="constrained"
    )
    for axis, (which, name) in zip(axes, PASSES.items(), strict=True):
        for place, series in enumerate(SERIES):
            label = series_name(*series)
            mine = [r[which]["ratio"] for r in results if r["name"] == label]
            for library, style in zip(LIBRARIES, ("o-", "x:"), strict=True):
                ratios = [each.get(library, math.nan) for each in mine]
                if sum(map(math.isfinite, ratios)) > 1:
                    name_of_line = f"{label}, {library}"
                    axis.plot(
                        kernels, ratios, style, color=f"C{place}", label=name_of_line
                    )
        axis.axhline(AIM, color="grey", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(kernels, map(str, kernels))
        axis.xaxis.set_minor_formatter("")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.grid(alpha=0.3)
        axis.set_title(name)
        axis.set_xlabel("kernel")
    axes[0].set_ylabel(f"time, of that of kernel {kernels[0]}")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    add_device(parser)
    parser.add_argument(
        "--kernels",
        type=positive,
        nargs="+",
        default=[3, 13, 31],
        metavar="K",
        help="times are of that of the smallest (default: 3 13 31)",
    )
    parser.add_argument(
        "--rival-seconds",
        type=float,
        default=0.5,
        metavar="SECONDS",
        help="a rival sits out where a call is expected to take longer, from its time "
        "with the kernel before and the number of taps (default: %(default)s)",
    )
    add_timing(parser)
    add_threads(parser, "threads of each library")
    add_json(parser)
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the ratios")
    args = parser.parse_args()
    args.kernels = sorted(set(args.kernels))
    return args


def main() -> None:
    args = parse_args()
    console, about = start(args, "torch", dtype=DTYPE)
    results = [
        result
        for series in track(SERIES, lambda s: series_name(*s))
        for result in run_series(*series, args)
    ]
    console.print()
    for which in PASSES:
        console.print(table(which, results, args.kernels))
    for which in PASSES:
        console.print(largest(results, which))
    write_json(args.json, about=about, results=results)
    if args.plot:
        title = f"stride 1, {DTYPE}, on {about['device']}"
        plot(args.plot, title, results, args.kernels)


if __name__ == "__main__":
    main()
