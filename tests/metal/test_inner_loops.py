"""Loops over taps and over windows do not divide, nor keep their sums in memory.

clang compiles the kernels as Metal would for a pipeline, whose function constants have
values. It unrolls the loops over what a thread computes; in those that are left there
is no division but by numbers known by then, which it makes multiplications.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the tests' clang is installed on Linux only", allow_module_level=True)


HOST = Path(__file__).parent / "host"

KERNELS = (
    "max_pool<float, uchar, int, 4, 4, 2>",
    "max_sweep<float, uchar, int, 4, 4>",
    "max_pool_scatter<float, uchar, int, 4, 4>",
    "max_scatter_sweep<float, float, uchar, int, 4, 4>",
    "avg_pool<float, float, int, 4, 4, 2>",
    "avg_sweep<float, float, int, 4, 4>",
    "avg_pool_grad<float, int, 4, 4>",
    "avg_grad_sweep<float, float, int, 4, 4>",
    "max_pool_flat<float, uchar, int, 4, 3, 2, 4, 3, 1, 1>",
    "max_pool_scatter_flat<float, uchar, int, 4, 4, 3, 4, 3>",
    "avg_pool_flat<float, float, int, 4, 3, 2, 4, 3, 1, 1>",
    "avg_pool_grad_flat<float, int, 4, 4, 3, 4, 3>",
    "max_pool_lanes<float, uchar, int, 4, 8>",
    "avg_pool_lanes<float, float, int, 4, 8>",
)
# As many registers as a thread of these has, in vectors of every length.
LARGEST = (
    "max_pool<char, uchar, int, 16, 2, 2>",
    "max_pool<half, uchar, int, 8, 2, 2>",
    "max_pool_lanes<half, uchar, int, 8, 8>",
    "max_pool_scatter<half, uchar, int, 8, 4>",
    "max_scatter_sweep<float, half, uchar, int, 1, 32>",
    "max_sweep<half, ushort, int, 8, 8>",
    "max_sweep<float, uchar, int, 1, 32>",
    "avg_pool<uchar, uchar, int, 8, 2, 2>",
    "avg_pool_flat<uchar, uchar, int, 8, 3, 1, 8, 2, 2, 1>",
    "avg_pool_lanes<int, uchar, int, 4, 8>",
    "avg_sweep<uchar, uchar, int, 8, 4>",
    "avg_pool_grad<half, int, 8, 4>",
    "avg_grad_sweep<float, bfloat, int, 1, 32>",
)
# Constants of every axis, and flags that are set.
SLIDING = {"kernel": 11, "stride": 3, "dilation": 5}
ADAPTIVE = {"kernel": 11, "stride": 3, "dilation": 1, "adaptive": 1}
FLAGS = {"clip_rows": 1, "clip_columns": 1, "with_offsets": 1, "with_taps": 1}
KNOWN_TAPS = {
    **{"kernel": 3, "stride": 1, "dilation": 1, **FLAGS},
    **{"taps_to_tile": 3, "known_columns": 1},
}
PIPELINES = {
    "sliding": {**SLIDING, **FLAGS, "uniform_divisor": 1},
    "adaptive": {**ADAPTIVE, **FLAGS, "uniform_divisor": 1},
    "slices": {**SLIDING, **FLAGS, "uniform_divisor": 1, "from_slices": 1},
    "sliding, own divisors": {**SLIDING, **FLAGS},
    "adaptive, own divisors": {**ADAPTIVE, **FLAGS},
    "known taps": {**KNOWN_TAPS, "uniform_divisor": 1},
    "known taps, own divisors": KNOWN_TAPS,
    # Of sizes that only a launch knows.
    "large": {"dilation": 5, **FLAGS, "uniform_divisor": 1},
    "large, adaptive, own divisors": {"dilation": 1, "adaptive": 1, **FLAGS},
}
# Where windows have divisors of their own, one reciprocal an axis for each window; a
# run of windows has those of W behind its loops.
RECIPROCALS = {"avg_pool_grad": 3, "avg_grad_sweep": 1, "avg_pool_grad_flat": 2}

INLINED = "-inline-threshold=1000000"
UNROLLED = (
    "-unroll-threshold=1000000",
    "-unroll-max-upperbound=8",
    "-unroll-allow-partial=false",
    "-unroll-runtime=false",
)
Blocks = dict[str, list[str]]


def compiled(
    source: str,
    constants: dict[str, int],
    folder: Path,
    kernels: Iterable[str] = KERNELS,
    options: Iterable[str] = tuple(f"-mllvm={option}" for option in UNROLLED),
) -> str:
    """All kernels, in LLVM's intermediate representation."""

    def definition(declared: re.Match) -> str:
        name = declared[1]
        value = constants.get(name, constants.get(name.rpartition("_")[0], 0))
        return f"static const int {name} = {value};"

    declaration = r"constant \w+ (\w+) \[\[function_constant\(\d+\)\]\];"
    text = re.sub(declaration, definition, source)
    text += "".join(f"template decltype({kernel}) {kernel};\n" for kernel in kernels)
    file, code = folder / "kernels.cpp", folder / "kernels.ll"
    file.write_text(text)
    command = [
        *(sys.executable, "-m", "ziglang", "c++", "-std=c++14", "-O2", "-w"),
        *("-fno-exceptions", f"-mllvm={INLINED}", *options),
        *("-isystem", str(HOST), "-S", "-emit-llvm", "-o", str(code), str(file)),
    ]
    subprocess.run(command, check=True)
    return code.read_text()


def basic_blocks(code: str, kernel: str) -> Blocks:
    name = kernel[: kernel.index("<")]
    mangled = rf"^define [^\n]*@_Z{len(name)}{name}I[^\n]*\{{\n(.*?)^\}}"
    (body,) = re.findall(mangled, code, re.M | re.S)
    blocks: Blocks = {"": []}
    for line in body.splitlines():
        if label := re.match(r"([\w.$-]+):", line):
            blocks[label[1]] = []
        else:
            blocks[next(reversed(blocks))].append(line.strip())
    return blocks


def in_loops(blocks: Blocks) -> list[str]:
    """The instructions that control can come back to."""
    following = {
        label: re.findall(r"label %([\w.$-]+)", "\n".join(lines))
        for label, lines in blocks.items()
    }

    def reached_from(label: str) -> set[str]:
        reached: set[str] = set()
        ahead = list(following[label])
        while ahead:
            if (block := ahead.pop()) not in reached:
                reached.add(block)
                ahead += following[block]
        return reached

    loops = [label for label in blocks if label in reached_from(label)]
    return [line for label in loops for line in blocks[label]]


def slow_instructions(code: str, kernel: str) -> list[str]:
    """Divisions in loops, and calls, which might hide some; lanes call each other."""
    lines = in_loops(basic_blocks(code, kernel))
    assert any(" load " in line for line in lines)
    slow = re.compile(
        r" = (?:[us](?:div|rem) .*, %|fdiv )|\bcall (?!.*@(?:llvm\.|exchange_words))"
    )
    return [line for line in lines if slow.search(line)]


def pipelines_of(name: str, kernels: tuple[str, ...]) -> tuple[str, ...]:
    """Those that there are: passes always know their sizes."""
    is_large = name.startswith("large")
    return tuple(k for k in kernels if not (is_large and "_sweep<" in k))


@pytest.mark.parametrize("name", PIPELINES)
def test_loops_do_not_divide(source: str, name: str, tmp_path: Path):
    code = compiled(source, PIPELINES[name], tmp_path)
    for kernel in pipelines_of(name, KERNELS):
        slow = slow_instructions(code, kernel)
        assert all("fdiv float 1.0" in line for line in slow)
        own = "own divisors" in name and RECIPROCALS.get(kernel[: kernel.index("<")])
        assert len(slow) <= (own or 0)


@pytest.mark.parametrize(
    ("kernel", "old", "new"),
    [
        (
            "max_pool_scatter",
            "in_next_window(along_w, by_w)",
            "cover_by(along_w, w, 0)",
        ),
        (
            "avg_pool_grad",
            "A(cotangents[j].v[i]) * share",
            "A(cotangents[j].v[i]) / p.divisor",
        ),
        ("max_sweep", "uint(column) * column_taps", "uint(column) / column_taps"),
        ("avg_pool", "add_pack<V>(p, sums[t]", "add_pack<V>(p, sums[j % p.in[0]]"),
        (
            "avg_pool_grad_flat",
            "(cotangents[i]) * share",
            "(cotangents[i]) / p.divisor",
        ),
        (
            "max_pool_lanes",
            "tap = advanced(",
            "tap = tap_number<Index>(tap.row, walk.count), advanced(",
        ),
    ],
)
def test_a_planted_division_is_found(
    source: str, kernel: str, old: str, new: str, tmp_path: Path
):
    assert old in source
    faulty = compiled(source.replace(old, new), PIPELINES["adaptive"], tmp_path)
    slow = [k for k in KERNELS if slow_instructions(faulty, k)]
    assert any(found.startswith(f"{kernel}<") for found in slow)


# What Metal is told of loops over arrays that are to be registers, as the compiler
# would else unroll few of them.
AS_TOLD = (
    '-DMLX_POOLING_UNROLL=_Pragma("clang loop unroll(full)")',
    *("-fno-vectorize", "-fno-slp-vectorize"),
)


def arrays_in_memory(code: str) -> list[str]:
    """Of a GPU's thread, that is device memory."""
    return re.findall(r"= alloca (.*)", code)


@pytest.mark.parametrize(
    "name", ["sliding", "sliding, own divisors", "known taps", "large"]
)
def test_accumulators_are_registers(source: str, name: str, tmp_path: Path):
    kernels = pipelines_of(name, KERNELS + LARGEST)
    code = compiled(source, PIPELINES[name], tmp_path, kernels, AS_TOLD)
    assert code.count("\ndefine ") >= len(kernels)
    assert arrays_in_memory(code) == []


@pytest.mark.parametrize("kernel", ["max_pool", "avg_pool", "max_scatter_sweep"])
def test_a_loop_that_is_not_unrolled_is_found(source: str, kernel: str, tmp_path: Path):
    start = source.index(f"[[kernel]] void {kernel}(")
    of_kernel = source[start:].replace("MLX_POOLING_UNROLL", "")
    faulty = source[:start] + of_kernel
    assert arrays_in_memory(
        compiled(faulty, PIPELINES["sliding"], tmp_path, KERNELS, AS_TOLD)
    )
