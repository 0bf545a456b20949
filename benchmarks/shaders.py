"""The tests' build of mlx_pooling, whose shaders run without a Mac."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT / "tests" / "metal"))
import shader_host  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16")


def add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--build",
        type=Path,
        default=PROJECT / "build" / "traffic",
        metavar="FOLDER",
        help="for the build of the extension, used again next time "
        "(default: %(default)s)",
    )


def use_shaders(build: Path) -> None:
    """Make mlx_pooling that build, which is made first, with the launches of a Mac."""
    build = build.resolve()
    sys.path.insert(0, str(shader_host.build(build)))
    os.environ["MLX_POOLING_SHADER_CACHE"] = str(build / "shaders")
    shader_host.run_shaders(True)
    shader_host.plan_as_released()
