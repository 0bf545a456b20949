"""Pooling channels-last views of channels-first arrays, without and with a copy.

    python benchmarks/channels_first.py

``x.transpose(0, 2, 3, 1)`` of an NCHW array can be pooled as N * C planes of one
channel, or be copied to channels last first. The operation chooses by stride
(``pools_planes`` in csrc/ops.cpp); this measures both ways, forward and vjp.
"""

from __future__ import annotations

from argparse import ArgumentParser

import measure
import mlx.core as mx
import mlx_pooling as mp
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

# (N, C, H, W), kernel, stride and padding.
CASES = [
    ((8, 64, 56, 56), 3, 1, 1),
    ((2, 128, 32, 32), 13, 1, 6),
    ((1, 3, 224, 224), 3, 1, 1),
    ((8, 64, 112, 112), 3, 2, 1),
    ((8, 256, 28, 28), 2, 2, 0),
    ((1, 3, 224, 224), 2, 2, 0),
    ((32, 512, 7, 7), 7, 7, 0),
]
POOLS = {"max": mp.max_pool2d, "avg": mp.avg_pool2d}


def copied(pool, x: mx.array, *window: int) -> mx.array:
    return pool(mx.contiguous(x.transpose(0, 2, 3, 1)), *window)


def planes(pool, x: mx.array, *window: int) -> mx.array:
    y = pool(x.flatten(0, 1)[..., None], *window)
    return mx.unflatten(y.squeeze(-1), 0, x.shape[:2]).transpose(0, 2, 3, 1)


def actions(pool, shape: tuple[int, ...], *window: int) -> dict[str, measure.Action]:
    x = mx.random.normal(shape)
    # Downstream, too, channels come first.
    dy = mx.ones_like(pool(x.transpose(0, 2, 3, 1), *window).transpose(0, 3, 1, 2))
    mx.eval(x, dy)

    def forward(layout) -> measure.Action:
        return lambda: mx.eval(layout(pool, x, *window))

    def vjp(layout) -> measure.Action:
        def pooled(x: mx.array) -> mx.array:
            return layout(pool, x, *window)

        return lambda: mx.eval(mx.vjp(pooled, [x], [dy.transpose(0, 2, 3, 1)]))

    return {
        "copy": forward(copied),
        "planes": forward(planes),
        "copy, vjp": vjp(copied),
        "planes, vjp": vjp(planes),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "gpu"])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    device = measure.choose_device(arguments.device)
    mx.set_cache_limit(measure.CACHE_LIMIT)
    for title, text in measure.describe(device, "mlx").items():
        print(f"{title}: {text}")
    table = Table("NCHW", "window", "", box=box.SIMPLE)
    for title in ("copy ms", "planes ms", "ratio", "copy ms", "planes ms", "ratio"):
        table.add_column(title, justify="right")
    table.caption = "forward on the left, forward + vjp on the right"
    for shape, *window in track(CASES, "pooling"):
        for name, pool in POOLS.items():
            times = measure.interleave(
                actions(pool, shape, *window), arguments.repeats, 0.05
            )
            copy, plane, copy_vjp, plane_vjp = (1e3 * t for t in times.values())
            cells = (
                copy,
                plane,
                copy / plane,
                copy_vjp,
                plane_vjp,
                copy_vjp / plane_vjp,
            )
            sizes = "/".join(map(str, window))
            table.add_row(
                "x".join(map(str, shape)), sizes, name, *(f"{c:.3g}" for c in cells)
            )
    Console().print(table)


if __name__ == "__main__":
    main()
