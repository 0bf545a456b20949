"""What tests on the shaders have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from metal import shader_host


@pytest.fixture
def released() -> Iterator[None]:
    """Arrays get the plans of a Mac, not those of larger ones."""
    shader_host.plan_as_released()
    yield
    shader_host.plan_as_released(False)


@pytest.fixture
def far() -> Iterator[None]:
    """Batches of two are the last of many."""
    shader_host.library().set_items_ahead(2)
    yield
    shader_host.library().set_items_ahead(0)
