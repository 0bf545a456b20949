"""What is installed, and what import does with the wrong MLX."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import mlx.nn as nn
import mlx_pooling
import pytest


def over_axes(*kinds: str) -> list[str]:
    return [f"{kind}{n}d" for kind in kinds for n in (1, 2, 3)]


OF_MLX_NN = over_axes("MaxPool", "AvgPool")
WINDOWED = over_axes("max_pool", "min_pool", "avg_pool")
FUNCTIONS = [
    *WINDOWED,
    *over_axes("adaptive_avg_pool", "adaptive_max_pool", "lp_pool", "max_unpool"),
]
LAYERS = [
    *OF_MLX_NN,
    *over_axes("MinPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "LPPool", "MaxUnpool"),
]
GLOBALS = over_axes("GlobalAvgPool", "GlobalMaxPool")
QUANTIZED = [
    "quantize_per_tensor",
    *over_axes("quantized_max_pool", "quantized_avg_pool"),
]
CONVERSIONS = ["convert", "patch_mlx_nn", "revert"]
FOLDER = Path(mlx_pooling.__file__).parent


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )


def import_with(fake: str) -> subprocess.CompletedProcess[str]:
    """Import in a fresh interpreter in which some of the environment is faked."""
    return python(
        "import sys\n"
        "from importlib import metadata\n"
        f"{fake}\n"
        "try:\n"
        "    import mlx_pooling\n"
        "finally:\n"
        "    print('extension' if 'mlx_pooling._ext' in sys.modules else 'nothing')\n"
    )


FAKE_MLX = """
real = metadata.version
metadata.version = lambda name: '0.0.1' if name == 'mlx' else real(name)
"""
# Importing mlx_pooling._abi alone would import the package, so load it by path.
FAKE_TAG = f"""
import importlib.machinery, importlib.util
path = {str(FOLDER / "_abi.py")!r}
spec = importlib.util.spec_from_file_location('mlx_pooling._abi', path)
abi = importlib.util.module_from_spec(spec)
spec.loader.exec_module(abi)
version = abi.installed()[0]
abi.installed = lambda: (version, 'v1')
sys.modules['mlx_pooling._abi'] = abi
"""


NO_MLX = """
from importlib import util
real = util.find_spec
util.find_spec = lambda name, *rest: None if name == 'mlx' else real(name, *rest)
"""
NO_BACKEND = """
from pathlib import Path
Path.glob = lambda folder, pattern: iter(())
"""


def test_an_unchanged_environment_imports():
    result = import_with("")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "extension\n"


@pytest.mark.parametrize(
    ("fake", "names"),
    [
        (FAKE_MLX, ("0.0.1", metadata.version("mlx"), "pip install")),
        (FAKE_TAG, ("v1", "nanobind", "pip install")),
        (NO_MLX, ("mlx is not installed", "pip install")),
        (NO_BACKEND, ("without a backend", "pip install")),
    ],
    ids=["mlx", "nanobind", "no mlx", "no backend"],
)
def test_another_version_is_one_import_error(fake: str, names: tuple[str, ...]):
    result = import_with(fake)
    assert result.returncode != 0
    assert result.stdout == "nothing\n", "the extension was loaded before the check"
    last_line = result.stderr.strip().splitlines()[-1]
    assert last_line.startswith("ImportError: mlx_pooling was built ")
    for name in names:
        assert name in last_line


@pytest.mark.parametrize("fake", [FAKE_MLX, NO_MLX, NO_BACKEND])
def test_the_command_of_the_import_error_names_the_built_version(fake: str):
    last_line = import_with(fake).stderr.strip().splitlines()[-1]
    extra = "" if sys.platform == "darwin" else "[cpu]"
    assert last_line.endswith(f"pip install 'mlx{extra}=={metadata.version('mlx')}'")


def test_mlx_is_pinned_exactly():
    requirements = metadata.requires("mlx-pooling") or []
    assert f"mlx=={metadata.version('mlx')}" in requirements
    assert not any("torch" in requirement for requirement in requirements)


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", mlx_pooling.__version__)


def test_public_names():
    functions = {*FUNCTIONS, *QUANTIZED, *CONVERSIONS, "composed"}
    expected = {*functions, *LAYERS, *GLOBALS, "QuantizedArray"}
    assert set(mlx_pooling.__all__) == expected
    public = {name for name in vars(mlx_pooling) if not name.startswith("_")}
    modules = {name for name in public if inspect.ismodule(getattr(mlx_pooling, name))}
    assert public - modules == expected


def test_installed_files():
    files = metadata.files("mlx-pooling")
    assert files
    names = {file.name for file in files if file.parts[0] == "mlx_pooling"}
    assert {"py.typed", "_ext.pyi", "__init__.py"} <= names
    assert sum(name.startswith("_ext.") and name != "_ext.pyi" for name in names) == 1
    assert not [n for n in names if n.endswith((".cpp", ".h", ".metal", ".o", ".txt"))]
    outside = {file.parts[0] for file in files if file.parts[0] != "mlx_pooling"}
    assert all(part.endswith(".dist-info") for part in outside), outside


def test_the_stub_names_what_the_extension_has():
    stub = (FOLDER / "_ext.pyi").read_text()
    compile(stub, "_ext.pyi", "exec")
    from mlx_pooling import _ext

    for name in vars(_ext):
        if not name.startswith("_"):
            assert re.search(rf"^(def|class) {name}\b|^{name}\b", stub, re.M), name


def test_nothing_of_mlx_is_copied_beside_the_extension():
    assert not [p for p in FOLDER.rglob("*") if "libmlx" in p.name]


@pytest.mark.parametrize(
    "name",
    [*FUNCTIONS, *LAYERS, *QUANTIZED, "QuantizedArray", "convert", "revert"],
)
def test_docstrings(name: str):
    public = getattr(mlx_pooling, name)
    doc = inspect.getdoc(public)
    sections = ["Args:", "Raises:"] + (["Returns:"] if name.islower() else [])
    for section in sections:
        assert f"\n{section}\n" in doc, section
    arguments = doc.split("Args:")[1].split("\n\n")[0]
    for parameter in inspect.signature(public).parameters:
        assert re.search(rf"^    {parameter} \(.*\):", arguments, re.M), parameter


def test_the_package_has_a_docstring():
    assert inspect.getdoc(mlx_pooling)


@pytest.mark.parametrize("name", WINDOWED)
def test_signatures_of_functions(name: str):
    shared = [("x", inspect.Parameter.empty), ("kernel_size", inspect.Parameter.empty)]
    shared += [("stride", None), ("padding", 0)]
    extreme = [("dilation", 1), ("ceil_mode", False), ("return_indices", False)]
    own = {
        "max": extreme,
        "min": extreme,
        "avg": [
            ("ceil_mode", False),
            ("count_include_pad", True),
            ("divisor_override", None),
        ],
    }[name[:3]]
    by_keyword = [("stream", None)]
    if name.startswith("avg"):
        by_keyword = [("dilation", 1), *by_keyword]
    parameters = inspect.signature(getattr(mlx_pooling, name)).parameters.values()
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert [(p.name, p.default) for p in positional] == shared + own
    assert sorted((p.name, p.default) for p in keyword) == by_keyword
    assert all(p.annotation is not p.empty for p in parameters)


@pytest.mark.parametrize("name", OF_MLX_NN)
def test_signatures_of_layers_begin_as_those_of_mlx_nn(name: str):
    ours = list(inspect.signature(getattr(mlx_pooling, name)).parameters.values())
    theirs = list(inspect.signature(getattr(nn, name)).parameters.values())
    assert [(p.name, p.default) for p in ours[:3]] == [
        (p.name, p.default) for p in theirs
    ]
    assert all(p.default is not p.empty for p in ours[1:])


def test_nothing_is_printed_on_import():
    result = python("import mlx_pooling")
    assert (result.stdout, result.stderr) == ("", "")
