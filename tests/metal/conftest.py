"""The build of the extension that runs shaders on the host, made once a session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from metal import shader_host

# Tests either look at that build from outside, or run in a process that uses it.
collect_ignore_glob = ["test_*.py"] if shader_host.RUNS_SHADERS else ["on_host/*"]
if sys.platform != "linux":
    # The tools are installed there only, and a Mac has a GPU to run shaders on.
    collect_ignore_glob = ["*"]


@pytest.fixture(scope="session")
def host_folder(request: pytest.FixtureRequest) -> Path:
    """Kept between sessions, with the shaders compiled in them."""
    folder = request.config.cache.mkdir("mlx_pooling_host_shaders")
    shader_host.build(folder)
    return folder
