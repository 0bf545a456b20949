"""Parity of quantized arrays and pooling with PyTorch, where it is installed."""

from __future__ import annotations

import itertools

import mlx.core as mx
import mlx_pooling
import numpy as np
import pytest
from mlx_pooling import QuantizedArray, quantize_per_tensor
from reference import Geometry
from support import geometry
from torch_arrays import channels_first, torch

CPU = torch.backends.cpu.get_cpu_capability()
pytestmark = [
    pytest.mark.skipif(
        CPU not in ("AVX2", "AVX512"),
        reason="PyTorch's kernels for other processors take ties differently",
    ),
    # It means to move quantization to another package.
    pytest.mark.filterwarnings("ignore:.*quant:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*quant:DeprecationWarning"),
]

# MLX's dtype, PyTorch's, and that of its integers.
DTYPES = {
    "uint8": (mx.uint8, torch.quint8, torch.uint8),
    "int8": (mx.int8, torch.qint8, torch.int8),
    "int32": (mx.int32, torch.qint32, torch.int32),
}
EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES)
SCALES = (0.25, 1.5, 0.1, 1 / 3, 0.007, 71.3, 2.0**-100, 2.0**100)
# PyTorch fills vectors with whole multiples of this many channels.
VECTOR = 8 if CPU == "AVX2" else 16
LAYOUTS = ("contiguous", "channels last")


def limits(dtype: str) -> tuple[int, int]:
    """Of the integers to test: int32 has too many."""
    return {"uint8": (0, 255), "int8": (-128, 127), "int32": (-300, 300)}[dtype]


def of_torch(
    values: np.ndarray,
    scale: float,
    zero_point: int,
    dtype: str,
    layout: str = "contiguous",
) -> torch.Tensor:
    """The integers (N, *spatial, C), channels first."""
    q = torch._make_per_tensor_quantized_tensor(
        channels_first(values).to(DTYPES[dtype][2]), scale, zero_point
    )
    if layout == "channels last":
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        q = q.contiguous(memory_format=formats[q.ndim])
    return q


def of_mlx(
    values: np.ndarray, scale: float, zero_point: int, dtype: str
) -> QuantizedArray:
    return QuantizedArray(mx.array(values).astype(DTYPES[dtype][0]), scale, zero_point)


def assert_same(
    ours: QuantizedArray, theirs: torch.Tensor, channel_axis: int = 1
) -> None:
    assert (ours.scale, ours.zero_point) == (theirs.q_scale(), theirs.q_zero_point())
    expected = np.moveaxis(theirs.int_repr().numpy(), channel_axis, -1)
    np.testing.assert_array_equal(np.array(ours.int_repr()), expected)
    values = np.moveaxis(theirs.dequantize().numpy(), channel_axis, -1)
    np.testing.assert_array_equal(np.array(ours.dequantize()), values)


def integers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    low, high = limits(dtype)
    return np.random.default_rng(seed).integers(low, high, shape, endpoint=True)


@pytest.mark.parametrize("scale", SCALES)
@EACH_DTYPE
def test_quantizing_around_every_integer_and_tie(dtype: str, scale: float):
    low, high = limits(dtype)
    for zero_point in (0, 1, 3, 100, high):
        steps = np.arange(low - 2, high + 2.25, 0.25) - zero_point
        at = (steps * scale).astype(np.float32)
        above, below = (np.nextafter(at, np.float32(to)) for to in (np.inf, -np.inf))
        x = np.stack([at, above, below])
        mlx_dtype, torch_dtype, _ = DTYPES[dtype]
        ours = quantize_per_tensor(mx.array(x), scale, zero_point, mlx_dtype)
        theirs = torch.quantize_per_tensor(
            torch.tensor(x), scale, zero_point, torch_dtype
        )
        assert_same(ours, theirs)


# Of int32, PyTorch gives the lowest for NaN, and dequantizes that to a positive number.
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantizing_what_is_out_of_range(dtype: str):
    x = [np.inf, -np.inf, np.nan, 3e38, -3e38, 0.0, -0.0]
    mlx_dtype, torch_dtype, _ = DTYPES[dtype]
    ours = quantize_per_tensor(mx.array(x), 0.1, 3, mlx_dtype)
    theirs = torch.quantize_per_tensor(torch.tensor(x), 0.1, 3, torch_dtype)
    assert_same(ours, theirs, channel_axis=0)


GEOMETRIES = {
    "1d": geometry((17,), 3, 2, 1),
    "1d, dilated": geometry((17,), 3, 2, 1, 2, ceil_mode=True),
    "2d": geometry((9, 11), 3, 2, 1),
    "2d, apart": geometry((8, 9), 2, 3, ceil_mode=True),
    "2d, unlike": geometry((9, 11), (3, 2), (1, 2), (1, 0), (2, 3)),
    "3d": geometry((5, 6, 7), 3, 2, 1),
    "3d, overhang": geometry((5, 6, 7), 2, 2, 1, ceil_mode=True),
}


def low_padding(g: Geometry) -> list[int]:
    return [low for low, _ in g.padding]


# PyTorch's kernel in three dimensions takes 8 bits without dilation.
@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (dtype, name)
        for dtype, name in itertools.product(DTYPES, GEOMETRIES)
        if not (dtype == "int32" and name.startswith("3d"))
    ],
)
@pytest.mark.parametrize("channels", [1, 3, VECTOR + 1])
def test_max_pool(dtype: str, name: str, channels: int):
    g = GEOMETRIES[name]
    values = integers((2, *g.size, channels), dtype)
    arguments = (g.kernel, g.stride, low_padding(g), g.dilation, g.ceil_mode)
    function = f"quantized_max_pool{g.ndim}d"
    ours = getattr(mlx_pooling, function)(of_mlx(values, 0.1, 3, dtype), *arguments)
    for layout in LAYOUTS[: 1 if g.ndim == 1 else 2]:
        q = of_torch(values, 0.1, 3, dtype, layout)
        assert_same(ours, getattr(torch, function)(q, *arguments))


def torch_avg(q: torch.Tensor, *arguments) -> torch.Tensor:
    pool = {4: torch.nn.functional.avg_pool2d, 5: torch.nn.functional.avg_pool3d}
    return pool[q.ndim](q, *arguments)


@pytest.mark.parametrize("divisor", [None, 1, 5, -2])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("name", ["2d", "2d, apart", "3d", "3d, overhang"])
@EACH_DTYPE
def test_avg_pool(dtype: str, name: str, count_include_pad: bool, divisor: int | None):
    g = GEOMETRIES[name]
    values = integers((2, *g.size, VECTOR - 1), dtype)
    arguments = (g.kernel, g.stride, low_padding(g), g.ceil_mode)
    arguments += (count_include_pad, divisor)
    pool = getattr(mlx_pooling, f"quantized_avg_pool{g.ndim}d")
    for zero_point, layout in itertools.product((0, 3, 100), LAYOUTS):
        ours = pool(of_mlx(values, 0.1, zero_point, dtype), *arguments)
        q = of_torch(values, 0.1, zero_point, dtype, layout)
        assert_same(ours, torch_avg(q, *arguments))


@pytest.mark.parametrize("count_include_pad", [False, True])
@EACH_DTYPE
def test_avg_pool_over_one_axis(dtype: str, count_include_pad: bool):
    values = integers((2, 17, VECTOR - 1), dtype)
    arguments = (4, 3, 2, True, count_include_pad)
    ours = mlx_pooling.quantized_avg_pool1d(of_mlx(values, 0.1, 3, dtype), *arguments)
    q = of_torch(values, 0.1, 3, dtype)
    assert_same(ours, torch.nn.functional.avg_pool1d(q, *arguments))


def windows_of_pairs(dtype: str) -> np.ndarray:
    """(65536, 2): every pair of 8-bit integers."""
    low, high = limits(dtype)
    every = np.arange(low, high + 1)
    return np.stack([np.repeat(every, len(every)), np.tile(every, len(every))], -1)


def windows_of_sums(dtype: str, taps: int) -> np.ndarray:
    """One for every sum that 8-bit integers can have, which is all that counts."""
    low, _ = limits(dtype)
    share, left = np.divmod(np.arange(255 * taps + 1), taps)
    return share[:, None] + (np.arange(taps) < left[:, None]) + low


WINDOWS = {
    "pairs": windows_of_pairs,
    **{f"{n} taps": lambda dtype, n=n: windows_of_sums(dtype, n) for n in (3, 4, 6)},
    **{f"{n} taps": lambda dtype, n=n: windows_of_sums(dtype, n) for n in (9, 14, 49)},
}


def averages(windows: np.ndarray, zero_point: int, dtype: str) -> QuantizedArray:
    """Of each row."""
    values = windows[None, :, :, None]
    return mlx_pooling.quantized_avg_pool2d(
        of_mlx(values, 0.1, zero_point, dtype), (1, windows.shape[1])
    )


@pytest.mark.parametrize("zero_point", [0, 1, 100, 127])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_rounding_of_averages(dtype: str, windows: str, zero_point: int):
    rows = WINDOWS[windows](dtype)
    ours = averages(rows, zero_point, dtype)
    for layout in LAYOUTS:
        # Two channels: with one, an array is contiguous in either layout.
        values = np.repeat(rows[None, :, :, None], 2, axis=-1)
        q = of_torch(values, 0.1, zero_point, dtype, layout)
        theirs = torch_avg(q, (1, rows.shape[1]))
        assert_same(ours, theirs[:, :1])
        assert torch.equal(theirs[:, 0].int_repr(), theirs[:, 1].int_repr())


# Of 14 taps, float32 misses some ties.
@pytest.mark.parametrize("windows", ["pairs", "4 taps", "6 taps", "9 taps"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_vectors_of_channels_take_ties_of_an_odd_zero_point_the_other_way(
    dtype: str, windows: str
):
    """As the docstrings say; PyTorch's other channels, and kernels, do not."""
    rows = WINDOWS[windows](dtype)[::7]
    values = np.repeat(rows[None, :, :, None], VECTOR, axis=-1)
    for zero_point in (2, 3):
        ours = np.array(averages(rows, zero_point, dtype).int_repr()).astype(int)
        q = of_torch(values, 0.1, zero_point, dtype, "channels last")
        theirs = torch_avg(q, (1, rows.shape[1])).int_repr().numpy().astype(int)
        difference = theirs[0, 0, :, 0] - ours[0, :, 0, 0]
        doubled = 2 * (rows.sum(axis=1) - rows.shape[1] * zero_point)
        is_tie = doubled % (2 * rows.shape[1]) == rows.shape[1]
        assert np.abs(difference).max() <= zero_point % 2
        assert not difference[~is_tie].any()


def test_repr_looks_like_that_of_pytorch():
    # What they stand for takes the four decimals that PyTorch prints.
    values = np.array([[4, 6], [8, 10]])
    ours = repr(of_mlx(values, 1.0625, 3, "uint8"))
    integers = torch.tensor(values).to(torch.uint8)
    theirs = repr(torch._make_per_tensor_quantized_tensor(integers, 1.0625, 3))
    for theirs_says, ours_says in (
        *(("tensor(", "array("), ("torch.Size([2, 2])", "(2, 2)")),
        *(("torch.quint8", "uint8"), ("torch.per_tensor", "per_tensor")),
    ):
        theirs = theirs.replace(theirs_says, ours_says)
    assert ours.split() == theirs.split()
