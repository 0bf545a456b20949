"""Pooling with indices, and unpooling by them, against PyTorch channels-last.

    python benchmarks/unpool.py
    python benchmarks/unpool.py --filter segnet --json unpool.json

The pairs of layers that decoders such as SegNet's are made of. mlx.nn has neither.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx
import mlx_pooling
import numpy as np
from contenders import torch
from shapes import Case, make_case
from steps import Steps, as_numpy, as_torch, run

CASES = (
    make_case("SegNet pool1", "max", (2, 224, 224, 64), 2, 2),
    make_case("SegNet pool2", "max", (4, 112, 112, 128), 2, 2),
    make_case("SegNet pool3", "max", (8, 56, 56, 256), 2, 2),
    make_case("SegNet pool5", "max", (8, 14, 14, 512), 2, 2),
    make_case("SegNet batch 1", "max", (1, 56, 56, 256), 2, 2),
    make_case("ResNet stem", "max", (8, 112, 112, 64), 3, 2, 1),
    make_case("Inception branch", "max", (8, 28, 28, 192), 3, 1, 1),
    make_case("MNIST", "max", (32, 28, 28, 1), 2, 2),
    make_case("3-D U-Net", "max", (1, 32, 64, 64, 32), 2, 2),
)

Layer = Callable[..., Any]


def layers(case: Case, functions: Any) -> tuple[Layer, Layer]:
    """Pooling that returns indices, and what puts maxima back by these."""
    axes = len(case.kernel)
    window = (case.kernel, case.stride, case.padding)
    pool = getattr(functions, f"max_pool{axes}d")
    unpool = getattr(functions, f"max_unpool{axes}d")
    return (
        lambda x: pool(x, *window, return_indices=True),
        lambda y, indices: unpool(y, indices, *window, output_size=case.shape[1:-1]),
    )


def our_steps(case: Case, x: mx.array, dz: mx.array) -> Steps:
    pool, unpool = layers(case, mlx_pooling)
    y, indices = pool(x)
    mx.eval(y, indices)
    place = partial(unpool, indices=indices)
    return Steps(
        {
            "indices": lambda: mx.eval(pool(x)),
            "unpool": lambda: mx.eval(place(y)),
            "unpool + vjp": lambda: mx.eval(mx.vjp(place, [y], [dz])),
        },
        {"indices": np.array(indices), "plane": np.array(place(y))},
    )


def torch_steps(case: Case, *arrays: mx.array) -> Steps:
    pool, unpool = layers(case, torch.nn.functional)
    x, dz = map(as_torch, arrays)
    y, indices = pool(x)
    leaf = y.clone().requires_grad_()
    return Steps(
        {
            "indices": lambda: pool(x),
            "unpool": lambda: unpool(y, indices),
            "unpool + vjp": lambda: torch.autograd.grad(
                unpool(leaf, indices), leaf, dz
            ),
        },
        {"indices": as_numpy(indices), "plane": as_numpy(unpool(y, indices))},
    )


if __name__ == "__main__":
    run(__doc__, CASES, our_steps, torch_steps)
