"""What the tests ask of a Mach-O file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from macholib import mach_o
from macholib.MachO import MachO
from macholib.SymbolTable import SymbolTable

LOADS = (mach_o.LC_LOAD_DYLIB, mach_o.LC_LOAD_WEAK_DYLIB)


@dataclass(frozen=True)
class Image:
    cpu: str
    minimum_macos: tuple[int, int]
    rpaths: list[str]
    libraries: list[str]
    exports: set[str]
    imports: dict[str, str | None]
    """Each undefined symbol, and the library it is bound to if to any."""


def read(path: Path) -> Image:
    file = MachO(str(path))
    (header,) = file.headers
    symbols = SymbolTable(file, header)

    def commands(*kinds: int) -> list[tuple]:
        return [command for command in header.commands if command[0].cmd in kinds]

    def names(*kinds: int) -> list[str]:
        return [data.rstrip(b"\0").decode() for _, _, data in commands(*kinds)]

    ((_, version, _),) = commands(mach_o.LC_BUILD_VERSION)
    libraries = names(*LOADS)
    bound_to = dict(enumerate(libraries, start=1))
    return Image(
        cpu=mach_o.CPU_TYPE_NAMES[header.header.cputype],
        minimum_macos=(version.minos >> 16, version.minos >> 8 & 0xFF),
        rpaths=names(mach_o.LC_RPATH),
        libraries=libraries,
        exports={name.decode() for _, name in symbols.extdefsyms},
        imports={
            name.decode(): bound_to.get(entry.n_desc >> 8 & 0xFF)
            for entry, name in symbols.undefsyms
        },
    )
