"""Whether half types and uint8, which move half and a quarter of the bytes, show it.

    python benchmarks/dtypes.py
    python benchmarks/dtypes.py --filter 'max 3' --repeats 9

Pooling layers of real networks, each with a batch so large that its input does not fit
the last-level cache even in uint8. The dtypes of a case take turns, and so does a copy.
Ideal is the share of float32's bytes: in any dtype, the gradient of a maximum moves
which tap it was besides, and averages of uint8 are float32.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import mlx.core as mx
from command import (
    add_cache,
    add_device,
    add_filter,
    add_json,
    add_threads,
    add_timing,
    cache_text,
    new_parser,
    require_cache,
    select,
    start,
    track,
    write_json,
)
from contenders import compulsory_bytes, contenders, seconds_of_passes
from measure import (
    COPY_BYTES,
    Action,
    copier,
)
from report import OURS, PASSES, geometric_mean, number
from rich import box
from rich.console import Console
from rich.table import Table
from shapes import CASES, Case

BASE = "float32"
DTYPES = dict.fromkeys(("max", "avg"), (BASE, "float16", "bfloat16", "uint8"))
# One of each kind of window.
NAMES = (
    *("VGG pool1", "ResNet stem", "Inception branch", "YOLO SPP 13"),
    *("DenseNet transition", "PoolFormer", "Guided filter", "ResNet-50 head"),
)

Result = dict[str, Any]


def run_case(case: Case, args: argparse.Namespace, copy: Action) -> list[Result]:
    """A result for each dtype, ready for JSON."""
    dtypes = DTYPES[case.op]
    found = {dtype: contenders(case, dtype, ())[OURS] for dtype in dtypes}
    results = {
        dtype: {**asdict(case), "window": case.window, "dtype": dtype}
        for dtype in dtypes
    }
    for which in PASSES:
        times = seconds_of_passes(found, which, args, copy=copy)
        copy_gbps = 2 * COPY_BYTES / times.pop("copy") / 1e9
        base_bytes = compulsory_bytes(case, BASE)[which]
        for dtype, time in times.items():
            nbytes = compulsory_bytes(case, dtype)[which]
            results[dtype][which] = {
                "bytes": nbytes,
                "ms": time * 1e3,
                "gbps": nbytes / time / 1e9,
                "share_of_copy": nbytes / time / 1e9 / copy_gbps,
                "of_base": time / times[BASE],
                "ideal": nbytes / base_bytes,
            }
    return list(results.values())


def table(which: str, results: list[Result]) -> Table:
    table = Table(title=PASSES[which], title_justify="left", box=box.SIMPLE_HEAD)
    for head in ("case", "window", "input", "dtype"):
        table.add_column(head, no_wrap=True)
    for head in ("ms", "GB/s", "of\ncopy", f"of\n{BASE}", "ideal"):
        table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        measured, dtype = result.get(which), result["dtype"]
        if measured is None:
            continue
        shape = "x".join(map(str, result["shape"]))
        names = (result["name"], result["window"], shape)
        table.add_row(
            *(names if dtype == BASE else [""] * 3),
            dtype,
            number(measured["ms"]),
            number(measured["gbps"]),
            f"{measured['share_of_copy']:.0%}",
            number(measured["of_base"]),
            number(measured["ideal"]),
        )
    return table


def means(results: list[Result]) -> dict[str, dict[str, dict[str, Any]]]:
    """Geometric means of the time over that of the base, and of the ideal."""

    def mean(op: str, which: str, dtype: str) -> dict[str, float | None]:
        found = [
            r[which]
            for r in results
            if r["op"] == op and r["dtype"] == dtype and which in r
        ]
        return {
            key: geometric_mean(measured[key] for measured in found)
            for key in ("of_base", "ideal")
        }

    return {
        op: {
            which: {dtype: mean(op, which, dtype) for dtype in dtypes[1:]}
            for which in PASSES
        }
        for op, dtypes in DTYPES.items()
    }


def print_means(console: Console, means: dict[str, Any]) -> None:
    console.print(f"time of that of {BASE}, geometric means (ideal in brackets):")
    for op, passes in means.items():
        for which, of_dtypes in passes.items():
            known = [
                f"{dtype} {number(mean['of_base'])} ({number(mean['ideal'])})"
                for dtype, mean in of_dtypes.items()
                if mean["of_base"] is not None
            ]
            if known:
                console.print(f"  {op}, {PASSES[which]}: {', '.join(known)}")


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    add_device(parser)
    add_filter(parser)
    add_timing(parser)
    add_threads(parser, "threads of the pooling and of the copy")
    add_cache(parser)
    add_json(parser)
    args = parser.parse_args()
    require_cache(parser, args)
    return args


def main() -> None:
    args = parse_args()
    cases = select([case for case in CASES if case.name in NAMES], args.filter)
    console, about = start(args, **{"last-level cache": cache_text(args.cache_mb)})
    copy = copier(mx.default_device(), args.threads)
    results = [
        result
        for case in track(cases, lambda c: c.name)
        for result in run_case(case.larger_than(args.cache_mb * 1e6, 1), args, copy)
    ]
    console.print()
    for which in PASSES:
        console.print(table(which, results))
    print_means(console, means(results))
    write_json(args.json, about=about, results=results, means=means(results))


if __name__ == "__main__":
    main()
