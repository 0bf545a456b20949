"""Count what the Metal shaders move on the pooling layers of real networks.

    python benchmarks/metal_traffic.py
    python benchmarks/metal_traffic.py --filter resnet --dtype float16 --json out.json

No Mac is needed: the tests' build of the extension runs every thread of a launch on the
CPU and counts its loads and stores. The launches are those that a Mac gets for the same
arrays; no shape is scaled down. mlx.nn is counted from its own graph.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from command import (
    add_filter,
    add_json,
    new_parser,
    print_header,
    select,
    track,
    wide_console,
    write_json,
)
from measure import peak_bytes, this_command, versions_of
from report import OURS, PASSES, THEIRS, number
from rich import box
from rich.table import Table
from shaders import DTYPES, add_build, shader_host, use_shaders
from shapes import CASES, Case

# Primitives that only describe their input's memory anew. Reshape and Flatten are among
# them when their input is contiguous, and copy it otherwise.
VIEWS = ("AsStrided", "Broadcast", "ExpandDims", "Slice", "Squeeze", "Transpose")
VIEWS += ("StopGradient", "Unflatten")
RESHAPES = ("Flatten", "Reshape")
STRIDED = ("AsStrided", "Broadcast", "Slice", "Transpose")

NOTES = f"""\
MB moved: every load and store issued, however often caches serve it. {THEIRS}: each
  primitive reads its inputs and writes its output; a scalar is read once. Its atomic
  additions and the copies that some primitives make of strided inputs are left out.
MB in memory: the same, but each array at most once for a primitive that reads it,
  however many elements a view makes of it. {OURS} reaches the least by construction.
least: x and y, and where there is a gradient dy and dx, with the offsets that a maximum
  writes and reads back.
loads: vector loads of all passes to a vector of the result, in the vjp those of its
  backward half; /16 B: to 16 bytes of it, however narrow the vectors. naive: with one
  load for every tap, in the vjp for every tap and array read.
tile: channels in a vector x neighbours (along H and W, or in a pass along its axis)
  that one thread of the last launch computes; "4 of 3x1x4" are vectors of 4 elements
  out of 3 channels x neighbours, "4 by 8" channels of which 8 lanes share the taps.
extra MB: most memory held at once beyond the results, by MLX's own account.
Counted as no traffic: {", ".join(sorted(VIEWS))};
  {" and ".join(RESHAPES)} of what is contiguous."""

Function = Callable[..., Any]
Record = dict[str, Any]


@dataclass
class Traffic:
    """What one library does in one pass."""

    moved: int = 0
    in_memory: int = 0
    extra: int = 0
    kernels: list[str] = field(default_factory=list)
    threads: int = 0
    loads: float | None = None
    loads_per_16_bytes: float | None = None
    tile: str | None = None


@dataclass(frozen=True)
class Operand:
    """An array of a graph: its bytes, those of the memory it views, and its order."""

    logical: int
    memory: int
    contiguous: bool = True


class Graph:
    """Adds up the traffic of an exported graph, one of its parts after the other."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self._arrays: dict[str, Operand] = {}

    def add(self, part: dict[str, Any]) -> None:
        """Take a part as ``mx.export_function`` hands it to a callback."""
        if part["type"] == "inputs":
            for name, shape, dtype in part["inputs"]:
                self._arrays[name] = _owner(shape, dtype)
        elif part["type"] == "constants":
            for name, value in part["constants"]:
                self._arrays[name] = _owner(value.shape, value.dtype)
        elif part["type"] == "primitive":
            self._add_primitive(part["name"], part["inputs"], part["outputs"])

    def _add_primitive(self, kind: str, inputs: list, outputs: list) -> None:
        sources = [self._arrays[name] for name, _, _ in inputs]
        reshapes = kind in RESHAPES and sources[0].contiguous
        if kind in VIEWS or reshapes:
            ((name, shape, dtype),) = outputs
            self._arrays[name] = Operand(
                _owner(shape, dtype).logical,
                sources[0].memory,
                sources[0].contiguous and kind not in STRIDED,
            )
            return
        results = {name: _owner(shape, dtype) for name, shape, dtype in outputs}
        self._arrays.update(results)
        self.traffic.kernels.append(kind)
        for each in (*sources, *results.values()):
            is_scalar = each.memory <= 8
            self.traffic.moved += each.memory if is_scalar else each.logical
            self.traffic.in_memory += min(each.logical, each.memory)


def _owner(shape: tuple[int, ...], dtype: mx.Dtype) -> Operand:
    nbytes = prod(shape) * dtype.size
    return Operand(nbytes, nbytes)


def passes(layer: Function) -> dict[str, Function]:
    """Both passes as functions of x and dy."""

    def vjp(x: mx.array, dy: mx.array) -> tuple[mx.array, mx.array]:
        (y,), (dx,) = mx.vjp(layer, [x], [dy])
        return y, dx

    return {"forward": lambda x, dy: (layer(x),), "vjp": vjp}


def extra_bytes(run: Function, results: int) -> int:
    return max(0, peak_bytes(lambda: mx.eval(run())) - results)


def count_theirs(run: Function, x: mx.array, dy: mx.array, results: int) -> Traffic:
    graph = Graph()
    mx.export_function(graph.add, run, x, dy)
    graph.traffic.extra = extra_bytes(lambda: run(x, dy), results)
    return graph.traffic


def tile(record: Record) -> str:
    """The last arguments of a kernel: max_pool<float, uchar, int, 4, 4, 2>.

    A flat one has its channels, and the window or its reach, besides: "4 of 3x1x4".
    Another has lanes instead of neighbours: "4 by 8".
    """
    sizes = re.search(r"(int|long)((, \d+)+)>$", record["kernel"]).group(2)
    sizes = sizes.removeprefix(", ").split(", ")
    if "_lanes<" in record["kernel"]:
        return "{} by {}".format(*sizes)
    if "_flat<" not in record["kernel"]:
        return "x".join(sizes)
    if shader_host.is_backward(record):
        _, width, channels, columns, _ = sizes
        return f"{width} of {channels}x{columns}"
    width, *tile = sizes[:4]
    return f"{width} of {'x'.join(tile)}"


def count_ours(run: Function, x: mx.array, dy: mx.array, results: int) -> Traffic:
    extra = extra_bytes(lambda: run(x, dy), results)
    records = shader_host.take_records()
    for record in records:
        if record["error"]:
            raise SystemExit(f"{record['kernel']}: {record['error']}")
    half = list(filter(shader_host.is_backward, records)) or records
    buffers = [buffer for record in records for buffer in record["buffers"]]
    return Traffic(
        moved=sum(buffer["bytes"] for buffer in buffers),
        extra=extra,
        kernels=[record["kernel"] for record in records],
        threads=sum(prod(record["grid"]) for record in records),
        loads=shader_host.loads_per_vector(half),
        loads_per_16_bytes=shader_host.loads_per_16_bytes(half),
        tile=tile(records[-1]),
    )


def run_case(case: Case, dtype: str) -> dict[str, Any]:
    """Every count of one case, ready for JSON."""
    import mlx_pooling

    x = mx.random.normal(case.shape, key=mx.random.key(0)).astype(getattr(mx, dtype))
    sizes = (case.kernel, case.stride, case.padding)
    ours = getattr(mlx_pooling, case.layer)(*sizes, **case.extras)
    theirs = None if case.extras else getattr(nn, case.layer)(*sizes)
    dy = mx.ones_like(ours(x))
    mx.eval(x, dy)
    shader_host.take_records()

    forward, vjp = case.compulsory_bytes(dy.shape, x.itemsize)
    taps = prod(case.kernel)
    operands = 2 if case.op == "max" else 1  # of the backward pass
    expected = {
        "forward": {"least": forward, "results": dy.nbytes, "naive": taps},
        "vjp": {
            "least": vjp,
            "results": dy.nbytes + x.nbytes,
            "naive": taps * operands * dy.size / x.size,
        },
    }
    result: dict[str, Any] = {**asdict(case), "window": case.window}
    for name, facts in expected.items():
        arguments = (x, dy, facts["results"])
        mine = count_ours(passes(ours)[name], *arguments)
        mine.in_memory = facts["least"]
        result[name] = {**facts, OURS: asdict(mine), THEIRS: None}
        if theirs is not None:
            rival = count_theirs(passes(theirs)[name], *arguments)
            result[name][THEIRS] = asdict(rival)
    return result


def table(which: str, results: list[dict[str, Any]]) -> Table:
    table = Table(
        title=PASSES[which],
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for head in ("case", "window"):
        table.add_column(head, no_wrap=True)
    for head in (
        *("tile", "thou.\nthreads", "loads", "naive", "loads\n/16 B"),
        *("least\nMB", "MB\nmoved"),
        *("/least", f"{THEIRS}\nmoved", f"{THEIRS}\nmemory", "/least"),
        *("dis-\npatches", THEIRS, "extra\nMB", THEIRS),
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        counts = result[which]
        ours, theirs = counts[OURS], counts[THEIRS] or {}
        least = counts["least"]
        in_memory = theirs.get("in_memory")
        table.add_row(
            result["name"],
            result["window"],
            ours["tile"],
            number(ours["threads"] / 1e3),
            number(ours["loads"]),
            number(counts["naive"]),
            number(ours["loads_per_16_bytes"]),
            number(least / 1e6),
            number(ours["moved"] / 1e6),
            number(ours["moved"] / least),
            _megabytes(theirs.get("moved")),
            _megabytes(in_memory),
            number(in_memory and in_memory / least),
            str(len(ours["kernels"])),
            str(len(theirs["kernels"])) if theirs else "-",
            _megabytes(ours["extra"]),
            _megabytes(theirs.get("extra")),
        )
    return table


def plot(path: Path, results: list[dict[str, Any]]) -> None:
    """Vector loads for each vector stored, beside one for every tap."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    labels = [f"{r['name']}  ({r['window']})" for r in results]
    rows = range(len(labels))
    figure, axes = plt.subplots(
        ncols=2,
        sharey=True,
        figsize=(13, 1.6 + 0.3 * len(labels)),
        layout="constrained",
    )
    for axis, (which, title) in zip(axes, PASSES.items(), strict=True):
        naive = [r[which]["naive"] for r in results]
        loads = [r[which][OURS]["loads"] for r in results]
        axis.barh(rows, naive, color="lightgrey", label="one for every tap")
        bars = axis.barh(rows, loads, 0.5, label=OURS)
        axis.bar_label(bars, [number(n) for n in loads], padding=2, fontsize=7)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_title(title if which == "forward" else "backward half")
        axis.set_xlabel("vector loads for each vector stored")
    axes[0].set_yticks(rows, labels, fontsize=8)
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right")
    figure.savefig(path, dpi=100)


def _megabytes(size: int | None) -> str:
    return number(None if size is None else round(size / 1e6, 4))


def primitives(results: list[dict[str, Any]]) -> str:
    """What the graphs of mlx.nn were found to run, the commonest first."""
    counts = Counter(
        kind
        for result in results
        for which in PASSES
        if result[which][THEIRS]
        for kind in result[which][THEIRS]["kernels"]
    )
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common())


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    add_filter(parser)
    add_json(parser)
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the loads")
    add_build(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cases = select(CASES, args.filter)
    mx.set_default_device(mx.cpu)
    console = wide_console(180)
    about = {
        "command": this_command(),
        "versions": versions_of("mlx"),
        "dtype": args.dtype,
        "shapes": "as in the networks, none scaled down",
    }
    print_header(console, about)
    with console.status("building the extension"):
        use_shaders(args.build)
    results = [run_case(case, args.dtype) for case in track(cases, lambda c: c.name)]
    console.print()
    for which in PASSES:
        console.print(table(which, results))
    console.print(NOTES, soft_wrap=True)
    console.print(f"Primitives of {THEIRS} counted: {primitives(results)}.")
    write_json(args.json, about=about, results=results)
    if args.plot:
        plot(args.plot, results)


if __name__ == "__main__":
    main()
