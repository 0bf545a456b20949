"""Refuses, in one line, an MLX that the extension was not built against.

MLX's C++ ABI changes between patch releases: loading the extension with another
one ends in an undefined symbol or in every call failing, so look before.
"""

from __future__ import annotations

from . import _abi
from ._built_against import MLX_VERSION, NANOBIND_TAG


def check() -> None:
    """Raise ImportError unless the installed MLX is the one of the build."""
    version, tag = _abi.installed()
    if version != MLX_VERSION:
        raise ImportError(
            f"mlx_pooling was built against mlx {MLX_VERSION} but mlx {version} is "
            f"installed; fix with: pip install mlx=={MLX_VERSION}"
        )
    if tag != NANOBIND_TAG:
        raise ImportError(
            f"mlx_pooling was built with nanobind internals {NANOBIND_TAG} but the "
            f"installed mlx {version} uses {tag}; fix with: pip install "
            "--force-reinstall --no-cache-dir --no-binary mlx-pooling mlx-pooling"
        )
