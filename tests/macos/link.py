"""Runs a link command in the words that zig's linker knows.

zig makes no Mach-O bundle and reads no response file of -U options (nanobind's list of
CPython's symbols). Told instead to leave every missing symbol to the loader, it lets
through ones that are nowhere: the test looks for those.
"""

from __future__ import annotations

import os
import sys


def translate(argument: str) -> list[str]:
    if argument == "-bundle":
        return ["-dynamiclib"]
    if argument.startswith("-Wl,@"):
        return ["-undefined", "dynamic_lookup"]
    return [argument]


command = [word for argument in sys.argv[1:] for word in translate(argument)]
os.execv(command[0], command)
