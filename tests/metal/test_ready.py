"""The list of instantiations that can be compiled ahead of time, and who uses it."""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from metal.plans import LAYERS, Case, Shape, is_flat, make_plan, plane, shape_of
from test_plans import SHAPES

from metal import shader_host

FLOATS = ("float32", "float16", "bfloat16")
MAXIMA = ("max_pool", "max_pool_scatter", "max_pool_gather")
UNPOOLING = ("max_unpool", "max_unpool_grad")
AVERAGES = ("avg_pool", "avg_pool_grad")


@pytest.fixture(scope="module")
def ready_source(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shader_host.ready_source(tmp_path_factory.mktemp("source"))


def instantiations(source: str) -> list[tuple[str, str]]:
    """Name and template of each."""
    return re.findall(r'^MLX_POOLING_INSTANTIATE\("(\w+)", (.*)\)$', source, re.M)


def test_names_are_unique(ready_source: str):
    names, kernels = zip(*instantiations(ready_source), strict=True)
    assert len(names) == len(set(names)) == len(set(kernels))


def alike(shape: Shape) -> Iterator[Shape]:
    """Fewer threads get smaller tiles, and other channels other vectors."""
    yield shape
    g = shape.geometry
    small = replace(g, size=tuple(k + 1 for k in g.kernel))
    for channels in (1, 2, 3, 4, 8, 20):
        yield replace(shape, channels=channels)
        yield replace(shape, channels=channels, batch=1, geometry=small)


def launches(
    library: ctypes.CDLL, ops: tuple[str, ...], shape: Shape
) -> Iterator[dict]:
    """But those of few channels, most of which are not listed."""
    for op in ops:
        yield from (x for x in make_plan(library, op, shape) if not is_flat(x))


@pytest.fixture(params=[True, False], ids=["as released", "as if large"], autouse=True)
def occupancy(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Iterator[None]:
    library.plan_as_released(request.param)
    yield
    library.plan_as_released(False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_layers_of_networks_are_ready(
    library: ctypes.CDLL, ready_source: str, layer: Case, dtype: str
):
    listed = set(instantiations(ready_source))
    ops = MAXIMA + UNPOOLING if layer.op == "max" else AVERAGES
    for shape in alike(shape_of(layer, dtype)):
        for launch in launches(library, ops, shape):
            assert launch["ready"], launch["kernel"]
            assert (launch["name"], launch["kernel"]) in listed


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *product(("max_pool", "avg_pool"), ("uint8", "int8")),
        ("avg_pool_of_integers", "uint8"),
    ],
)
def test_images_and_quantized_numbers_are_ready(
    library: ctypes.CDLL, op: str, dtype: str
):
    for g in (plane(56, 2), plane(56, 3, 1, 1), plane(56, 3, 2, 1)):
        for shape in alike(Shape(g, 2, 16, dtype)):
            assert all(x["ready"] for x in launches(library, (op,), shape))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("avg_pool", "uint8"), ("avg_pool", "int8"), ("avg_pool_of_integers", "uint8")],
)
def test_averages_of_bytes_in_large_windows_are_ready(
    library: ctypes.CDLL, op: str, dtype: str
):
    kinds = set()
    for g in (plane(56, 13, 1, 6), plane(14, 14)):
        for shape in alike(Shape(g, 2, 16, dtype)):
            for launch in launches(library, (op,), shape):
                assert launch["ready"], launch["kernel"]
                kinds.add(launch["kernel"].split("<")[0])
    assert kinds >= {"avg_sweep", "avg_pool_lanes"}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *product(("max_pool", "avg_pool"), (*FLOATS, "uint8")),
        ("avg_pool_of_integers", "uint8"),
    ],
)
def test_images_are_halved_at_once(
    library: ctypes.CDLL, op: str, dtype: str, channels: int
):
    for size in (224, 256):
        (launch,) = make_plan(library, op, Shape(plane(size, 2), 8, channels, dtype))
        assert is_flat(launch)
        assert launch["ready"], launch["kernel"]


@pytest.mark.parametrize(
    "shape",
    [
        Shape(plane(4, 2), 1, 4, "uint64"),
        SHAPES["window of 2^31 elements"],
        Shape(plane(512, 257), 1, 4),
    ],
    ids=["dtype", "64-bit indices", "32-bit offsets"],
)
def test_what_is_rare_is_not(library: ctypes.CDLL, shape: Shape):
    assert not any(launch["ready"] for launch in make_plan(library, "max_pool", shape))


def test_only_a_library_of_these_shaders_is_used(
    library: ctypes.CDLL, ready_source: str, tmp_path: Path
):
    """It lies beside the extension and is named after what it is compiled from."""
    extension = tmp_path / "_ext.so"
    shutil.copy(library._name, extension)
    find = ctypes.CDLL(str(extension)).ready_library
    find.restype = ctypes.c_char_p
    digest = hashlib.sha256(ready_source.encode()).hexdigest()[:16]
    for name in ("mlx_pooling", f"mlx_pooling_{digest[::-1]}"):
        (tmp_path / f"{name}.metallib").touch()
        assert find() == b""
    own = tmp_path / f"mlx_pooling_{digest}.metallib"
    own.touch()
    assert find() == bytes(own)


def test_is_refused_off_macos(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(subprocess.CalledProcessError):
        shader_host.build(tmp_path, "-DMLX_POOLING_METALLIB=ON")
    assert "MLX_POOLING_METALLIB needs macOS" in capfd.readouterr().err
