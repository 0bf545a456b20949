"""What the command lines of the benchmarks share: options, header, progress, JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
from measure import CACHE_LIMIT, choose_device, describe, last_level_cache_bytes
from rich.console import Console
from rich.progress import Progress
from shapes import Case

# Of tiny inputs it would take too long to make more; those stay in some cache.
MOST_COPIES = 200

Item = TypeVar("Item")


def new_parser(description: str) -> argparse.ArgumentParser:
    """A parser whose help keeps the lines of the description."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=("cpu", "gpu"), help="default: the one MLX prefers"
    )


def add_filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only cases with TEXT in name or window, such as resnet, 'avg 3' or ceil",
    )


def add_timing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repeats",
        type=positive,
        default=5,
        metavar="N",
        help="rounds, in each of which everything timed has a turn "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--min-time",
        type=float,
        default=0.02,
        metavar="SECONDS",
        help="a turn calls again until it has timed this much (default: %(default)s)",
    )


def add_threads(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--threads",
        type=positive,
        default=os.cpu_count(),
        metavar="N",
        help=f"{what} (default: the cores, %(default)s)",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache-mb",
        type=float,
        default=last_level_cache_bytes() / 1e6,
        metavar="MB",
        help="size of the last-level cache (default: what the system tells, "
        "%(default).1f)",
    )


def add_cold(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--cold",
        action="store_true",
        help="copies of each input take turns, twice as many as the cache holds",
    )


def copies_of(case: Case, dtype: str, args: argparse.Namespace) -> int:
    """Of its operands, to be taken in turn."""
    if not args.cold:
        return 1
    itemsize = getattr(mx, dtype).size
    copies = case.inputs_larger_than(2 * args.cache_mb * 1e6, itemsize)
    return min(copies, MOST_COPIES)


def require_cache(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if not args.cache_mb:
        parser.error("the system does not tell the size of its cache; give --cache-mb")


def cache_text(megabytes: float) -> str:
    return f"{megabytes:.1f} MB" if megabytes else "unknown, see --cache-mb"


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number")


def select(cases: Sequence[Case], text: str) -> list[Case]:
    found = [c for c in cases if text.lower() in f"{c.name} {c.window}".lower()]
    if not found:
        names = ", ".join(case.name for case in cases)
        raise SystemExit(f"no case contains {text!r}; the cases are: {names}")
    return found


def wide_console(width: int = 140) -> Console:
    """At least so wide: a folded row is hard to read."""
    console = Console(highlight=False)
    console.width = max(console.width, width)
    return console


def print_header(console: Console, about: Mapping[str, str]) -> None:
    for key, value in about.items():
        console.print(f"{key}: {value}", soft_wrap=True)


def start(
    args: argparse.Namespace, *rivals: str, **about: str
) -> tuple[Console, dict[str, str]]:
    """Take the device and threads asked for, and print where it all runs."""
    # Not before metal_traffic.py has chosen which build of mlx_pooling to import.
    from contenders import use_threads

    device = choose_device(args.device)
    mx.set_cache_limit(CACHE_LIMIT)
    use_threads(args.threads)
    console = wide_console()
    versions = describe(device, "mlx-pooling", "mlx", *rivals)
    about = {**versions, "threads": str(args.threads), **about}
    print_header(console, about)
    return console, about


def track(items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
    """The items, with a progress bar that names the one at hand."""
    # On stderr and only on a terminal, so that a piped table stays a table.
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=len(items))
        for item in items:
            progress.update(task, description=name(item))
            yield item
            progress.advance(task)


def write_json(path: Path | None, **report: Any) -> None:
    if path:
        path.write_text(json.dumps(report, indent=1) + "\n")
