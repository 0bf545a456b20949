"""Launch plans, which the build on the host makes without running them."""

from __future__ import annotations

import ctypes
import json
import math
import sys
from dataclasses import dataclass

from reference import Geometry
from support import geometry

from metal import shader_host

sys.path.append(str(shader_host.PROJECT / "benchmarks"))
from shapes import CASES, Case

LAYERS = CASES  # of networks
FORWARD = ("max_pool", "max_pool_gather", "avg_pool", "avg_pool_of_integers")


@dataclass(frozen=True)
class Shape:
    """What a plan depends on."""

    geometry: Geometry
    batch: int = 1
    channels: int = 1
    dtype: str = "float32"
    byte_offset: int = 0

    @property
    def offsets(self) -> str:
        taps = math.prod(self.geometry.kernel)
        return "uint8" if taps < 256 else "uint16" if taps < 2**16 else "uint32"

    def positions(self, op: str) -> tuple[int, ...]:
        """The spatial axes that threads are laid over."""
        g = self.geometry
        return tuple(g.output if op in FORWARD else g.size)


def plane(size: int | tuple[int, int], *args, **kwargs) -> Geometry:
    return geometry((size, size) if isinstance(size, int) else size, *args, **kwargs)


def shape_of(layer: Case, dtype: str) -> Shape:
    windows = (layer.kernel, layer.stride, layer.padding, layer.dilation)
    g = geometry(layer.shape[1:-1], *windows, ceil_mode=layer.ceil_mode)
    return Shape(g, layer.shape[0], layer.shape[-1], dtype)


def plan_arguments(op: str, shape: Shape) -> tuple:
    g = shape.geometry
    low, high = zip(*g.padding, strict=True)
    return (
        op.encode(),
        shape.dtype.encode(),
        b"" if op.startswith("avg") else shape.offsets.encode(),
        g.ndim,
        int64s(shape.batch, *g.size, shape.channels),
        int64s(*g.kernel, *g.stride, *low, *high, *g.dilation),
        ctypes.c_int64(shape.byte_offset),
    )


def whole_plan(library: ctypes.CDLL, op: str, shape: Shape) -> dict:
    return json.loads(library.plan(*plan_arguments(op, shape)))


def make_plan(library: ctypes.CDLL, op: str, shape: Shape) -> list[dict]:
    return whole_plan(library, op, shape)["launches"]


def int64s(*values: int) -> ctypes.Array:
    return (ctypes.c_int64 * len(values))(*values)


def is_flat(launch: dict) -> bool:
    """Whether a thread moves all channels of the columns of its tile at once."""
    return "_flat<" in launch["kernel"]
