"""The installed MLX's ABI: its version and the nanobind internals it uses.

Run as a script by the build, which records the answer in ``_built_against``;
called at import, before the extension is loaded, to compare with that record.
Nothing here imports MLX.
"""

from __future__ import annotations

import mmap
import re
from importlib import metadata, util
from pathlib import Path


def installed() -> tuple[str, str]:
    """Return MLX's version and the tag of its nanobind internals (``"v22"``)."""
    core = _mlx_core()
    if not any((core.parent / "lib").glob("libmlx.*")):
        raise ImportError("mlx is installed without a backend")
    with core.open("rb") as file:
        binary = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        tag = re.search(rb"nanobind_\w+_a\d+_(v\d+)", binary)
    return metadata.version("mlx"), tag.group(1).decode() if tag else "unknown"


def _mlx_core() -> Path:
    spec = util.find_spec("mlx") and util.find_spec("mlx.core")
    if spec is None or spec.origin is None:
        raise ImportError("mlx is not installed")
    return Path(spec.origin)


if __name__ == "__main__":
    print(*installed(), _mlx_core().parent.as_posix(), sep=";")
