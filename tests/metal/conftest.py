"""The build of the extension that runs shaders on the host, made once a session."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import mlx.core  # noqa: F401  loads libmlx, which the extension needs
import pytest

from metal import shader_host, shader_runs

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


def needs_runs(item: pytest.Item) -> bool:
    return item.path.name == "test_shaders.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts last what waits for the runs, which go on beside all other tests."""
    items.sort(key=needs_runs)


@pytest.fixture(scope="session", autouse=True)
def runs(
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Future[shader_runs.Process]]]:
    """The runs on the shaders, started as soon as there is the build for them."""
    if not any(map(needs_runs, request.session.items)):
        yield {}
        return
    folder = request.getfixturevalue("host_folder")
    # Before other tests, which change the environment, are run beside.
    environments = {
        name: shader_runs.environment(run, folder)
        for name, run in shader_runs.ALL.items()
    }
    pool = ThreadPoolExecutor(os.cpu_count())
    running: list[shader_runs.Running] = []
    futures = {
        name: pool.submit(shader_runs.start, run, environments[name], running)
        for name, run in shader_runs.ALL.items()
    }
    yield futures
    # Of a session that was interrupted: those of others have ended.
    pool.shutdown(wait=False, cancel_futures=True)
    while not all(future.done() for future in futures.values()):
        for process in running:
            process.kill()
        time.sleep(0.1)


@pytest.fixture(scope="session")
def library(host_folder: Path) -> ctypes.CDLL:
    """That build, asked from outside the process that runs shaders."""
    (extension,) = (host_folder / "site" / "mlx_pooling").glob("_ext.*.so")
    return shader_host.declared(str(extension))


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The shaders, as they are embedded."""
    return shader_host.shader_source(tmp_path_factory.mktemp("source"))
