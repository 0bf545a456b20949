"""Runs every test on each device there is, and makes hypothesis repeatable."""

from __future__ import annotations

import os

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, settings

from metal import shader_host

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "explore", settings.get_profile("repeatable"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

DEVICES = {"shaders" if shader_host.RUNS_SHADERS else "cpu": mx.cpu}
if mx.metal.is_available() and os.environ.get("MLX_POOLING_TEST_GPU", "1") == "1":
    DEVICES["gpu"] = mx.gpu


def pytest_configure() -> None:
    if os.environ.get("MLX_POOLING_EXPECT_GPU") == "1" and "gpu" not in DEVICES:
        raise pytest.UsageError(
            "MLX_POOLING_EXPECT_GPU=1, but MLX finds no Metal GPU on this machine or "
            "MLX_POOLING_TEST_GPU is not 1"
        )


def pytest_report_header() -> str:
    return f"devices: {', '.join(DEVICES)}"


if shader_host.RUNS_SHADERS:

    @pytest.fixture(autouse=True)
    def shaders():
        """Runs the test's launches on the host, which must not object to any."""
        shader_host.run_shaders(True, "shuffled")
        yield
        errors = {
            f"{record['kernel']}: {record['error']}"
            for record in shader_host.take_records()
            if record["error"]
        }
        shader_host.run_shaders(False)
        assert not errors


@pytest.fixture(scope="module", params=DEVICES, autouse=True)
def device(request: pytest.FixtureRequest):
    """Makes each device the default one in turn; its name is the value."""
    before = mx.default_device()
    mx.set_default_device(DEVICES[request.param])
    yield request.param
    mx.set_default_device(before)
