"""The host encoder objects to shaders that do what they must not."""

from __future__ import annotations

import mlx.core as mx
import mlx_pooling
import pytest
from agreement import error_of_fault

from metal import shader_host


def pool() -> list[mx.array]:
    return [mlx_pooling.avg_pool2d(mx.ones((1, 4, 4, 8)), 2, 1)]


FAULTS = {
    "written twice": (
        "Index(thread_at.x) * V => Index(0)",
        "element written twice",
    ),
    "written by two neighbours": (
        "+ Index(thread_at.y) * TW => + Index(thread_at.y / 2) * TW",
        "element written twice",
    ),
    "not written": (
        "if (has_neighbour(p, at, u, t)) => if (t > 0 && has_neighbour(p, at, u, t))",
        "byte 0 of 288 not written",
    ),
    "past the end": (
        "x + tile.first => x + 125",
        "access past the end of a buffer",
    ),
    "far outside": (
        "x + tile.first => x + 1000000",
        "read outside every buffer",
    ),
    "before the start": (
        "y + own_element( => y - 1000000 + own_element(",
        "write outside every buffer",
    ),
    "misaligned": (
        "x + tile.first => x + 1",
        "misaligned access of 16 bytes",
    ),
    "output read": (
        "y + own_element( => y + Index(y[0]) + own_element(",
        "read of an output",
    ),
    "input written": (
        "add_to_windows<T, => const_cast<T*>(from)[0] = T(1), add_to_windows<T,",
        "write to an input",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_reported(name: str, monkeypatch: pytest.MonkeyPatch):
    fault, message = FAULTS[name]
    assert error_of_fault(fault, pool, monkeypatch) == message


def test_without_a_fault_there_is_nothing_to_report():
    mx.eval(pool())
    (record,) = shader_host.take_records()
    assert record["error"] == ""
