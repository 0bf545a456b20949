"""Power averages, of exponents 1 to 3, against PyTorch channels-last.

    python benchmarks/lp_pool.py
    python benchmarks/lp_pool.py --filter l2 --json lp_pool.json

mlx.nn has none. Exponents 2 and 3 have kernels of their own on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx_pooling
import numpy as np
from contenders import torch
from shapes import Case, make_case
from steps import Steps, as_numpy, as_torch, run

CASES = (
    make_case("ResNet stem", "l2", (8, 112, 112, 64), 3, 2),
    make_case("DenseNet transition", "l2", (8, 56, 56, 128), 2, 2),
    make_case("Inception branch", "l2", (8, 28, 28, 192), 3, 1),
    make_case("Local contrast", "l2", (1, 64, 64, 64), 13, 1),
    make_case("ResNet-50 head", "l2", (32, 7, 7, 2048), 7, 7),
    make_case("LeNet-5 classic", "l2", (64, 28, 28, 6), 2, 2),
    make_case("MNIST batch 1", "l2", (1, 28, 28, 1), 2, 2),
    make_case("Loudness", "l2", (4, 16000, 1), 400, 160),
    make_case("3-D U-Net", "l2", (1, 32, 64, 64, 32), 2, 2),
    make_case("DenseNet transition", "l1", (8, 56, 56, 128), 2, 2),
    make_case("DenseNet transition", "l3", (8, 56, 56, 128), 2, 2),
)


def layer(case: Case, functions: Any) -> Callable[[Any], Any]:
    axes = len(case.kernel)
    pool = getattr(functions, f"lp_pool{axes}d")
    norm_type = float(case.op.removeprefix("l"))
    window = (case.kernel, case.stride)
    if axes == 1:  # where PyTorch takes no tuples
        window = (case.kernel[0], case.stride[0])
    return lambda x: pool(x, norm_type, *window)


def our_steps(case: Case, x: mx.array, _: mx.array) -> Steps:
    pool = layer(case, mlx_pooling)
    x = mx.abs(x)  # whose odd powers do not cancel
    y = pool(x)
    mx.eval(x, y)

    def gradient() -> mx.array:
        return mx.vjp(pool, [x], [y])[1][0]

    return Steps(
        {
            "forward": lambda: mx.eval(pool(x)),
            "forward + vjp": lambda: mx.eval(gradient()),
        },
        {"norms": np.array(y), "gradient": np.array(gradient())},
    )


def torch_steps(case: Case, x: mx.array, _: mx.array) -> Steps:
    pool = layer(case, torch.nn.functional)
    leaf = as_torch(mx.abs(x)).requires_grad_()
    y = pool(leaf).detach()

    def gradient() -> Any:
        return torch.autograd.grad(pool(leaf), leaf, y)[0]

    inputs = leaf.detach()
    return Steps(
        {"forward": lambda: pool(inputs), "forward + vjp": gradient},
        {"norms": as_numpy(y), "gradient": as_numpy(gradient())},
    )


if __name__ == "__main__":
    run(__doc__, CASES, our_steps, torch_steps)
