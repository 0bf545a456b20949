"""Launch plans of shapes that no test could run, looked at without running them."""

from __future__ import annotations

import ctypes
import json
import math
import re
from collections.abc import Iterator

import pytest
from metal.plans import (
    FORWARD,
    LAYERS,
    Case,
    Shape,
    int64s,
    is_flat,
    make_plan,
    plane,
    shape_of,
    whole_plan,
)
from reference import Geometry
from support import geometry

LARGEST = 2**31 - 1
SIZES = {
    **{"bool_": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2},
    **{"bfloat16": 2, "uint32": 4, "int32": 4, "float32": 4, "uint64": 8, "int64": 8},
}
BACKWARD = ("max_pool_scatter", "avg_pool_grad")
AVG_OPS = ("avg_pool", "avg_pool_grad")


SHAPES = {
    "small": Shape(plane(16, 3, 2, 1), 2, 4),
    "image": Shape(plane(224, 3, 2, 1), 32, 64, "float16"),
    "10^7 channels": Shape(plane(4, 2), 1, 10**7),
    "10^7 and one channels": Shape(plane(4, 3, 1, 1), 1, 10**7 + 1, "bfloat16"),
    "2^31 - 1 channels": Shape(plane(2, 2), 1, LARGEST, "int8"),
    "rows near 2^31": Shape(geometry((LARGEST - 20, 4), (8, 2), (7, 1)), 1, 4),
    "axes of length 1": Shape(plane(1, 1), 1, 1),
    "length 1, all axes": Shape(geometry((1, 1, 1), 3, 1, 1), 5, 3),
    "batch of 10^6": Shape(plane(3, 3, 1, 1), 10**6, 16),
    "batch of 2^31 - 1": Shape(plane(1, 1), LARGEST, 1, "uint8"),
    "2^31 elements": Shape(plane((2**15, 2**16), 2), 1, 1, "uint8"),
    "2^31 - 1 elements": Shape(geometry((LARGEST,), 2), 1, 1, "uint8"),
    "2^33 rows": Shape(plane((4, 1), (2, 1), (1, 1)), LARGEST, 1, "int8"),
    "2^40 elements": Shape(geometry((2**10,) * 3, 3, 1, 1), 2**5, 32, "float16"),
    "huge planes": Shape(
        geometry((2**31 - 2**20, 2, 1), (2, 1, 1), (1, 1, 1)), 1, 1, "int8"
    ),
    "long rows": Shape(plane((2**9, 2**20), (1, 3), 1, (0, 1)), 1, 2**10),
    "window of 2^31 elements": Shape(
        plane((4, 2**21), (3, 2), (1, 2), (1, 0)), 2, 2**10
    ),
    "window of fewer": Shape(plane((4, 2**19), (3, 2), (1, 2), (1, 0)), 2, 2**10),
    "sweep of 2^31 channels": Shape(
        geometry((40, 2**15, 2**16), 13, 1, 6), 1, 1, "int8"
    ),
    "sweep over 2^31 elements": Shape(
        plane((2**9, 2**10), 31, 1, 15), 1, 2**19, "int8"
    ),
    "long axis": Shape(geometry((LARGEST,), 3, 1, 1), 1, 3, "float16"),
    "huge padding": Shape(plane(9, 3, (2**30, 1), ((LARGEST, 0), (1, 1))), 4, 8),
    "huge padding on both sides": Shape(plane(9, 3, 2**30, LARGEST), 4, 8),
    "huge dilation": Shape(plane(9, 2, 1, 2**30, 2**30), 1, 1),
    "huge stride": Shape(plane(9, 2, LARGEST), 2, 2),
    "large window": Shape(plane((40, 50), 13, 1, 6), 8, 12, "float16"),
    "large window of 2^31 elements": Shape(plane(2**11, 31, 1, 15), 2**5, 16),
    "large window, few rows": Shape(plane((3, 60), (3, 31), 1, (1, 15)), 1, 6, "int64"),
    "global": Shape(plane((9, 7), (9, 7)), 1, 3),
    "huge kernel": Shape(plane(9, LARGEST, 1, 2**30), 2, 2, "int64"),
    **{
        f"{dtype} from byte {byte_offset}": Shape(
            plane(9, 3, 1, 1), 2, 16, dtype, byte_offset
        )
        for dtype, size in SIZES.items()
        for byte_offset in (size, 2 * size, 3 * size, 4 * size, 16)
    },
}


def is_planned(op: str, dtype: str) -> bool:
    """Whether an operation takes such elements."""
    if op == "avg_pool_of_integers":
        return "float" not in dtype
    quantized_or_summed = ("int8", "uint8", "int32", "int64")
    return (
        not op.startswith("avg")
        or "float" in dtype
        or (op == "avg_pool" and dtype in quantized_or_summed)
    )


CASES = [
    (op, name)
    for name, shape in SHAPES.items()
    for op in (*FORWARD, *BACKWARD)
    if is_planned(op, shape.dtype)
]


def flat_arguments(launch: dict) -> tuple[str, int, int, int, int]:
    """Type of indices, vector width, channels, and rows and columns of a tile."""
    index, sizes = re.search(r"(int|long), ([\d, ]+)>$", launch["kernel"]).groups()
    sizes = list(map(int, sizes.split(", ")))
    if "grad" in launch["kernel"] or "scatter" in launch["kernel"]:
        _, width, channels, columns, _ = sizes
        return index, width, channels, 1, columns
    return index, *sizes[:4]


def template_arguments(launch: dict) -> tuple[str, int, int, int]:
    """The type of indices, channels of a thread, and rows and columns of its tile."""
    if is_flat(launch):
        index, _, *sizes = flat_arguments(launch)
        return index, *sizes
    pattern = r"(int|long)(?:, (\d+)(?:, (\d+))?, (\d+))?>$"
    index, *sizes = re.search(pattern, launch["kernel"]).groups(default="1")
    return index, *map(int, sizes)


def grid_faults(launches: list[dict]) -> list[str]:
    """A threadgroup has at most 1024 threads, or as few as a simdgroup where a kernel
    demands it; positions in the grid are uint3."""
    faults = []
    for launch in launches:
        for key, most in (("threadgroup", 1024), ("least_threadgroup", 32)):
            if not 1 <= math.prod(launch[key]) <= most:
                faults.append(f"{key} {launch[key]}")
        if not all(1 <= size < 2**32 for size in launch["grid"]):
            faults.append(f"grid {launch['grid']}")
    return faults


def cover_faults(launches: list[dict], op: str, shape: Shape) -> list[str]:
    """Vectors divide the channels, tiles reach just to the end of W, rows add up."""
    *planes, rows, columns = (1, *shape.positions(op))
    depth = math.prod(planes)
    faults = []
    next_plane = 0
    for launch in launches:
        _, width, tile_rows, tile = template_arguments(launch)
        x, y, z = launch["grid"]
        if x * width != shape.channels:
            faults.append(f"{x} vectors of {width} channels")
        if not (y - 1) * tile < columns <= y * tile:
            faults.append(f"{y} tiles of {tile} columns")
        first_plane = launch["first_item"] * depth + launch["first_plane"]
        if first_plane != next_plane or launch["first_plane"] >= depth:
            faults.append(f"planes from {first_plane} instead of {next_plane}")
        planes_of_launch, rest = divmod(z, -(-rows // tile_rows))
        if rest or z > LARGEST:
            faults.append(f"{z} rows of tiles")
        next_plane += planes_of_launch
    if next_plane != shape.batch * depth:
        faults.append(f"{next_plane} planes")
    return faults


def vector_faults(launches: list[dict], shape: Shape) -> list[str]:
    """At most 16 bytes, at multiples of their size."""
    size = SIZES[shape.dtype]
    faults = []
    for launch in launches:
        if is_flat(launch):
            faults += run_faults(launch, shape)
            continue
        _, width, *_ = template_arguments(launch)
        bytes_moved = width * size
        starts = (shape.byte_offset, shape.channels * size)
        if bytes_moved > 16 or any(start % bytes_moved for start in starts):
            faults.append(f"vectors of {bytes_moved} bytes at multiples of {starts}")
    return faults


def run_faults(launch: dict, shape: Shape) -> list[str]:
    """At most 16 bytes, at multiples of a quarter of that; whole ones in a tile."""
    _, width, channels, _, columns = flat_arguments(launch)
    size = SIZES[shape.dtype]
    faults = []
    if channels * columns % width:
        faults.append(f"{channels * columns} elements in vectors of {width}")
    starts = [channels * length for length in (launch["in"][2], launch["out"][2])]
    starts = [shape.byte_offset, *(size * start for start in starts)]
    if width * size > 16 or any(start % (width * size // 4) for start in starts):
        faults.append(f"vectors of {width * size} bytes at multiples of {starts}")
    return faults


def steps(size: tuple[int, ...], channels: int) -> list[int]:
    """Elements between neighbours along each axis."""
    return [math.prod(size[i + 1 :]) * channels for i in range(len(size))]


def strides(g: Geometry) -> list[int]:
    """Of a single window, that of whole ones: none is a stride away."""
    spans = [d * (k - 1) + 1 for d, k in zip(g.dilation, g.kernel, strict=True)]
    axes = zip(g.output, g.stride, spans, strict=True)
    return [span if outputs == 1 else stride for outputs, stride, span in axes]


def reach(op: str, shape: Shape, tile: tuple[int, ...]) -> int:
    """Elements from the first to the last that a thread looks at in one array."""
    g = shape.geometry
    mine, seen = (g.output, g.size) if op in FORWARD else (g.size, g.output)
    own = along = 0
    for i, neighbours in enumerate(tile):
        span = g.dilation[i] * (g.kernel[i] - 1)
        if op in FORWARD:
            positions = span + (neighbours - 1) * strides(g)[i]
        else:
            positions = (span + neighbours - 1) // strides(g)[i]
        own += (neighbours - 1) * steps(mine, shape.channels)[i]
        along += min(positions, seen[i] - 1) * steps(seen, shape.channels)[i]
    return own if op == "max_pool_gather" else max(own, along)


def largest_position(shape: Shape, tile: tuple[int, ...]) -> int:
    g = shape.geometry
    return max(
        size + sum(padding) + (neighbours - 1) * stride + dilation
        for size, padding, stride, dilation, neighbours in zip(
            g.size, g.padding, strides(g), g.dilation, tile, strict=True
        )
    )


def index_faults(launches: list[dict], op: str, shape: Shape) -> list[str]:
    """32-bit indices where they do not do; 64-bit ones where the others would."""
    faults = []
    for launch in launches:
        index, _, *tile = template_arguments(launch)
        tile = (1, *tile)[-shape.geometry.ndim :]
        largest = max(reach(op, shape, tile), largest_position(shape, tile))
        if index == "int" and largest > LARGEST:
            faults.append("32-bit indices")
        if index == "long" and largest < LARGEST // 2:
            faults.append("64-bit indices")
    return faults


def is_pass(launch: dict) -> bool:
    return "_sweep<" in launch["kernel"]


def pass_reach(launch: dict, strip: int, is_forward: bool) -> int:
    """Elements from the first to the last that a thread looks at in one array."""
    _, _, taps, _, _, stride, _, _, dilation, *_ = launch["constants"]
    span = (taps - 1) * dilation + (strip - 1) * stride
    x, y = launch["x_step"][2], launch["y_step"][2]
    read, written = (x, y) if is_forward else (y, x)
    positions = launch["in" if is_forward else "out"][2]
    return max(min(span, positions - 1) * read, (strip - 1) * written)


def pass_faults(launches: list[dict], op: str, shape: Shape) -> list[str]:
    """As of other launches, but along the one axis that each pass is over."""
    faults = []
    for launch in launches:
        index, _, _, strip = template_arguments(launch)
        _, y, z = launch["grid"]
        results = launch["results_size"][2]
        if not (y - 1) * strip < results <= y * strip:
            faults.append(f"{y} strips of {strip} results")
        if index == "int" and pass_reach(launch, strip, op in FORWARD) > LARGEST:
            faults.append("32-bit indices")
        if z > LARGEST:
            faults.append(f"{z} rows")
    results = sum(map(result_count, last_passes(launches, shape)))
    if results != shape.batch * math.prod(shape.positions(op)) * shape.channels:
        faults.append(f"{results} results")
    return faults


def shares_taps(launch: dict) -> bool:
    return "_lanes<" in launch["kernel"]


def reads_slices(launch: dict) -> bool:
    return bool(launch["constants"][-1])


def share_faults(launches: list[dict], shape: Shape) -> list[str]:
    """Whole simdgroups for each output and slice; planes add up, for both steps."""
    *planes, rows, columns = (1, *shape.geometry.output)
    depth = math.prod(planes)
    faults = []
    next_plane = [0, 0]
    for launch in launches:
        index, width, _, lanes = template_arguments(launch)
        x, y, z = launch["grid"]
        step = reads_slices(launch)
        vectors = shape.channels // width
        slices = 1 if step else launch["slices"]
        if x != -(-vectors * lanes // 32) * 32 or launch["threadgroup"][0] % 32:
            faults.append(f"{x} threads for {vectors} vectors, {lanes} lanes each")
        if launch["least_threadgroup"] != [32, 1, 1]:
            faults.append("simdgroups taken apart")
        if y != slices * columns or y != launch["results_size"][2]:
            faults.append(f"{y} threads for {slices} slices of {columns} columns")
        first_plane = launch["first_item"] * depth + launch["first_plane"]
        if first_plane != next_plane[step] or z % rows:
            faults.append(f"{z} rows from plane {first_plane}")
        next_plane[step] += z // rows
        elements = launch["slices"] * shape.channels * shape.batch * depth
        if step and index == "int" and elements * rows * columns > LARGEST:
            faults.append("32-bit indices")
    if set(next_plane) - {0} != {shape.batch * depth}:
        faults.append(f"{next_plane} planes")
    return faults


def result_count(launch: dict) -> int:
    x, _, z = launch["grid"]
    return x * template_arguments(launch)[1] * z * launch["results_size"][2]


def last_passes(launches: list[dict], shape: Shape) -> list[dict]:
    """Of each slab."""
    g = shape.geometry
    passes = sum(
        kernel > 1 or size != output
        for kernel, size, output in zip(g.kernel, g.size, g.output, strict=True)
    )
    return launches[passes - 1 :: passes]


def faults(launches: list[dict], op: str, shape: Shape) -> list[str]:
    if any(map(shares_taps, launches)):
        return [
            *grid_faults(launches),
            *share_faults(launches, shape),
            *vector_faults(launches, shape),
            *index_faults([x for x in launches if not reads_slices(x)], op, shape),
        ]
    if any(map(is_pass, launches)):
        return [*grid_faults(launches), *pass_faults(launches, op, shape)]
    return [
        *grid_faults(launches),
        *cover_faults(launches, op, shape),
        *vector_faults(launches, shape),
        *index_faults(launches, op, shape),
    ]


@pytest.mark.parametrize(("op", "name"), CASES)
def test_plan(library: ctypes.CDLL, op: str, name: str):
    launches = make_plan(library, op, SHAPES[name])
    assert launches
    assert faults(launches, op, SHAPES[name]) == []


@pytest.mark.parametrize(
    ("name", "index", "launches"),
    [
        ("image", "int", 1),
        ("10^7 channels", "int", 1),
        ("2^31 - 1 elements", "long", 1),
        ("2^31 elements", "int", 1),
        ("2^40 elements", "int", 1),
        ("2^33 rows", "int", 5),
        ("huge planes", "int", 2),
        ("long rows", "int", 1),
        ("window of 2^31 elements", "long", 1),
        ("window of fewer", "int", 1),
        ("huge padding", "long", 1),
        ("huge dilation", "long", 2),
        ("large window", "int", 8),
        ("large window of 2^31 elements", "int", 4),
        ("sweep over 2^31 elements", "int long", 8),
        ("sweep of 2^31 channels", "long", 1),
    ],
)
def test_kind_of_plan(library: ctypes.CDLL, name: str, index: str, launches: int):
    plan = make_plan(library, "max_pool_scatter", SHAPES[name])
    assert {template_arguments(launch)[0] for launch in plan} == set(index.split())
    assert len(plan) == launches


@pytest.mark.parametrize("channels", [*range(1, 18), 24, 32, 48])
@pytest.mark.parametrize("dtype", SIZES)
def test_vectors_are_as_wide_as_is_legal(
    library: ctypes.CDLL, dtype: str, channels: int
):
    shape = Shape(plane(9, 3, 1, 1), 2, channels, dtype)
    full, divides = 16 // SIZES[dtype], channels & -channels
    for op in ("max_pool", "max_pool_scatter"):
        for launch in make_plan(library, op, shape):
            if is_flat(launch):
                # Of more than 40 elements none are: all are kept in registers.
                assert divides < flat_arguments(launch)[1] <= min(full, 4 * divides)
            else:
                assert template_arguments(launch)[1] == min(full, divides)


# Vector widths forward, where rows of 32 begin at multiples of many elements, and
# backward, where windows begin anywhere.
FEW_CHANNELS = [
    (1, "float32", 4, 4),
    (3, "float32", 4, 4),
    (6, "float32", 4, 4),
    (1, "float16", 8, 4),
    (3, "float16", 8, 4),
    (20, "float16", 8, 8),
    (3, "uint8", 8, 4),
    (4, "uint8", 16, 16),
]


@pytest.mark.parametrize(("channels", "dtype", "forward", "backward"), FEW_CHANNELS)
def test_few_channels_are_moved_as_runs(
    library: ctypes.CDLL, channels: int, dtype: str, forward: int, backward: int
):
    shape = Shape(plane((30, 32), 2), 8, channels, dtype)
    for op, width in (("max_pool", forward), ("max_pool_scatter", backward)):
        (launch,) = make_plan(library, op, shape)
        assert is_flat(launch)
        assert flat_arguments(launch)[1] == width


# Of passes forward and backward, vector widths and lengths of strips.
STRIPS = [
    (31, 1, "float32", (1, 32), (1, 32)),
    (31, 2, "float32", (2, 32), (2, 16)),
    (25, 4, "float32", (4, 16), (4, 8)),
    (31, 4, "float32", (4, 16), (4, 8)),
    (99, 4, "float32", (4, 32), (4, 8)),
]


def width_and_strip(library: ctypes.CDLL, op: str, shape: Shape) -> tuple[int, int]:
    (launch,) = make_plan(library, op, shape)
    assert is_pass(launch)
    _, width, _, strip = template_arguments(launch)
    return width, strip


@pytest.mark.parametrize(("kernel", "channels", "dtype", "ahead", "back"), STRIPS)
def test_strips_load_least(
    library: ctypes.CDLL, kernel: int, channels: int, dtype: str, ahead, back
):
    g = geometry((4000,), kernel, 1, kernel // 2)
    shape = Shape(g, 1, channels, dtype)
    assert width_and_strip(library, "avg_pool", shape) == ahead
    assert width_and_strip(library, "avg_pool_grad", shape) == back


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    ("length", "expected"),
    [(5_000, (4, 8)), (2_500, (4, 4)), (600, (4, 1)), (300, (2, 1)), (50, (1, 1))],
)
def test_strips_are_shortened_for_threads(
    library: ctypes.CDLL, length: int, expected: tuple[int, int]
):
    """And only then do vectors become narrower."""
    shape = Shape(geometry((length,), 31, 1, 15), 1, 16)
    assert width_and_strip(library, "avg_pool_grad", shape) == expected


@pytest.fixture
def released(library: ctypes.CDLL) -> Iterator[None]:
    library.plan_as_released(True)
    yield
    library.plan_as_released(False)


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    ("size", "tile"),
    [((56, 56), (4, 2)), ((19, 19), (4, 1)), ((3, 112), (1, 4)), ((8, 8), (1, 1))],
)
@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_few_threads_get_smaller_tiles(
    library: ctypes.CDLL, op: str, size: tuple[int, int], tile: tuple[int, int]
):
    (launch,) = make_plan(library, op, Shape(plane(size, 5, 1, 2), 1, 512))
    assert template_arguments(launch)[2:] == tile


# Windows of few outputs: the least threads of the launch that reads the input.
FEW_OUTPUTS = {
    "64 channels": (Shape(plane(8, 8), 1, 64), 256),
    "512 channels": (Shape(plane(7, 7), 1, 512), 1024),
    "2048 channels": (Shape(plane(7, 7), 1, 2048), 2048),
    "512 channels, batch of 4": (Shape(plane(7, 7), 4, 512), 2048),
    "many positions": (Shape(plane(56, 56), 1, 64), 2048),
    "one channel": (Shape(plane(224, 224), 1, 1), 2048),
    "half types": (Shape(plane(56, 56), 1, 64, "float16"), 2048),
    "windows of 32": (Shape(plane(64, 32, 32), 1, 8), 2048),
    "clipped windows": (Shape(plane(64, 32, 32, 16), 1, 8), 2048),
    "clip of a film": (Shape(geometry((8, 14, 14), (8, 14, 14)), 1, 64), 2048),
    "2^31 elements": (Shape(plane((2**15, 2**17), (2**15, 2**16 + 1)), 1, 1), 2048),
    "sound": (Shape(geometry((16000,), 16000), 1, 4), 2048),
    "tokens": (Shape(geometry((196,), 196), 16, 768), 12288),
    "batch of 8": (Shape(plane(56, 56), 8, 256), 32768),
    "outputs for 30000 threads": (Shape(plane(64, 8, 8), 30, 64), 61440),
}


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("name", FEW_OUTPUTS)
@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_few_outputs_keep_many_threads_busy(library: ctypes.CDLL, op: str, name: str):
    shape, threads = FEW_OUTPUTS[name]
    launches = make_plan(library, op, shape)
    assert all(map(shares_taps, launches))
    assert math.prod(launches[0]["grid"]) >= threads
    assert faults(launches, op, shape) == []


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    ("shape", "why"),
    [
        (Shape(plane(7, 7), 8, 2048), "threads enough for few taps"),
        (Shape(plane(56, 56), 256, 512), "threads enough"),
        (Shape(plane(19, 13, 1, 6), 1, 256), "passes load less"),
        (Shape(plane(512, 8), 4, 1), "no full simdgroups of one channel"),
        (Shape(plane(28, 3, 1, 1), 1, 1), "few taps"),
    ],
    ids=str,
)
def test_windows_that_need_no_lanes(library: ctypes.CDLL, shape: Shape, why: str):
    assert not any(map(shares_taps, make_plan(library, "max_pool", shape))), why


def pipelines(launches: list[dict]) -> list[tuple]:
    return [(launch["kernel"], *launch["constants"]) for launch in launches]


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("channels", [4, 2**16], ids=["few threads", "many threads"])
@pytest.mark.parametrize("op", [*FORWARD, *BACKWARD, "max_unpool", "max_unpool_grad"])
def test_inputs_of_any_size_share_pipelines(
    library: ctypes.CDLL, op: str, channels: int
):
    """Where windows are as large as they are; MLX keeps each pipeline for good."""
    first, second = (
        pipelines(make_plan(library, op, Shape(plane(size, size), 2, channels)))
        for size in ((32, 48), (36, 44))
    )
    assert first == second


def test_small_kernels_are_known_to_the_compiler(library: ctypes.CDLL):
    first, second = (
        pipelines(make_plan(library, "max_pool", Shape(plane(32, size), 2, 4)))
        for size in (2, 4)
    )
    assert first != second


# A change of one launch, and what is said about it.
FAULTS = {
    "threadgroup": ({"threadgroup": [32, 32, 2]}, "threadgroup [32, 32, 2]"),
    "wide kernel": ({"least_threadgroup": [4, 4, 4]}, "least_threadgroup [4, 4, 4]"),
    "no threadgroup": ({"threadgroup": [0, 1, 1]}, "threadgroup [0, 1, 1]"),
    "grid": ({"grid": [1, 1, 2**32]}, "grid [1, 1, 4294967296]"),
    "channels": ({"grid": [2, 4, 4]}, "2 vectors of 4 channels"),
    "too few tiles": ({"grid": [1, 3, 4]}, "3 tiles of 2 columns"),
    "too many tiles": ({"grid": [1, 5, 4]}, "5 tiles of 2 columns"),
    "rows": ({"grid": [1, 4, 3]}, "3 rows of tiles"),
    "planes": ({"grid": [1, 4, 2]}, "1 planes"),
    "first item": ({"first_item": 1}, "planes from 1 instead of 0"),
    "first plane": ({"first_plane": 1}, "planes from 1 instead of 0"),
    "vectors": (
        {"kernel": "max_pool<float, uchar, int, 8, 4, 2>"},
        "vectors of 32 bytes at multiples of (0, 16)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(library: ctypes.CDLL, name: str):
    shape = SHAPES["small"]
    change, message = FAULTS[name]
    (launch,) = make_plan(library, "max_pool", shape)
    assert template_arguments(launch) == ("int", 4, 4, 2)
    assert message in faults([launch | change], "max_pool", shape)


SHARE_FAULTS = {
    "part of a simdgroup": ({"grid": [24, 16, 1]}, "24 threads for 2 vectors"),
    "threadgroup": ({"threadgroup": [16, 1, 1]}, "32 threads for 2 vectors"),
    "wide kernel": ({"least_threadgroup": [16, 2, 1]}, "simdgroups taken apart"),
    "slices": ({"grid": [32, 15, 1]}, "15 threads for 16 slices of 1 columns"),
    "planes": ({"grid": [32, 16, 2]}, "[2, 1] planes"),
}


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("name", SHARE_FAULTS)
def test_a_planted_fault_of_shared_windows_is_found(library: ctypes.CDLL, name: str):
    shape = Shape(plane(32, 32), 1, 8)
    change, message = SHARE_FAULTS[name]
    first, second = make_plan(library, "max_pool", shape)
    assert (first["grid"], first["slices"]) == ([32, 16, 1], 16)
    assert faults([first, second], "max_pool", shape) == []
    found = faults([first | change, second], "max_pool", shape)
    assert any(message in fault for fault in found)


def test_a_narrow_index_is_found(library: ctypes.CDLL):
    shape = SHAPES["huge padding"]
    (launch,) = make_plan(library, "max_pool", shape)
    narrow = launch | {"kernel": launch["kernel"].replace("long", "int")}
    assert faults([narrow], "max_pool", shape) == ["32-bit indices"]


def test_a_wide_index_is_found(library: ctypes.CDLL):
    shape = SHAPES["2^40 elements"]
    (launch,) = make_plan(library, "max_pool", shape)
    wide = launch | {"kernel": launch["kernel"].replace("int", "long")}
    assert faults([wide], "max_pool", shape) == ["64-bit indices"]


@pytest.mark.parametrize(("outputs", "index"), [(2046, "int"), (2047, "long")])
@pytest.mark.parametrize("op", ["max_pool", "max_pool_scatter", "max_pool_gather"])
def test_adaptive_windows_start_where_products_fit(
    library: ctypes.CDLL, op: str, outputs: int, index: str
):
    """Window o starts at o * in / out, which has no 32-bit dividend for every o."""
    plan = library.plan(
        *(f"adaptive_{op}".encode(), b"float32", b"uint32", 1),
        *(int64s(1, 2**20 - 1, 1), int64s(outputs), ctypes.c_int64(0)),
    )
    (launch,) = json.loads(plan)["launches"]
    assert f" {index}" in launch["kernel"]


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_memory_of_a_gradient(library: ctypes.CDLL, layer: Case, dtype: str):
    """Beyond its results, a gradient keeps offsets and what passes leave, both ways."""
    shape = shape_of(layer, dtype)
    ops = ("max_pool", "max_pool_scatter") if layer.op == "max" else AVG_OPS
    between = sum(whole_plan(library, op, shape)["temporary_bytes"] for op in ops)
    outputs = shape.batch * math.prod(shape.geometry.output) * shape.channels
    offsets = outputs * SIZES[shape.offsets] if layer.op == "max" else 0
    assert offsets + between <= 1.1 * (math.prod(layer.shape) * SIZES[dtype] + offsets)
