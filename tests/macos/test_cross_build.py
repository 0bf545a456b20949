"""The extension builds for macOS arm64 on Linux, and finds there all that it uses.

The project's own build files compile it, against the MLX that macOS users get.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

if sys.platform != "linux":
    pytest.skip("cross-builds on Linux only", allow_module_level=True)

import nanobind
import ninja
import ziglang
from macho import Image, read

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
CMAKE = (sys.executable, "-m", "cmake")
ZIG = str(Path(ziglang.__file__).with_name("zig"))
CPYTHON_SYMBOLS = Path(nanobind.cmake_dir()) / "darwin-ld-cpython.sym"
LIBMLX = "@rpath/libmlx.dylib"
LIBSYSTEM = "/usr/lib/libSystem.B.dylib"
LIBOBJC = "/usr/lib/libobjc.A.dylib"
NANOBIND_TAG = re.compile(rb"nanobind_\w+_v\d+\w*")


def run(*command: object, **env: str) -> None:
    words = [str(word) for word in command]
    result = subprocess.run(
        words,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if result.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{result.stdout}")


def wheel(package: str, folder: Path) -> Path:
    """The package's macOS wheel, of the version of MLX in use; downloaded once."""
    pattern = f"{package.replace('-', '_')}-{version('mlx')}-*.whl"
    if not any(folder.glob(pattern)):
        options = ["--no-deps", "--only-binary=:all:", "--platform=macosx_14_0_arm64"]
        pip = [sys.executable, "-m", "pip", "download", "-q", *options, "-d", folder]
        try:
            run(*pip, f"{package}=={version('mlx')}")
        except RuntimeError as error:
            if os.environ.get("CI") == "true":
                raise
            pytest.skip(f"the macOS wheel of {package} cannot be downloaded: {error}")
    return next(folder.glob(pattern))


@pytest.fixture(scope="session")
def mac_mlx(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder `mlx` as pip installs it on a Mac, less MLX's own shaders."""
    cache = pytestconfig.cache.mkdir("macos-wheels")
    folder = tmp_path_factory.mktemp("site-packages")
    for package in ("mlx", "mlx-metal"):
        with ZipFile(wheel(package, cache)) as archive:
            names = [n for n in archive.namelist() if not n.endswith(".metallib")]
            archive.extractall(folder, names)
    return folder / "mlx"


@pytest.fixture(scope="session")
def libmlx(mac_mlx: Path) -> Image:
    return read(mac_mlx / "lib" / "libmlx.dylib")


def write_stub_frameworks(libmlx: Image, folder: Path) -> None:
    """Stand-ins for the frameworks MLX links with, exporting what MLX takes from them.

    Programs reach the Objective-C runtime through Foundation, which re-exports it.
    """
    exports = defaultdict(list)
    for symbol, library in libmlx.imports.items():
        exports[library].append(symbol)
    for library in libmlx.libraries:
        name = Path(library).name
        symbols = exports[library] + exports[LIBOBJC] * (name == "Foundation")
        framework = folder / f"{name}.framework"
        framework.mkdir(parents=True)
        (framework / f"{name}.tbd").write_text(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [arm64-macos]\n"
            f"install-name: {library}\n"
            "exports:\n  - targets: [arm64-macos]\n"
            f"    symbols: {json.dumps(symbols)}\n...\n"
        )


def link_python_headers(folder: Path) -> None:
    """Debian's pyconfig.h takes no target but Linux; the one it includes takes any."""
    include = Path(sysconfig.get_path("include"))
    behind = include.parent / str(sysconfig.get_config_var("MULTIARCH")) / include.name
    headers = [*include.iterdir(), *behind.glob("pyconfig.h")]
    folder.mkdir()
    for name, header in {header.name: header for header in headers}.items():
        (folder / name).symlink_to(header)


@pytest.fixture(scope="session")
def build(
    mac_mlx: Path, libmlx: Image, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """All that a Mac builds; only the shaders' compiler is a stand-in."""
    folder = tmp_path_factory.mktemp("build")
    xcode = {
        "PATH": f"{HERE / 'xcode'}:{os.environ['PATH']}",
        "XCRUN_LOG": str(folder / "xcrun.log"),
    }
    write_stub_frameworks(libmlx, folder / "frameworks")
    link_python_headers(folder / "python")
    definitions = {
        # As a release, but not optimised: nor are copies of what is inlined compiled.
        "CMAKE_BUILD_TYPE": "",
        "CMAKE_CXX_FLAGS": "-DNDEBUG -Dalways_inline=noinline",
        "CMAKE_COMPILE_WARNING_AS_ERROR": "ON",
        # They would hide that a source lacks an include.
        "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",
        "CMAKE_MAKE_PROGRAM": Path(ninja.BIN_DIR) / "ninja",
        "CMAKE_TOOLCHAIN_FILE": HERE / "toolchain.cmake",
        "FRAMEWORKS": folder / "frameworks",
        "MLX_POOLING_METALLIB": "ON",
        "MLX_ROOT": mac_mlx,
        "PYTHON": sys.executable,
        "Python_EXECUTABLE": sys.executable,
        "Python_INCLUDE_DIR": folder / "python",
        "SKBUILD_SOABI": "cpython-{}{}-darwin".format(*sys.version_info),
        "ZIG": ZIG,
    }
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    run(*CMAKE, "-G", "Ninja", "-S", PROJECT, "-B", folder, *options, **xcode)
    run(*CMAKE, "--build", folder, **xcode)
    return folder


@pytest.fixture(scope="session")
def installed(build: Path) -> Path:
    run(*CMAKE, "--install", build, "--prefix", build / "installed")
    return build / "installed"


@pytest.fixture(scope="session")
def extension_path(installed: Path) -> Path:
    (path,) = installed.rglob("*.so")
    return path


@pytest.fixture(scope="session")
def extension(extension_path: Path) -> Image:
    return read(extension_path)


def missing_symbols(image: Image, libmlx: Image) -> list[str]:
    """The undefined symbols that no library it loads exports, nor Python.

    What is bound to the system's libraries was found there by the linker, in zig's list
    of what libSystem exports or in the stub frameworks.
    """
    cpython = set(CPYTHON_SYMBOLS.read_text().split())
    return sorted(
        symbol
        for symbol, library in image.imports.items()
        if (library is None and symbol not in cpython)
        or (library == LIBMLX and symbol not in libmlx.exports)
    )


def test_is_built_for_arm64_and_macos_14(extension: Image) -> None:
    assert extension.cpu == "ARM64"
    assert extension.minimum_macos == (14, 0)


def test_every_symbol_is_exported_by_mlx_python_or_the_system(
    extension: Image, libmlx: Image
) -> None:
    assert LIBMLX in extension.imports.values()
    missing = missing_symbols(extension, libmlx)
    assert not missing, f"exported by none of them: {', '.join(missing)}"


def test_loads_only_the_system_and_the_mlx_beside_it(
    installed: Path, extension: Image, libmlx: Image
) -> None:
    assert extension.rpaths == ["@loader_path/../mlx/lib"]
    assert LIBMLX in extension.libraries
    assert set(extension.libraries) <= {LIBMLX, LIBSYSTEM, *libmlx.libraries}
    assert list(installed.rglob("libmlx*")) == []


def test_shares_its_types_with_mlx(mac_mlx: Path, extension_path: Path) -> None:
    (core,) = mac_mlx.glob("core.*.so")
    tags = NANOBIND_TAG.findall(core.read_bytes())
    assert tags
    assert NANOBIND_TAG.findall(extension_path.read_bytes()) == tags


def test_the_ready_library_lies_beside_the_extension_that_looks_for_it(
    build: Path, installed: Path, extension_path: Path
) -> None:
    (library,) = installed.rglob("*.metallib")
    assert library.parent == extension_path.parent
    assert library.name.encode() in extension_path.read_bytes()
    # Xcode's stand-in hands the source down.
    source = (build / "generated" / "ready.metal").read_text()
    assert library.read_text() == source


def test_the_ready_library_is_compiled_as_metal_3_1_with_safe_mathematics(
    build: Path,
) -> None:
    calls = map(json.loads, (build / "xcrun.log").read_text().splitlines())
    (options,) = [set(call) for call in calls if "-c" in call]
    assert {"-std=metal3.1", "-mmacosx-version-min=14.0", "-fno-fast-math"} <= options


def test_the_ready_library_needs_the_compiler_of_metal(build: Path) -> None:
    with pytest.raises(RuntimeError, match="MLX_POOLING_METALLIB needs Xcode"):
        run(*CMAKE, build)


def test_a_symbol_that_mlx_keeps_to_itself_is_reported(
    mac_mlx: Path, libmlx: Image, tmp_path: Path
) -> None:
    hidden = "_ZN3mlx4core5metal5utilsEv"  # mlx::core::metal::utils()
    exported = "_ZN3mlx4core14default_deviceEv"
    used = [hidden, exported, "objc_msgSend", "PyLong_FromLong", "dispatch_apply_f"]
    calls = "".join(
        f"void {name}(void); void a{name}(void) {{ {name}(); }}\n" for name in used
    )
    source, binary = tmp_path / "planted.c", tmp_path / "planted.so"
    source.write_text(calls)
    linker = [sys.executable, HERE / "link.py", ZIG, "cc", "-O0"]
    options = ["--target=aarch64-macos.14.0", "-bundle", f"-Wl,@{CPYTHON_SYMBOLS}"]
    run(*linker, *options, source, mac_mlx / "lib" / "libmlx.dylib", "-o", binary)
    # No framework is linked here, so that the runtime of Objective-C is missing too.
    assert missing_symbols(read(binary), libmlx) == [f"_{hidden}", "_objc_msgSend"]
