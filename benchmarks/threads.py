"""What a thread for every core gains over one, for tiny, middle and large inputs.

    python benchmarks/threads.py
    python benchmarks/threads.py --filter resnet --repeats 15

A process reads its number of threads once. So there is a process for each number; they
stay alive, hold the same arrays, and take turns. Only on the CPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import groupby
from multiprocessing.connection import Connection
from typing import Any

import mlx.core as mx
from command import (
    add_filter,
    add_json,
    add_threads,
    add_timing,
    new_parser,
    print_header,
    select,
    track,
    wide_console,
    write_json,
)
from contenders import compulsory_bytes, contenders, use_threads
from measure import CACHE_LIMIT, choose_device, describe, take_turns, turn
from report import OURS, PASSES, geometric_mean, number
from rich import box
from rich.console import Console
from rich.table import Table
from shapes import CASES, Case, make_case

DTYPE = "float32"

# Beside those of the networks at batch 1 and 8 x 8, of which there are two.
TINY = (
    make_case("Tiny audio", "avg", (1, 64, 8), 4, 4),
    make_case("Tiny gray", "max", (1, 16, 16, 1), 3, 2, 1),
    make_case("Tiny same", "avg", (1, 8, 8, 32), 3, 1, 1),
    make_case("Tiny video", "max", (1, 4, 8, 8, 16), 2, 2),
)

# Groups by the bytes that a forward pass must move at least.
GROUPS = {"tiny": 0, "middle": 128 << 10, "large": 8 << 20}

Result = dict[str, Any]


def work(threads: int, requests: Connection) -> None:
    """Prepare a case that comes; time a pass of it for so long; until None comes."""
    choose_device("cpu")
    mx.set_cache_limit(CACHE_LIMIT)
    use_threads(threads)
    while (request := requests.recv()) is not None:
        if isinstance(request, Case):
            contender = contenders(request, DTYPE, ())[OURS]
        else:
            which, min_time = request
            requests.send(turn(getattr(contender, which), min_time))


@contextmanager
def workers(numbers: list[int]) -> Iterator[dict[int, Connection]]:
    """A process for each number of threads."""
    context = multiprocessing.get_context("spawn")
    connections = {}
    processes = []
    for threads in numbers:
        connections[threads], theirs = context.Pipe()
        process = context.Process(target=work, args=(threads, theirs), daemon=True)
        process.start()
        theirs.close()  # so that its end is noticed
        processes.append(process)
    yield connections
    for connection in connections.values():
        connection.send(None)
    for process in processes:
        process.join()


def remote_turn(worker: Connection, which: str, min_time: float) -> list[float]:
    worker.send((which, min_time))
    return worker.recv()


def run_case(
    case: Case, workers: dict[int, Connection], args: argparse.Namespace
) -> Result:
    """Every measurement of one case, ready for JSON."""
    for worker in workers.values():
        worker.send(case)
    nbytes = compulsory_bytes(case, DTYPE)
    result: Result = {**asdict(case), "window": case.window, "group": group(case)}
    for which in PASSES:
        turns = {
            threads: partial(remote_turn, worker, which, args.min_time)
            for threads, worker in workers.items()
        }
        times = take_turns(turns, args.repeats)
        result[which] = {
            "bytes": nbytes[which],
            "ms": {str(threads): time * 1e3 for threads, time in times.items()},
            "speedup": times[1] / times[args.threads],
        }
    return result


def group(case: Case) -> str:
    nbytes = compulsory_bytes(case, DTYPE)["forward"]
    return max((name for name in GROUPS if nbytes >= GROUPS[name]), key=GROUPS.get)


def table(which: str, results: list[Result]) -> Table:
    table = Table(title=PASSES[which], title_justify="left", box=box.SIMPLE_HEAD)
    for head in ("", "case", "window", "input"):
        table.add_column(head, no_wrap=True)
    numbers = results[0][which]["ms"]
    for head in ("MB", *(f"ms on {threads}" for threads in numbers), "speed-up"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, some in groupby(results, lambda result: result["group"]):
        table.add_section()
        for result in some:
            measured = result[which]
            table.add_row(
                name,
                result["name"],
                result["window"],
                "x".join(map(str, result["shape"])),
                number(measured["bytes"] / 1e6),
                *map(number, measured["ms"].values()),
                number(measured["speedup"]),
            )
    return table


def means(results: list[Result]) -> dict[str, dict[str, dict[str, float]]]:
    """Geometric mean and least speed-up of each group and pass."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in dict.fromkeys(result["group"] for result in results):
        found[name] = {}
        for which in PASSES:
            speedups = [r[which]["speedup"] for r in results if r["group"] == name]
            mean = geometric_mean(speedups)
            found[name][which] = {"mean": mean, "least": min(speedups)}
    return found


def print_means(console: Console, means: dict[str, Any]) -> None:
    console.print("speed-up, geometric mean (least):")
    for name, passes in means.items():
        texts = [
            f"{PASSES[which]} {number(each['mean'])} ({number(each['least'])})"
            for which, each in passes.items()
        ]
        console.print(f"  {name}: {', '.join(texts)}")


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    add_filter(parser)
    add_timing(parser)
    add_threads(parser, "threads to compare with one")
    add_json(parser)
    args = parser.parse_args()
    if args.threads == 1:
        parser.error("one thread is what the others are compared with; give --threads")
    return args


def main() -> None:
    args = parse_args()
    cases = select((*TINY, *CASES), args.filter)
    cases.sort(key=lambda case: compulsory_bytes(case, DTYPE)["forward"])
    device = choose_device("cpu")

    console = wide_console()
    about = {
        **describe(device, "mlx-pooling", "mlx"),
        "dtype": DTYPE,
        "threads": f"1 and {args.threads}",
    }
    print_header(console, about)
    with workers([1, args.threads]) as connections:
        results = [
            run_case(case, connections, args) for case in track(cases, lambda c: c.name)
        ]
    console.print()
    for which in PASSES:
        console.print(table(which, results))
    print_means(console, means(results))
    write_json(args.json, about=about, results=results, means=means(results))


if __name__ == "__main__":
    main()
