"""Time mlx_pooling against mlx.nn and PyTorch on the pooling layers of real networks.

    python benchmarks/pooling.py
    python benchmarks/pooling.py --filter resnet --dtype float16 --repeats 9
    python benchmarks/pooling.py --json results.json --plot results.png

PyTorch takes part where it is installed, on the CPU, in its channels-last layout.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling
import numpy as np
from measure import (
    CACHE_LIMIT,
    COPY_BYTES,
    Action,
    cached_copy_gbps,
    choose_device,
    copier,
    describe,
    interleave,
    peak_bytes,
)
from report import (
    OURS,
    PASSES,
    THEIRS,
    TORCH,
    Result,
    geometric_means,
    markdown_row,
    plot,
    table,
)
from rich.console import Console
from rich.progress import Progress
from shapes import CASES, Case

try:
    import torch
except ImportError:
    torch = None

# Bounds on the difference of outputs; mlx.nn adds up a window in the half type itself.
TOLERANCE = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}


@dataclass(frozen=True)
class Contender:
    """One library's layer on one case; an action is ``calls`` passes."""

    output: np.ndarray
    forward: Action
    vjp: Action
    calls: int = 1
    vjp_peak: int | None = None


def mlx_contender(
    layer: Callable[[mx.array], mx.array], x: mx.array, dy: mx.array
) -> Contender:
    def forward(calls: int) -> None:
        mx.eval([layer(x) for _ in range(calls)])

    def vjp(calls: int) -> None:
        passes = [mx.vjp(layer, [x], [dy]) for _ in range(calls)]
        # Every library owes dx in dense memory: mlx.nn may return a view, which for a
        # global average is a broadcast that nobody has written yet.
        mx.eval([(y, mx.contiguous(dx)) for (y,), (dx,) in passes])

    # A GPU gets several passes before it is waited for, as in a training step: else
    # the wait would be timed, not the kernel.
    calls = 8 if mx.default_device() == mx.gpu else 1
    return Contender(
        np.array(layer(x).astype(mx.float32)),
        partial(forward, calls),
        partial(vjp, calls),
        calls,
        peak_bytes(lambda: mx.eval(mx.vjp(layer, [x], [dy]))),
    )


def torch_layer(case: Case) -> Callable[[Any], Any]:
    """PyTorch's function; 1-d as 2-d of height 1, which has a channels-last form."""
    sizes = (case.kernel, case.stride, case.padding)
    if len(case.kernel) == 1:
        sizes = ((1, *case.kernel), (1, *case.stride), (0, *case.padding))
    function = getattr(torch.nn.functional, f"{case.op}_pool{len(sizes[0])}d")
    names = ("kernel_size", "stride", "padding")
    return partial(function, **dict(zip(names, sizes, strict=True)), **case.extras)


def torch_contender(
    case: Case, x: mx.array, dy: mx.array, dtype: str
) -> Contender | None:
    """PyTorch on the same values, or None where it has no kernel for the type."""

    def channels_last(values: mx.array) -> Any:
        tensor = torch.from_numpy(np.array(values.astype(mx.float32)))
        if len(case.kernel) == 1:
            tensor = tensor.unsqueeze(1)
        return tensor.movedim(-1, 1).to(getattr(torch, dtype))

    layer = torch_layer(case)
    plain, cotangent = channels_last(x), channels_last(dy)
    leaf = plain.clone().requires_grad_()

    def forward() -> Any:
        with torch.no_grad():
            return layer(plain)

    def vjp() -> Any:
        return torch.autograd.grad(layer(leaf), leaf, cotangent)

    try:
        output = forward().float().movedim(1, -1).numpy()
        vjp()
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        return None
    return Contender(output.reshape(dy.shape), forward, vjp)


def contenders(case: Case, dtype: str) -> dict[str, Contender]:
    """The libraries that have this case, their outputs checked to agree."""
    x = mx.random.normal(case.shape, key=mx.random.key(0)).astype(getattr(mx, dtype))
    sizes = (case.kernel, case.stride, case.padding)
    ours = getattr(mlx_pooling, case.layer)(*sizes, **case.extras)
    dy = mx.random.normal(ours(x).shape, key=mx.random.key(1)).astype(x.dtype)
    mx.eval(x, dy)

    found = {OURS: mlx_contender(ours, x, dy)}
    if not case.extras:
        found[THEIRS] = mlx_contender(getattr(nn, case.layer)(*sizes), x, dy)
    if torch is not None and mx.default_device() == mx.cpu:
        rival = torch_contender(case, x, dy, dtype)
        if rival is not None:
            found[TORCH] = rival

    for name, rival in found.items():
        if not np.allclose(
            found[OURS].output, rival.output, rtol=0, atol=TOLERANCE[dtype]
        ):
            raise SystemExit(f"{case.name}: the outputs of {OURS} and {name} differ")
    return found


def run_case(case: Case, args: argparse.Namespace, copy: Action) -> Result:
    """Every measurement of one case, ready for JSON."""
    found = contenders(case, args.dtype)
    itemsize = getattr(mx, args.dtype).size
    forward_bytes = (np.prod(case.shape) + found[OURS].output.size) * itemsize
    result: Result = {
        **asdict(case),
        "window": case.window,
        "overlapping": case.overlapping,
    }
    # A forward pass must read x and write y; the gradient must read dy and write dx.
    for which, nbytes in (("forward", forward_bytes), ("vjp", 2 * forward_bytes)):
        actions = {name: getattr(each, which) for name, each in found.items()}
        # The copy takes turns with the rest: its speed varies from minute to minute.
        times = interleave({**actions, "copy": copy}, args.repeats, args.min_time)
        copy_gbps = 2 * COPY_BYTES / times.pop("copy") / 1e9
        times = {name: time / found[name].calls for name, time in times.items()}
        gbps = {name: nbytes / time / 1e9 for name, time in times.items()}
        result[which] = {
            "bytes": int(nbytes),
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
    # On stderr and only on a terminal, so that a piped table stays a table.
    console = Console(stderr=True)
    results = []
    with Progress(
        console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            progress.update(task, description=case.name)
            results.append(run_case(case, args, copy))
            progress.advance(task)
    return results


def select(text: str) -> list[Case]:
    cases = [c for c in CASES if text.lower() in f"{c.name} {c.window}".lower()]
    if not cases:
        names = ", ".join(case.name for case in CASES)
        raise SystemExit(f"no case contains {text!r}; the cases are: {names}")
    return cases


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=("cpu", "gpu"), help="default: the one MLX prefers"
    )
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only cases with TEXT in name or window, such as resnet, 'avg 3' or ceil",
    )
    parser.add_argument(
        "--repeats",
        type=positive,
        default=5,
        metavar="N",
        help="rounds, in each of which every library has a turn (default: %(default)s)",
    )
    parser.add_argument(
        "--min-time",
        type=float,
        default=0.02,
        metavar="SECONDS",
        help="a turn calls again until it has timed this much (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        default=os.cpu_count(),
        metavar="N",
        help="threads of each library that can use several, and of the copy "
        "(default: the cores, %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the speed-ups")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cases = select(args.filter)
    device = choose_device(args.device)
    mx.set_cache_limit(CACHE_LIMIT)
    os.environ["MLX_POOLING_NUM_THREADS"] = str(args.threads)  # read at the first use
    if torch is not None:
        torch.set_num_threads(args.threads)

    console = Console(highlight=False)
    console.width = max(console.width, 140)  # a folded row is hard to read
    about = {
        "command": shlex.join(["python", "benchmarks/pooling.py", *sys.argv[1:]]),
        **describe(device, "mlx-pooling", "mlx", "torch"),
        "dtype": args.dtype,
        "threads": str(args.threads),
    }
    for key, value in about.items():
        console.print(f"{key}: {value}", soft_wrap=True)
    results = run_cases(cases, args)

    rates = [result[which]["copy_gbps"] for result in results for which in PASSES]
    about["copy"] = f"{median(rates):.1f} GB/s through memory"
    if device == mx.cpu:
        about["copy"] += f", {cached_copy_gbps(args.threads):.0f} in cache"
    console.print(f"copy: {about['copy']}\n")
    means = geometric_means(results)
    for which in PASSES:
        console.print(table(which, results, means))
    console.print("row for benchmarks/README.md:")
    console.print(markdown_row(about, means), soft_wrap=True)
    if args.json:
        report = {"about": about, "results": results, "means": means}
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.plot:
        title = f"{OURS}, {args.dtype}, on {about['device']}"
        plot(args.plot, title, results, means)


if __name__ == "__main__":
    main()
