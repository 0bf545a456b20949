"""What a call costs beside the kernel: Python, building the graph, evaluating it.

    python benchmarks/call_overhead.py
    python benchmarks/call_overhead.py --repeats 15 --json overhead.json

Construction of a layer, a call of it and its vjp without evaluation, against mlx.nn;
then whole calls on a tiny input, against PyTorch too where it is installed. (A GPU is
waited for once in eight of these.)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling
from command import (
    add_device,
    add_json,
    add_timing,
    new_parser,
    print_header,
    track,
    wide_console,
    write_json,
)
from contenders import (
    contenders,
    mlx_layer,
    operands,
    seconds_of_passes,
)
from measure import Action, choose_device, describe, interleave
from report import OURS, PASSES, RIVALS, THEIRS, geometric_mean, number
from rich import box
from rich.console import Console
from rich.table import Table
from shapes import Case, make_case

DTYPE = "float32"
INPUTS = ((1, 8, 4), (1, 8, 8, 4), (1, 4, 4, 4, 4))
WINDOWS = ((2, 2, 0), (3, 2, 1))
CASES = [
    make_case(f"{op} {len(shape) - 2}-d", op, shape, *window)
    for op in ("max", "avg")
    for shape in INPUTS
    for window in WINDOWS
]

# Without evaluation one call is too short for the clock.
CALLS = 100

LIBRARIES = {OURS: mlx_pooling, THEIRS: nn}
FUNCTION = "function"  # ours without a layer; mlx.nn has none
STAGES = {
    "construct": "construction of the layer",
    "call": "call, not evaluated",
    "vjp": "forward + vjp, not evaluated",
}

Result = dict[str, Any]


def repeated(call: Callable[[], object]) -> Action:
    def action() -> None:
        for _ in range(CALLS):
            call()

    return action


def builders(case: Case) -> dict[str, dict[str, Action]]:
    """What each stage does in each library, CALLS times."""
    [(x, dy)] = operands(case, DTYPE)
    kernel, stride, padding = case.kernel[0], case.stride[0], case.padding[0]
    function = getattr(mlx_pooling, f"{case.op}_pool{len(case.kernel)}d")

    def construct(library: Any) -> Action:
        kind = getattr(library, case.layer)
        return repeated(lambda: kind(kernel, stride, padding))

    def call(layer: Callable[[mx.array], mx.array]) -> Action:
        return repeated(lambda: layer(x))

    def vjp(layer: Callable[[mx.array], mx.array]) -> Action:
        return repeated(lambda: mx.vjp(layer, [x], [dy]))

    def pool(x: mx.array) -> mx.array:
        return function(x, kernel, stride, padding)

    layers = {name: mlx_layer(case, library) for name, library in LIBRARIES.items()}
    functions = {**layers, FUNCTION: pool}
    return {
        "construct": {name: construct(each) for name, each in LIBRARIES.items()},
        "call": {name: call(each) for name, each in functions.items()},
        "vjp": {name: vjp(each) for name, each in functions.items()},
    }


def compare(times: dict[str, float]) -> Result:
    return {
        "us": {name: time * 1e6 for name, time in times.items()},
        "speedup": {
            name: time / times[OURS] for name, time in times.items() if name in RIVALS
        },
    }


def run_case(case: Case, args: argparse.Namespace) -> Result:
    """Every measurement of one case, ready for JSON."""
    result: Result = {"name": case.name, "window": case.window, "shape": case.shape}
    for stage, actions in builders(case).items():
        times = interleave(actions, args.repeats, args.min_time)
        result[stage] = compare({name: t / CALLS for name, t in times.items()})
    found = contenders(case, DTYPE)
    for which in PASSES:
        times = seconds_of_passes(found, which, args)
        result[f"whole {which}"] = compare(times)
    return result


def table(title: str, stage: str, results: list[Result]) -> Table:
    times = list(results[0][stage]["us"])
    rivals = list(results[0][stage]["speedup"])
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for head in ("layer", "window"):
        table.add_column(head)
    for head in (*(f"{name}\nus" for name in times), *(f"vs\n{r}" for r in rivals)):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        measured = result[stage]
        table.add_row(
            result["name"],
            result["window"],
            *(number(measured["us"][name]) for name in times),
            *(number(measured["speedup"][rival]) for rival in rivals),
            end_section=result is results[-1],
        )
    table.add_row(
        "geometric mean",
        "",
        *[""] * len(times),
        *(
            number(geometric_mean(r[stage]["speedup"][rival] for r in results))
            for rival in rivals
        ),
    )
    return table


def print_slower(
    console: Console, titles: dict[str, str], results: list[Result]
) -> None:
    """Where a rival is faster."""
    for stage, title in titles.items():
        slower = [
            f"{result['name']} {result['window']} ({number(speedup)} {rival})"
            for result in results
            for rival, speedup in result[stage]["speedup"].items()
            if speedup < 1
        ]
        if slower:
            console.print(f"{title}: slower are {', '.join(slower)}", soft_wrap=True)


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    add_device(parser)
    add_timing(parser)
    add_json(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    device = choose_device(args.device)

    console = wide_console()
    about = {**describe(device, "mlx-pooling", "mlx", "torch"), "dtype": DTYPE}
    print_header(console, about)
    results = [run_case(case, args) for case in track(CASES, lambda c: c.name)]
    titles = STAGES | {f"whole {which}": f"whole {PASSES[which]}" for which in PASSES}
    console.print()
    for stage, title in titles.items():
        console.print(table(title, stage, results))
    print_slower(console, titles, results)
    write_json(args.json, about=about, results=results)


if __name__ == "__main__":
    main()
