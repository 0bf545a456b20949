"""Between arrays and the tensors of PyTorch, whose channels come first."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

torch = pytest.importorskip("torch")


def channels_first(a: mx.array | np.ndarray) -> torch.Tensor:
    return torch.tensor(np.ascontiguousarray(np.moveaxis(np.array(a), -1, 1)))


def channels_last(t: torch.Tensor) -> np.ndarray:
    return np.moveaxis(t.detach().numpy(), 1, -1)
