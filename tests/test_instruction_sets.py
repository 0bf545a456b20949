"""The CPU kernels of the instruction sets that this machine would not choose."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from metal.shader_host import RUNS_SHADERS

pytestmark = pytest.mark.skipif(
    RUNS_SHADERS or platform.machine() not in ("x86_64", "AMD64"),
    reason="only x86-64 has more than one set of CPU kernels",
)
TESTS = (
    "test_forward.py",
    "test_gradients.py",
    "test_indices.py",
    "test_min_pool.py",
    "test_adaptive.py",
    "test_methods.py",
)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_kernels_of(isa: str):
    files = [str(Path(__file__).with_name(name)) for name in TESTS]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env={**os.environ, "MLX_POOLING_ISA": isa},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout
