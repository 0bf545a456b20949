"""Max and average pooling for MLX with its own CPU and Metal kernels.

Arrays are channels-last, ``(N, *spatial, C)`` or ``(*spatial, C)``. The layers
replace those of ``mlx.nn``; the functions take PyTorch's arguments.
"""

from importlib import metadata as _metadata

from . import _versions

_versions.check()  # before anything loads the extension

from .conversion import convert, patch_mlx_nn, revert  # noqa: E402
from .functional import (  # noqa: E402
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    composed,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from .layers import (  # noqa: E402
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)

__version__ = _metadata.version("mlx-pooling")

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "composed",
    "convert",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "patch_mlx_nn",
    "revert",
]
