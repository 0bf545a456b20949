"""Pooling channels-last views of channels-first arrays, without and with a copy.

    python benchmarks/channels_first.py
    python benchmarks/channels_first.py --json channels_first.json

``x.transpose(0, 2, 3, 1)`` of an NCHW array can be pooled as N * C planes of one
channel, or be copied to channels last first. The operation chooses (``pools_planes``
in csrc/ops.cpp); this measures both ways, forward and with vjp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mlx.core as mx
import mlx_pooling
from command import (
    add_device,
    add_json,
    add_threads,
    add_timing,
    new_parser,
    start,
    track,
    write_json,
)
from measure import Action, interleave
from report import PASSES, number
from rich import box
from rich.table import Table
from shapes import Case, make_case

# Of shapes (N, C, H, W).
CASES = tuple(
    make_case("", op, shape, *window)
    for shape, *window in (
        ((8, 64, 56, 56), 3, 1, 1),
        ((2, 128, 32, 32), 13, 1, 6),
        ((1, 3, 224, 224), 3, 1, 1),
        ((8, 64, 112, 112), 3, 2, 1),
        ((8, 256, 28, 28), 2, 2),
        ((1, 3, 224, 224), 2, 2),
        ((8, 192, 35, 35), 5, 3),
        ((32, 512, 14, 14), 7, 7),
        ((32, 512, 7, 7), 7, 7),
    )
    for op in ("max", "avg")
)

Pool: TypeAlias = Callable[[mx.array], mx.array]


def copied(pool: Pool, x: mx.array) -> mx.array:
    return pool(mx.contiguous(x.transpose(0, 2, 3, 1)))


def planes(pool: Pool, x: mx.array) -> mx.array:
    y = pool(x.flatten(0, 1)[..., None])
    return mx.unflatten(y.squeeze(-1), 0, x.shape[:2]).transpose(0, 2, 3, 1)


WAYS = {"copy": copied, "planes": planes}


def actions(case: Case) -> dict[tuple[str, str], Action]:
    pool = getattr(mlx_pooling, case.layer)(case.kernel, case.stride, case.padding)
    x = mx.random.normal(case.shape)
    y = copied(pool, x)
    # Downstream, too, channels come first.
    dy = mx.ones_like(y.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    mx.eval(x, y, dy)
    found: dict[tuple[str, str], Action] = {}
    for name, way in WAYS.items():

        def forward(way: Any = way) -> mx.array:
            return way(pool, x)

        def vjp(way: Any = way) -> list[list[mx.array]]:
            return mx.vjp(lambda x: way(pool, x), [x], [dy])

        if not mx.allclose(forward(), y, rtol=1e-4, atol=1e-5):
            raise SystemExit(f"{case.window} of {name} differs")
        for which, run in zip(PASSES, (forward, vjp), strict=True):
            found[which, name] = lambda run=run: mx.eval(run())
    return found


def table(results: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("window", "NCHW"):
        table.add_column(head, no_wrap=True)
    for title in PASSES.values():
        for head in (f"{title}\ncopy ms", "planes ms", "ratio"):
            table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        cells = []
        for which in PASSES:
            copy, plane = (result["ms"][which][name] for name in WAYS)
            cells += [copy, plane, copy / plane]
        shape = "x".join(map(str, result["shape"]))
        table.add_row(result["window"], shape, *map(number, cells))
    return table


def main() -> None:
    parser = new_parser(__doc__)
    add_device(parser)
    add_timing(parser)
    add_threads(parser, "threads of the CPU kernels")
    add_json(parser)
    args = parser.parse_args()
    console, about = start(args)
    results = []
    for case in track(CASES, lambda case: case.window):
        times = interleave(actions(case), args.repeats, args.min_time)
        ms: dict[str, dict[str, float]] = {which: {} for which in PASSES}
        for (which, name), seconds in times.items():
            ms[which][name] = 1e3 * seconds
        results.append({"window": case.window, "shape": case.shape, "ms": ms})
    console.print(table(results))
    write_json(args.json, about=about, results=results)


if __name__ == "__main__":
    main()
