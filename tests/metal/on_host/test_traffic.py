"""How often the shaders load for every 16 bytes of a result: counts, not timings.

Small arrays get the tiles of large ones here (plan_as_released), and the
windows at their edges, which have fewer taps, only lower the counts.
"""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import mlx_pooling as mp
import pytest
from agreement import records_of

from metal import shader_host

Op = Callable[[mx.array], mx.array]

SIZES = {1: (160,), 2: (64, 64), 3: (16, 24, 32)}
# Of kind, axes, kernel size and stride: most loads forward, with offsets, backward.
LIMITS = [
    ("max", 2, 2, 2, 4, 4, 1),
    ("max", 2, 3, 1, 4, 4, 9),
    ("max", 2, 3, 2, 7, 7, 2.5),
    ("max", 2, 13, 1, 5, 7, 9.5),
    ("max", 2, 31, 1, 6, 8.5, 16.5),  # of 8.5, a third are 8 bytes of offsets
    ("max", 1, 13, 1, 2.5, 2.5, 8),
    ("max", 1, 31, 1, 3.5, 3.5, 9),
    ("max", 3, 3, 1, 9, 9, 27),
    ("max", 3, 13, 1, 6, 11, 12),
    ("avg", 2, 2, 2, 4, None, 0.5),
    ("avg", 2, 3, 1, 4, None, 4.5),
    ("avg", 2, 3, 2, 7, None, 1.25),
    ("avg", 2, 13, 1, 5, None, 5),
    ("avg", 2, 31, 1, 6, None, 8.5),
    ("avg", 1, 31, 1, 3.5, None, 4.5),
    ("avg", 3, 13, 1, 7.5, None, 6),
]
WINDOW = ("kind", "axes", "kernel", "stride")
ORDINARY = [window for *window, _, _, _ in LIMITS if window[2] <= 3]


@pytest.fixture(autouse=True)
def shaders() -> None:
    shader_host.run_shaders(True)


def pooling(kind: str, axes: int, kernel: int, stride: int) -> tuple[Op, mx.array]:
    """An operation that keeps the size of its input but for the stride."""
    function = getattr(mp, f"{kind}_pool{axes}d")
    padding = (kernel - 1) // 2
    x = mx.ones((1, *SIZES[axes], 16))
    return lambda x: function(x, kernel, stride, padding), x


def forward(pool: Op, x: mx.array) -> list[dict]:
    return records_of([pool(x)])


def both(pool: Op, x: mx.array) -> tuple[list[dict], list[dict]]:
    """The launches of a forward pass for a gradient, and of the gradient."""
    dy = mx.ones_like(pool(x))
    records_of([dy])
    (y,), (dx,) = mx.vjp(pool, [x], [dy])
    records = records_of([y, dx])
    backward = list(filter(shader_host.is_backward, records))
    return records[: -len(backward)], backward


@pytest.mark.parametrize((*WINDOW, "plain", "traced", "gradient"), LIMITS)
def test_loads(kind, axes, kernel, stride, plain, traced, gradient):
    pool, x = pooling(kind, axes, kernel, stride)
    assert shader_host.loads_per_16_bytes(forward(pool, x)) <= plain
    ahead, back = both(pool, x)
    assert traced is None or shader_host.loads_per_16_bytes(ahead) <= traced
    assert shader_host.loads_per_16_bytes(back) <= gradient


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("kernel", [13, 31])
@pytest.mark.parametrize("shape", [(4, 1000, 32), (1, 64, 64, 64)], ids=str)
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_large_windows_load_at_most_8_times(kind: str, shape: tuple, kernel: int):
    """As in layers of networks, whose slabs leave fewer threads."""
    pool = getattr(mp, f"{kind}_pool{len(shape) - 2}d")
    records = forward(lambda x: pool(x, kernel, 1, kernel // 2), mx.ones(shape))
    assert all("_sweep<" in record["kernel"] for record in records)
    assert shader_host.loads_per_16_bytes(records) <= 8


@pytest.mark.parametrize(WINDOW, ORDINARY)
def test_ordinary_windows_take_one_launch_each_way(kind, axes, kernel, stride):
    pool, x = pooling(kind, axes, kernel, stride)
    assert len(forward(pool, x)) == 1
    assert [len(launches) for launches in both(pool, x)] == [1, 1]


@pytest.mark.parametrize(WINDOW, ORDINARY)
def test_no_more_is_stored_than_the_results(kind, axes, kernel, stride):
    pool, x = pooling(kind, axes, kernel, stride)
    y = pool(x)
    for records, results in zip(both(pool, x), (y, x), strict=True):
        stored = [b["bytes"] for b in records[0]["buffers"] if b["stores"]]
        offsets = [y.size] if kind == "max" and results is y else []
        assert stored == [results.nbytes, *offsets]
