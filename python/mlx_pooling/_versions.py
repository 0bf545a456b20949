"""Refuses, in one line, an MLX that the extension was not built against.

MLX's C++ ABI changes between patch releases: loading the extension with another
one ends in an undefined symbol or in every call failing, so look before.
"""

from __future__ import annotations

import sys

from . import _abi
from ._built_against import MLX_VERSION, NANOBIND_TAG

# MLX keeps its library in a package of its own for each backend but Metal's.
_MLX = "mlx" if sys.platform == "darwin" else "mlx[cpu]"
_INSTALL = f"fix with: pip install '{_MLX}=={MLX_VERSION}'"


def check() -> None:
    """Raise ImportError unless the installed MLX is the one of the build."""
    try:
        version, tag = _abi.installed()
    except ImportError as error:
        raise ImportError(
            f"mlx_pooling was built against mlx {MLX_VERSION} but {error}; {_INSTALL}"
        ) from None
    if version != MLX_VERSION:
        raise ImportError(
            f"mlx_pooling was built against mlx {MLX_VERSION} but mlx {version} is "
            f"installed; {_INSTALL}"
        )
    if tag != NANOBIND_TAG:
        raise ImportError(
            f"mlx_pooling was built with nanobind internals {NANOBIND_TAG} but the "
            f"installed mlx {version} uses {tag}; fix by building it again, in its "
            "source: pip install --force-reinstall --no-cache-dir ."
        )
