"""The shaders keep to Metal 3.1, as far as a compiler other than Apple's can tell.

clang compiles the very string that the extension embeds twice, for every kernel
that a plan can name: as C++14, of which Metal 3.1 is a dialect, and as OpenCL C++,
which has Metal's address spaces. dialect/metal_stdlib declares what they may use.
Sections are those of the Metal Shading Language Specification.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("the tests' clang is installed on Linux only", allow_module_level=True)

from metal import shader_host

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]

# Element types and their sizes.
ELEMENTS = {
    "bool": 1,
    "uchar": 1,
    "ushort": 2,
    "uint": 4,
    "ulong": 8,
    "char": 1,
    "short": 2,
    "int": 4,
    "long": 8,
    "half": 2,
    "bfloat": 2,
    "float": 4,
}
FLOATS = ("half", "bfloat", "float")
BYTES = ("uchar", "char")  # of quantized integers
AVERAGED = (*FLOATS, *BYTES, "int", "long")  # as they are; the last only summed
# Integers whose averages are floats.
CONVERTED = [(t, "float") for t in ELEMENTS if t not in FLOATS]
OFFSETS = {"uchar": 1, "ushort": 2, "uint": 4}
INDEX = ("int", "long")
WINDOW_TILES = ("1, 1", "1, 4", "4, 1", "2, 2", "4, 2")
COVER_TILES = ("1", "4")
# Lengths of strips; one of each instantiates what all do.
STRIPS = ("1", "8", "32")

LANGUAGES = {
    "C++14": ["-x", "c++", "-std=c++14", "-pedantic-errors", "--target=x86_64-linux"],
    "address spaces": [
        *("-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "--target=spir64")
    ],
}
# Unknown attributes are those of Metal, which have a test of their own.
WARNINGS = [
    *("-Wall", "-Wextra", "-Werror", "-Wold-style-cast", "-Wno-unknown-attributes")
]


def vectors(*sizes: int) -> list[int]:
    """The vector widths that 16-byte accesses of elements of these sizes allow."""
    return [v for v in (1, 2, 4, 8, 16) if v * max(sizes) <= 16]


def summed_vectors(*types: str) -> list[int]:
    """Of bytes no longer ones than of halves, whose sums are as long."""
    return vectors(*(max(ELEMENTS[t], 2) for t in types))


def max_kernels(name: str, tiles: tuple[str, ...]) -> list[str]:
    return [
        f"{name}<{t}, {o}, {index}, {v}, {tile}>"
        for t, o in product(ELEMENTS, OFFSETS)
        for v, index, tile in product(vectors(ELEMENTS[t], OFFSETS[o]), INDEX, tiles)
    ]


Types = Iterable[tuple[str, ...]]


def avg_kernels(name: str, types: Types, tiles: tuple[str, ...]) -> list[str]:
    return [
        f"{name}<{', '.join(t)}, {index}, {v}, {tile}>"
        for t in types
        for v, index, tile in product(summed_vectors(*t), INDEX, tiles)
    ]


# What passes leave sums in.
SUMS = {t: "float" if t in FLOATS else t for t in ELEMENTS}
AVERAGE_SUMS = SUMS | dict.fromkeys(BYTES, "int")


def passes(sums: dict[str, str]) -> list[tuple[str, str]]:
    """What the passes of an operation read and write, of elements with such sums."""
    first = sums.items()
    return sorted({*first, *((s, t) for t, s in first), *((t, t) for t in sums)})


def scatter_sweeps(name: str) -> list[str]:
    return [
        f"{name}<{a}, {b}, {o}, {index}, {v}, {strip}>"
        for (a, b), o in product(passes(SUMS), OFFSETS)
        for v, index, strip in product(
            vectors(ELEMENTS[a], ELEMENTS[b], OFFSETS[o]), INDEX, STRIPS
        )
    ]


def average_passes(types: tuple[str, ...]) -> list[tuple[str, str]]:
    return passes({t: AVERAGE_SUMS[t] for t in types})


WORDS = ("uchar", "ushort", "uint", "ulong")


def gather_kernels() -> list[str]:
    return [
        f"max_pool_gather<{t}, {o}, {index}>"
        for t, o, index in product(WORDS, OFFSETS, INDEX)
    ]


# Of few channels: vector width, channels, tile and, of W, kernel, stride and dilation.
WINDOW_RUNS = (
    *("4, 1, 1, 4, 2, 2, 1", "4, 3, 2, 8, 3, 2, 1"),
    *("8, 20, 1, 2, 2, 2, 1", "16, 6, 1, 8, 2, 1, 2"),
)
# Widths read and stored, channels, tile and the windows around it.
COVER_RUNS = ("2, 4, 1, 4, 2", "4, 4, 3, 8, 4", "8, 8, 20, 2, 1", "16, 16, 6, 8, 4")


def flat_kernels(name: str, types: Types, runs: tuple[str, ...]) -> list[str]:
    found = []
    for t, index, run in product(types, INDEX, runs):
        width = int(run.split(", ")[1 if runs is COVER_RUNS else 0])
        if width in vectors(*(ELEMENTS[name] for name in t)):
            found.append(f"{name}<{', '.join(t)}, {index}, {run}>")
    return found


LANES = ("1", "2", "32")

WITH_OFFSETS = list(product(ELEMENTS, OFFSETS))
AVERAGES = [*((t, t) for t in AVERAGED), *CONVERTED]
AVERAGE_PASSES = [*average_passes(AVERAGED), *CONVERTED]
GRADIENTS = [(t,) for t in FLOATS]

FAMILIES = {
    "max_pool": max_kernels("max_pool", WINDOW_TILES),
    "max_pool_flat": flat_kernels("max_pool_flat", WITH_OFFSETS, WINDOW_RUNS),
    "max_pool_scatter_flat": flat_kernels(
        "max_pool_scatter_flat", WITH_OFFSETS, COVER_RUNS
    ),
    "max_pool_lanes": max_kernels("max_pool_lanes", LANES),
    "avg_pool_lanes": avg_kernels("avg_pool_lanes", AVERAGE_PASSES, LANES),
    "avg_pool_flat": flat_kernels("avg_pool_flat", AVERAGES, WINDOW_RUNS),
    "avg_pool_grad_flat": flat_kernels("avg_pool_grad_flat", GRADIENTS, COVER_RUNS),
    "max_sweep": max_kernels("max_sweep", STRIPS),
    "max_pool_scatter": max_kernels("max_pool_scatter", COVER_TILES),
    "max_scatter_sweep": scatter_sweeps("max_scatter_sweep"),
    "max_pool_gather": gather_kernels(),
    **{
        name: [f"{name}<{index}>" for index in INDEX]
        for name in ("unpool_clear", "unpool_claim")
    },
    **{
        name: [f"{name}<{t}, {index}>" for t, index in product(WORDS, INDEX)]
        for name in ("unpool_place", "unpool_take")
    },
    "avg_pool": avg_kernels("avg_pool", AVERAGES, WINDOW_TILES),
    "avg_sweep": avg_kernels("avg_sweep", AVERAGE_PASSES, STRIPS),
    "avg_pool_grad": avg_kernels("avg_pool_grad", GRADIENTS, COVER_TILES),
    "avg_grad_sweep": avg_kernels("avg_grad_sweep", average_passes(FLOATS), STRIPS),
}
# Enough to see that a fault is found.
SAMPLES = [
    "max_pool<half, uchar, int, 2, 4, 2>",
    "max_pool<uint, uint, long, 1, 1, 1>",
    "max_sweep<float, ushort, int, 4, 8>",
    "max_pool_scatter<half, ushort, int, 2, 4>",
    "max_pool_flat<half, uchar, int, 8, 3, 1, 8, 2, 2, 1>",
    "max_pool_lanes<ulong, uint, long, 2, 8>",
    "avg_pool_grad_flat<float, long, 4, 4, 3, 4, 2>",
    "max_pool_gather<ushort, uint, int>",
    "unpool_claim<int>",
    "unpool_place<uchar, int>",
    "unpool_take<ulong, long>",
    "max_scatter_sweep<half, float, uchar, long, 2, 16>",
    "avg_pool<bfloat, bfloat, int, 4, 1, 1>",
    "avg_sweep<float, half, int, 4, 8>",
    "avg_grad_sweep<bfloat, float, int, 4, 8>",
    "avg_pool<long, long, int, 2, 1, 1>",
    "avg_pool<uchar, uchar, int, 8, 2, 2>",
    "avg_pool<bool, float, int, 4, 4, 2>",
    "avg_pool_grad<float, long, 4, 4>",
]

# In [[double brackets]] (5.2, and 5.8 for function_constant).
ATTRIBUTES = {
    "buffer",
    "function_constant",
    "host_name",
    "kernel",
    "thread_index_in_simdgroup",
    "thread_position_in_grid",
}
KEYWORDS = {
    *("alignas", "bool", "char", "const", "continue", "decltype", "else", "enum"),
    *("float", "for", "if", "inline", "int", "long", "namespace", "nullptr"),
    *(
        "reinterpret_cast",
        "return",
        "short",
        "sizeof",
        "static_assert",
        "struct",
        "template",
        "typename",
    ),
    *("using", "void"),
    *("device", "constant", "thread"),
}
# Of C++14's and OpenCL's keywords, those that clang would accept and Metal does
# not (1.4.4), or that no shader here has needed so far.
EVERY_KEYWORD = KEYWORDS | {
    *("and", "asm", "auto", "break", "case", "catch", "class", "const_cast"),
    *("constexpr", "default", "delete", "do", "double", "dynamic_cast", "enum"),
    *("explicit", "export", "extern", "friend", "goto", "mutable", "new", "noexcept"),
    *("not", "operator", "or", "private", "protected", "public"),
    *("register", "signed", "static", "static_cast", "switch"),
    *("this", "thread_local", "threadgroup", "throw", "try", "typedef", "typeid"),
    *("union", "unsigned", "virtual", "volatile", "while", "wchar_t"),
    *("global", "local", "generic", "pipe", "read_only", "write_only", "read_write"),
}


def without_comments(source: str) -> str:
    return re.sub(r"//.*", "", source)


def replaced(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new, 1)


def compile_errors(
    source: str, language: str, kernels: list[str], folder: Path
) -> list[str]:
    """What clang has to say about the kernels."""
    # A pipeline gives function constants their values (5.8); in C++ they would
    # need them here.
    text = re.sub(r"(?m)^(constant .*\[\[function_constant)", r"extern \1", source)
    text += "".join(f'MLX_POOLING_INSTANTIATE("", {kernel})\n' for kernel in kernels)
    file = folder / "shaders.cpp"
    file.write_text(text)
    command = [
        *(sys.executable, "-m", "ziglang", "clang", *LANGUAGES[language], *WARNINGS),
        *("-D__METAL_VERSION__=310", "-isystem", str(HERE / "dialect")),
        *("-fsyntax-only", str(file)),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    assert bool(errors) == (result.returncode != 0), result.stderr
    return errors


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kernel_compiles(source: str, language: str, family: str, tmp_path: Path):
    assert compile_errors(source, language, FAMILIES[family], tmp_path) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_ahead_of_time_library_compiles(language: str, tmp_path: Path):
    source = shader_host.ready_source(tmp_path)
    assert compile_errors(source, language, [], tmp_path) == []
    unknown = source.replace("max_sweep<half,", "max_swoop<half,")
    assert compile_errors(unknown, language, [], tmp_path) != []


# Faults, and what of the message that finds them.
FAULTS = {
    "unknown function": ("min(last, axis.taps)", "mni(last, axis.taps)", "undeclared"),
    "unknown qualified function": (
        *("max(counted, Index(1))", "metal::mxa(counted, Index(1))"),
        "no member named 'mxa'",
    ),
    "C++'s library": (
        *("min(last, axis.taps)", "std::min(last, axis.taps)"),
        "undeclared identifier 'std'",
    ),
    "compiler's own function": (
        *("-INFINITY;", "-sqrtf(INFINITY);"),
        "undeclared identifier 'sqrtf'",
    ),
    "unknown type": ("uint number[N];", "uint32_t number[N];", "unknown type name"),
    "swizzle that uint3 lacks": ("thread_at.x", "thread_at.xw", "no member named"),
    "component that uint3 lacks": ("thread_at.x", "thread_at.w", "no member named"),
    "vector arithmetic": (
        *("Index(thread_at.x) * V", "Index((thread_at * 1u).x) * V"),
        "invalid operands",
    ),
    "arguments of two types": (
        *("max(counted, Index(1))", "max(counted, 1u)"),
        "'max' is ambiguous",
    ),
    "implicit rounding": ("T(sums[i])", "sums[i]", "no viable overloaded"),
    "C-style cast": (
        *("= offset;", "= (uint)offset;"),
        "old-style cast",
    ),
    "shuffle of 64 bits": (
        *("simd_shuffle_xor(uint(v), mask)", "simd_shuffle_xor(v, mask)"),
        "'simd_shuffle_xor' is ambiguous",
    ),
    "unused variable": (
        "  NextTaps<T, V, N> next;",
        "  int i; NextTaps<T, V, N> next;",
        "unused",
    ),
    "comparison of signs": (
        *("; j < tile.columns.last;", "; uint(j) < tile.columns.last;"),
        "different signs",
    ),
    "name of Metal's": (
        "template <typename T>\nbool is_nan",
        "template <typename T>\nbool is_same(T v) {\n  return is_same(v);\n}\n"
        "template <typename T>\nbool is_nan",
        "'is_same' is ambiguous",
    ),
}
ADDRESS_FAULTS = {
    "device dropped from a parameter": (
        *("const device T* x [[buffer(0)]]", "const T* x [[buffer(0)]]"),
        "cannot initialize",
    ),
    "cast to another address space": (
        *("reinterpret_cast<device Pack", "reinterpret_cast<thread Pack"),
        "reinterpret_cast",
    ),
    "device pointer for a thread pointer": (
        *("rounded<T, V>(total[t])", "rounded<T, V>(dx)"),
        "no matching function",
    ),
    "constant reference for a thread reference": (
        *(
            "constant PoolParams& p, Place<Index> at",
            "thread PoolParams& p, Place<Index> at",
        ),
        "no matching function",
    ),
    "write to constant memory": (
        *(
            "  const WindowTile<Index> tile",
            "  p.divisor = 1; const WindowTile<Index> tile",
        ),
        "read-only",
    ),
    "write through a const pointer": (
        *(
            "  const Offset offset = offsets[to];",
            "  const Offset offset = offsets[to] = 0;",
        ),
        "read-only",
    ),
    "atomic operation on other memory": (
        *("device atomic_uint* sources", "device uint* sources"),
        "no matching function",
    ),
    "write to a function constant": (
        *("  const int64_t to = own", "  kernel_w = 1; const int64_t to = own"),
        "read-only",
    ),
}


@pytest.mark.parametrize(
    ("language", "fault"),
    [*product(LANGUAGES, FAULTS), *product(["address spaces"], ADDRESS_FAULTS)],
)
def test_a_planted_fault_does_not_compile(
    source: str, language: str, fault: str, tmp_path: Path
):
    old, new, message = (FAULTS | ADDRESS_FAULTS)[fault]
    errors = compile_errors(replaced(source, old, new), language, SAMPLES, tmp_path)
    assert any(message in error for error in errors), errors


def unqualified_pointers(source: str) -> list[str]:
    """Pointers and references declared in no address space, which is an error (ch. 4).

    In OpenCL C++ they would be generic.
    """
    code = re.sub(r"<[\w, ]*>", "", without_comments(source))
    declarator = r"(?P<before>[^(),;{}<]*)(?:\w[*&](?=[\s>)])|\(\*\w+\)\s*\[)"
    declarators = re.finditer(declarator, code)
    spaces = re.compile(r"\b(device|constant|thread|threadgroup)\b")
    return [m.group() for m in declarators if not spaces.search(m["before"])]


def test_every_pointer_names_its_address_space(source: str):
    assert unqualified_pointers(source) == []


@pytest.mark.parametrize(
    "old",
    [
        "const device T* from",
        "const thread A* sums",
        "thread Best<T, V>& best",
        "constant PoolParams& p",
        "const device Pack<T, V>*",
        "thread A (*sums)[V]",
    ],
)
def test_an_unqualified_pointer_is_found(source: str, old: str):
    new = re.sub(r"\b(device|constant|thread) ", "", old)
    assert len(unqualified_pointers(replaced(source, old, new))) == 1


def test_only_ascii(source: str):
    """MLX hands the source over as ASCII, comments too."""
    assert source.isascii()


def unlisted_tokens(source: str) -> set[str]:
    """Keywords, attributes, directives and reserved names outside the lists."""
    code = without_comments(source)
    attributes = {
        name
        for inside in re.findall(r"\[\[(.*?)\]\]", code)
        for name in re.findall(r"\w+(?=\(|,|$)", re.sub(r"\(.*?\)", "()", inside))
    }
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"|<\w+>', "", code)))
    reserved = {word for word in words if re.match("_[A-Z_]", word)}
    directives = set(re.findall(r"^\s*#\s*(\w+)", code, re.M))
    return (
        (attributes - ATTRIBUTES)
        | (words & EVERY_KEYWORD - KEYWORDS)
        | (reserved - {"_Pragma", "__METAL_VERSION__", "__VA_ARGS__"})
        | (directives - {"define", "else", "endif", "ifdef", "ifndef", "include"})
    )


def test_only_keywords_and_attributes_of_the_list(source: str):
    assert unlisted_tokens(source) == set()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("thread_position_in_grid", "thread_positon_in_grid", "thread_positon_in_grid"),
        ("buffer(0)]]", "bufer(0)]]", "bufer"),
        ("function_constant(with_offsets)", "function_const(x)", "function_const"),
        ("float divisor;", "double divisor;", "double"),
        ("const uint tap = offset;", "const auto tap = offset;", "auto"),
        ("-INFINITY;", "-__builtin_inff();", "__builtin_inff"),
        ("#else", "#elif 1", "elif"),
        ("const device T* from", "const global T* from", "global"),
    ],
)
def test_an_unlisted_token_is_found(source: str, old: str, new: str, found: str):
    assert unlisted_tokens(replaced(source, old, new)) == {found}


def test_instantiations_are_those_of_metal(source: str):
    """Explicit ones of a [[kernel]], under a name of their own ([[host_name]])."""
    instantiate = (
        "#define MLX_POOLING_INSTANTIATE(name, ...) \\\n"
        "  template [[host_name(name)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;"
    )
    assert instantiate in source


def member_functions(source: str) -> list[str]:
    """Structs with functions, whose `this` Metal 4.1 wants in an address space."""
    structs = re.findall(r"\bstruct\b[^{;]*\{[^}]*\}", without_comments(source))
    assert structs
    return [struct for struct in structs if "(" in struct[struct.index("{") :]]


def test_no_member_functions(source: str):
    assert member_functions(source) == []
    new = "  Index last;\n  Index size() const;"
    assert len(member_functions(replaced(source, "  Index last;", new))) == 1


def kernel_arguments(source: str) -> dict[str, dict[str, int]]:
    """The buffer index of each argument of each kernel."""
    kernels = re.findall(r"\[\[kernel\]\] void (\w+)\((.*?)\) \{", source, re.S)
    argument = r"(\w+) \[\[buffer\((\d+)\)(?:, function_constant\(\w+\))?\]\]"
    return {
        name: {a: int(i) for a, i in re.findall(argument, arguments)}
        for name, arguments in kernels
    }


def params_index() -> int:
    header = (PROJECT / "csrc" / "metal" / "launch.h").read_text()
    return int(re.search(r"kParamsIndex = (\d+)", header).group(1))


def buffer_faults(source: str) -> list[str]:
    faults = []
    for name, indices in kernel_arguments(source).items():
        arrays = [i for argument, i in indices.items() if argument != "p"]
        if indices.get("p") != params_index():
            faults.append(f"{name}: params at {indices.get('p')}")
        if arrays != list(range(len(arrays))):
            faults.append(f"{name}: arrays at {arrays}")
    return faults


def test_buffer_indices(source: str):
    """In the arguments' order from 0, as the backend binds them (5.2)."""
    assert set(kernel_arguments(source)) == set(FAMILIES)
    assert buffer_faults(source) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y [[buffer(1)]]", "y [[buffer(0)]]"),
        ("p [[buffer(4)]]", "p [[buffer(3)]]"),
        ("x [[buffer(0)]]", "x"),
    ],
)
def test_a_wrong_buffer_index_is_found(source: str, old: str, new: str):
    assert len(buffer_faults(replaced(source, old, new))) == 1


def shader_constants(source: str) -> list[tuple[str, str, int]]:
    """Type, name and index of the function constants, in order."""
    found = re.findall(
        r"constant (\w+) (\w+) \[\[function_constant\((\d+)\)\]\];", source
    )
    return [(kind, name, int(index)) for kind, name, index in found]


def host_constants() -> list[tuple[str, str, int]]:
    header = without_comments((PROJECT / "csrc" / "metal" / "launch.h").read_text())
    body = re.search(r"enum class Constant : uint8_t \{(.*?)\};", header, re.S)
    names = re.findall(r"\w+", body.group(1))
    constant = r"static_cast<int>\(Constant::(\w+)\)"
    last = re.search(rf"kConstants = {constant} \+ 1;", header).group(1)
    assert last == names[-1]
    first_bool = re.search(rf"constant >= {constant};", header).group(1)
    kinds = ["int"] * names.index(first_bool)
    kinds += ["bool"] * (len(names) - len(kinds))
    return list(zip(kinds, names, range(len(names)), strict=True))


def test_function_constants(source: str):
    """Index, name and type are those that the host sets (5.8)."""
    assert shader_constants(source) == host_constants()
    for old, new in (
        ("function_constant(4)", "function_constant(5)"),
        ("bool with_values", "int with_values"),
        ("constant int stride_d [[", "constant int stride_h [["),
    ):
        assert shader_constants(replaced(source, old, new)) != host_constants()
