"""The tables and the plot that ``pooling.py`` makes of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

OURS, THEIRS, TORCH = "mlx_pooling", "mlx.nn", "torch"
RIVALS = (THEIRS, TORCH)
PASSES = {"forward": "forward", "vjp": "forward + vjp"}
MEAN = "geometric mean"
ENOUGH_OF_COPY = 0.7  # where the caches do not help

Result = dict[str, Any]
Means = dict[str, dict[str, dict[str, float | None]]]


def number(value: float | None) -> str:
    """Three digits that matter."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def speedup(ms: dict[str, float], rival: str) -> float | None:
    """None where the rival was not timed."""
    return ms[rival] / ms[OURS] if rival in ms else None


def _speedup_of_pass(which: str, result: Result, rival: str) -> float | None:
    return result[which]["speedup"].get(rival)


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of no values."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def mean_speedups(
    results: list[Result],
    names: Iterable[str],
    speedup: Callable[[Result, str], float | None],
) -> dict[str, float | None]:
    """For each name that of the results which have one."""
    return {
        name: geometric_mean(
            ratio for r in results if (ratio := speedup(r, name)) is not None
        )
        for name in names
    }


def geometric_means(results: list[Result]) -> Means:
    """Speed-ups over each rival by group of cases, None where no case has the rival."""
    groups = {
        MEAN: results,
        "overlapping": [r for r in results if r["overlapping"]],
        "not overlapping": [r for r in results if not r["overlapping"]],
    }
    return {
        label: {
            which: mean_speedups(
                group,
                RIVALS,
                partial(_speedup_of_pass, which),
            )
            for which in PASSES
        }
        for label, group in groups.items()
    }


def table(which: str, results: list[Result], means: Means) -> Table:
    """One pass: forward shows the cases' windows and inputs, vjp its peak memory."""
    forward = which == "forward"
    table = Table(title=PASSES[which], title_justify="left", box=box.SIMPLE_HEAD)
    for head in ("case", *(("window", "input") if forward else ())):
        table.add_column(head)
    for head in (
        *("ms", "GB/s", "of\ncopy"),
        *(f"{rival}\nms" for rival in RIVALS),
        *(f"vs\n{rival}" for rival in RIVALS),
        *(() if forward else ("peak\nMB", f"{THEIRS}\nMB")),
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        measured = result[which]
        shape = "x".join(map(str, result["shape"]))
        memory = () if forward else measured["peak_bytes"].values()
        table.add_row(
            result["name"],
            *((result["window"], shape) if forward else ()),
            number(measured["ms"][OURS]),
            number(measured["gbps"][OURS]),
            f"{measured['share_of_copy'][OURS]:.0%}",
            *(number(measured["ms"].get(rival)) for rival in RIVALS),
            *(number(measured["speedup"].get(rival)) for rival in RIVALS),
            *(number(size and size / 1e6) for size in memory),
            end_section=result is results[-1],
        )
    for label, mean in means.items():
        blanks = [""] * (7 if forward else 5)
        name = label if label == MEAN else f"  {label}"
        table.add_row(name, *blanks, *(number(mean[which][r]) for r in RIVALS))
    return table


def beyond_cache(which: str, results: list[Result], cache_bytes: float) -> list[Result]:
    """Those that move more than the cache holds, the lowest share of the copy first."""
    beyond = [result for result in results if result[which]["bytes"] > cache_bytes]
    return sorted(beyond, key=lambda result: result[which]["share_of_copy"][OURS])


def share_table(which: str, beyond: list[Result]) -> Table:
    """Shares of the copy bandwidth, those that miss ENOUGH_OF_COPY marked."""
    table = Table(
        title=f"{PASSES[which]}, larger than the cache",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for head in ("case", "window", "input"):
        table.add_column(head)
    for head in ("MB", "ms", "GB/s", "of\ncopy", f"under\n{ENOUGH_OF_COPY:.0%}"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in beyond:
        measured = result[which]
        share = measured["share_of_copy"][OURS]
        table.add_row(
            result["name"],
            result["window"],
            "x".join(map(str, result["shape"])),
            number(measured["bytes"] / 1e6),
            number(measured["ms"][OURS]),
            number(measured["gbps"][OURS]),
            f"{share:.0%}",
            "x" if share < ENOUGH_OF_COPY else "",
        )
    return table


def share_line(which: str, beyond: list[Result]) -> str:
    """How many of the cases larger than the cache miss ENOUGH_OF_COPY."""
    low = [r for r in beyond if r[which]["share_of_copy"][OURS] < ENOUGH_OF_COPY]
    return (
        f"{PASSES[which]}: {len(beyond)} cases are larger than the cache, of which "
        f"{len(low)} reach less than {ENOUGH_OF_COPY:.0%} of the copy"
    )


def markdown_row(about: dict[str, str], means: Means) -> str:
    """The row of a machine for the table in README.md."""
    cells = [about["device"], about["dtype"], about["versions"], about["copy"]]
    for which in PASSES:
        for label in (MEAN, "overlapping"):
            speedups = means[label][which]
            known = [f"{number(speedups[r])} {r}" for r in RIVALS if speedups[r]]
            cells.append(", ".join(known))
    return f"| {' | '.join(cells)} |"


def plot(path: Path, title: str, results: list[Result], means: Means) -> None:
    """Bars of the speed-ups, one panel a pass, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    labels = [f"{r['name']}  ({r['window']})" for r in results] + [MEAN]
    rivals = [rival for rival in RIVALS if means[MEAN]["forward"][rival]]
    thickness = 0.8 / len(RIVALS)
    figure, axes = plt.subplots(
        ncols=2,
        sharey=True,
        figsize=(13, 1.6 + 0.36 * len(labels)),
        layout="constrained",
    )
    for axis, (which, name) in zip(axes, PASSES.items(), strict=True):
        for place, rival in enumerate(rivals):
            speedups = [r[which]["speedup"].get(rival, math.nan) for r in results]
            speedups.append(means[MEAN][which][rival])
            offset = (place - (len(RIVALS) - 1) / 2) * thickness
            # Bars start at 1, to the right where we are faster and to the left if not.
            bars = axis.barh(
                [row + offset for row in range(len(labels))],
                [speedup - 1 for speedup in speedups],
                thickness,
                left=1,
                label=f"vs {rival}",
            )
            texts = ["" if math.isnan(s) else number(s) for s in speedups]
            axis.bar_label(bars, texts, padding=2, fontsize=7)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.axhline(len(results) - 0.5, color="grey", linewidth=0.8)
        axis.grid(axis="x", alpha=0.3)
        axis.margins(x=0.12, y=0.01)
        axis.set_title(name)
        axis.set_xlabel("times faster")
    axes[0].set_yticks(range(len(labels)), labels, fontsize=8)
    axes[0].invert_yaxis()
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper right", ncols=len(RIVALS))
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
