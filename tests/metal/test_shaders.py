"""The shaders, run on the CPU by the tests in other files and in on_host/."""

from __future__ import annotations

import re
from concurrent.futures import Future

import pytest
from metal.shader_runs import FAULTY_RUNS, RUNS, Process


@pytest.mark.parametrize("name", RUNS)
def test_on_the_shaders(runs: dict[str, Future[Process]], name: str):
    process = runs[name].result()
    assert process.returncode == 0, process.stdout
    assert "devices: shaders\n" in process.stdout
    assert re.search(r"\d+ passed", process.stdout)
    assert "skipped" not in process.stdout


@pytest.mark.parametrize("name", FAULTY_RUNS)
def test_a_fault_is_found(runs: dict[str, Future[Process]], name: str):
    process = runs[name].result()
    assert process.returncode != 0
    assert FAULTY_RUNS[name][1] in process.stdout
