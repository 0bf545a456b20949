"""Time mlx_pooling against mlx.nn and PyTorch on the pooling layers of real networks.

    python benchmarks/pooling.py
    python benchmarks/pooling.py --filter resnet --dtype float16 --repeats 9
    python benchmarks/pooling.py --json results.json --plot results.png
    python benchmarks/pooling.py --global
    python benchmarks/pooling.py --cold
    python benchmarks/pooling.py --beyond-cache

PyTorch takes part where it is installed, on the CPU, in its channels-last layout. GB/s
are of what a pass has to move at least: x and y, for the gradient dy and dx, and for
that of a maximum which tap it was, in one, two or four bytes that are written and read.
--global times layers of one window over the whole input instead. With --cold, each call
takes another copy of the input, which no cache holds then, as of a layer in a large
network; else it is where the call before left it. The last command leaves the rivals
out and gives each layer a batch that no cache holds, for the share of the copy
bandwidth.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from statistics import median

import mlx.core as mx
from command import (
    add_cache,
    add_cold,
    add_device,
    add_filter,
    add_json,
    add_threads,
    add_timing,
    cache_text,
    copies_of,
    new_parser,
    require_cache,
    select,
    start,
    track,
    write_json,
)
from contenders import (
    TOLERANCE,
    compulsory_bytes,
    contenders,
    seconds_of_passes,
)
from measure import (
    COPY_BYTES,
    Action,
    cached_copy_gbps,
    copier,
)
from report import (
    OURS,
    PASSES,
    RIVALS,
    THEIRS,
    Result,
    beyond_cache,
    geometric_means,
    markdown_row,
    plot,
    share_line,
    share_table,
    table,
)
from rich.console import Console
from shapes import CASES, GLOBAL_CASES, Case


def run_case(case: Case, args: argparse.Namespace, copy: Action) -> Result:
    """Every measurement of one case, ready for JSON."""
    rivals = () if args.beyond_cache else RIVALS
    copies = copies_of(case, args.dtype, args)
    found = contenders(case, args.dtype, rivals, copies)
    result: Result = {
        **asdict(case),
        "window": case.window,
        "overlapping": case.overlapping,
    }
    nbytes = compulsory_bytes(case, args.dtype)
    for which in PASSES:
        # The copy takes turns with the rest: its speed varies from minute to minute.
        times = seconds_of_passes(found, which, args, copy=copy)
        copy_gbps = 2 * COPY_BYTES / times.pop("copy") / 1e9
        gbps = {name: nbytes[which] / time / 1e9 for name, time in times.items()}
        result[which] = {
            "bytes": nbytes[which],
            "copy_gbps": copy_gbps,
            "ms": {name: time * 1e3 for name, time in times.items()},
            "gbps": gbps,
            "share_of_copy": {name: rate / copy_gbps for name, rate in gbps.items()},
            "speedup": {
                name: time / times[OURS] for name, time in times.items() if name != OURS
            },
        }
    result["vjp"]["peak_bytes"] = {
        name: found[name].vjp_peak if name in found else None for name in (OURS, THEIRS)
    }
    return result


def run_cases(cases: list[Case], args: argparse.Namespace) -> list[Result]:
    copy = copier(mx.default_device(), args.threads)
    return [run_case(case, args, copy) for case in track(cases, lambda c: c.name)]


def chosen_cases(args: argparse.Namespace) -> list[Case]:
    cases = select(GLOBAL_CASES if args.whole else CASES, args.filter)
    if args.beyond_cache:
        itemsize = getattr(mx, args.dtype).size
        cases = [case.larger_than(args.cache_mb * 1e6, itemsize) for case in cases]
    return cases


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    add_device(parser)
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    add_filter(parser)
    add_timing(parser)
    add_threads(parser, "threads of each library that can use several, and of the copy")
    add_cache(parser)
    parser.add_argument(
        "--global",
        dest="whole",
        action="store_true",
        help="layers of one window over the whole input",
    )
    where = parser.add_mutually_exclusive_group()
    add_cold(where)
    where.add_argument(
        "--beyond-cache",
        action="store_true",
        help="no rivals, and batches whose input alone is larger than the cache",
    )
    add_json(parser)
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the speed-ups")
    args = parser.parse_args()
    if args.cold or args.beyond_cache:
        require_cache(parser, args)
    if args.beyond_cache and args.plot:
        parser.error("--plot draws speed-ups, which --beyond-cache does not measure")
    return args


def print_shares(console: Console, results: list[Result], cache_mb: float) -> None:
    beyond = {which: beyond_cache(which, results, cache_mb * 1e6) for which in PASSES}
    for which, some in beyond.items():
        if some:
            console.print(share_table(which, some))
    for which, some in beyond.items():
        console.print(share_line(which, some))
    console.print()


def main() -> None:
    args = parse_args()
    cases = chosen_cases(args)
    where = {"last-level cache": cache_text(args.cache_mb)}
    if args.cold:
        where["inputs"] = "in memory"
    console, about = start(args, "torch", dtype=args.dtype, **where)
    results = run_cases(cases, args)

    rates = [result[which]["copy_gbps"] for result in results for which in PASSES]
    about["copy"] = f"{median(rates):.1f} GB/s through memory"
    if mx.default_device() == mx.cpu:
        about["copy"] += f", {cached_copy_gbps(args.threads):.0f} in cache"
    console.print(f"copy: {about['copy']}\n")
    means = geometric_means(results)
    if not args.beyond_cache:
        for which in PASSES:
            console.print(table(which, results, means))
    if args.cache_mb:
        print_shares(console, results, args.cache_mb)
    if not args.beyond_cache and not args.cold:
        console.print("row for benchmarks/README.md:")
        console.print(markdown_row(about, means), soft_wrap=True)
    write_json(args.json, about=about, results=results, means=means)
    if args.plot:
        inputs = ", inputs in memory" if args.cold else ""
        title = f"{OURS}, {args.dtype}, on {about['device']}{inputs}"
        plot(args.plot, title, results, means)


if __name__ == "__main__":
    main()
