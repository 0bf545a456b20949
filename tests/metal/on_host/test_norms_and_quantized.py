"""Averages of integers, quantized or not, and norms, by the shaders of averages."""

from __future__ import annotations

import mlx.core as mx
import mlx_pooling as mp
import numpy as np
import pytest
from agreement import Run, agreed, assert_agree, kinds, on_shaders
from mlx_pooling import _ext
from mlx_pooling._arguments import make_window
from reference import Geometry
from strategies import Data
from support import INTEGERS, avg_pool, exact, geometry, lp_op, short_name

from metal import shader_host

BYTES = {"uchar": mx.uint8, "char": mx.int8}

# By the kind of kernel that they take, of which lanes want few outputs.
GEOMETRIES = {
    "avg_pool": {
        "2d": geometry((7, 9), 3, 2, ((1, 0), (0, 1))),
        "2d, overlapping": geometry((9, 18), 3, 1, 1),
        "2d, overhang": geometry((8, 10), (2, 3), (3, 2), 1, ceil_mode=True),
        "2d, only padding": geometry((2, 5), 2, 1, 5),
        "3d": geometry((4, 5, 7), (2, 3, 3), (1, 2, 1), 1),
    },
    "avg_sweep": {
        "1d": geometry((41,), 31, 1, 15),
        "2d": geometry((14, 17), 13, 1, 6),
        "2d, overhang": geometry((41, 30), (25, 14), (3, 1), (2, 0), ceil_mode=True),
        "3d": geometry((9, 12, 11), (5, 7, 5), 1, (2, 3, 2)),
    },
    "avg_pool_lanes": {
        "clipped": geometry((9, 8), 7, 5, ((3, 2), (3, 3))),
        "overhang": geometry((10, 9), 7, 5, ceil_mode=True),
        "global": geometry((7, 9), (7, 9)),
        "in slices": geometry((19, 20), (19, 20)),
    },
}
CASES = [(kind, name) for kind, found in GEOMETRIES.items() for name in found]


def quantized(g: Geometry, x: mx.array, zero_point: int, **options) -> Run:
    names = ("kernel_size", "stride", "padding", "dilation")
    sizes = dict(zip(names, (g.kernel, g.stride, g.padding, 1), strict=True))
    window = make_window(
        "quantized_avg_pool", g.ndim, **sizes, ceil_mode=g.ceil_mode, **options
    )
    return lambda: [_ext.quantized_avg_pool(x, zero_point, window)]


def norms(g: Geometry, x: mx.array, exponent: int) -> Run:
    return lambda: [lp_op(g.ndim)(x, exponent, g.kernel, g.stride, g.ceil_mode)]


def unpadded(g: Geometry) -> Geometry:
    return geometry(g.size, g.kernel, g.stride, ceil_mode=g.ceil_mode)


@pytest.fixture(autouse=True)
def occupancy(kind: str):
    shader_host.plan_as_released(kind == "avg_pool_lanes")
    yield
    shader_host.plan_as_released(False)


@pytest.mark.parametrize("dtype", BYTES.values(), ids=BYTES)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_averages_of_quantized_integers(kind: str, name: str, dtype: mx.Dtype):
    g = GEOMETRIES[kind][name]
    limits = mx.iinfo(dtype)
    for channels, zero_point, options in (
        (1, 3, {}),
        (3, limits.min, {"count_include_pad": False}),
        (4, limits.max, {"divisor_override": -3}),
        (8, 100, {"count_include_pad": False}),
        (16, 7, {"divisor_override": 2**31 + 1}),
    ):
        x = Data("extremes", channels).array((2, *g.size, channels), dtype)
        run = quantized(g, x, zero_point, **options)
        assert kinds(assert_agree(run)) == {kind}


@pytest.mark.parametrize("dtype", [mx.bool_, *INTEGERS], ids=short_name)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_averages_of_integers(kind: str, name: str, dtype: mx.Dtype):
    """Whose sums are exact: only quotients are rounded."""
    g = GEOMETRIES[kind][name]
    numbers = "extremes" if dtype.size == 1 else "ties"
    for channels, options in (
        (1, {}),
        (3, {"count_include_pad": False}),
        (4, {"divisor_override": -3}),
        (8, {"count_include_pad": False}),
        (17, {}),
    ):
        x = Data(numbers, channels).array((2, *g.size, channels), dtype)
        run = lambda x=x, options=options: [avg_pool(x, g, **options)]  # noqa: E731
        assert kinds(assert_agree(run)) == {kind}


@pytest.mark.parametrize("exponent", [2, 3])
@pytest.mark.parametrize(
    ("kind", "name"), [case for case in CASES if case[1] != "2d, only padding"]
)
def test_norms(kind: str, name: str, exponent: int):
    g = unpadded(GEOMETRIES[kind][name])
    for channels in (1, 3, 4):
        x = abs(Data("normal", channels).array((2, *g.size, channels), mx.float32))
        ((y, expected),), kernels = agreed(norms(g, x, exponent))
        assert kinds(kernels) == {kind}
        np.testing.assert_allclose(exact(y), exact(expected), rtol=1e-5)


@pytest.mark.parametrize("kind", ["avg_pool"])
@pytest.mark.parametrize("exponent", [2, 3])
def test_roots_of_any_magnitude(kind: str, exponent: int):
    """Within two units in the last place, and as powers where they are none."""
    scale = 2.0 ** np.arange(-120, 125).repeat(20)
    powers = np.random.default_rng(0).uniform(1, 2, scale.size) * scale
    roots = (powers ** (1 / exponent)).astype(np.float32)
    special = np.array([0, np.inf, np.nan, -1, -np.inf], np.float32)
    x = mx.array(np.concatenate([roots, special]))[None, :, None]
    (y,), kernels = on_shaders(lambda: [mp.lp_pool1d(x, exponent, 1)], "forward")
    assert kinds(kernels) == {kind}
    y = np.array(y).reshape(-1)
    # Of a root, a power's rounding is as much as the exponent divides it by.
    assert np.all(abs(y[: roots.size] - roots) <= 2 * np.spacing(roots))
    minus = [1, np.inf] if exponent == 2 else [np.nan, np.nan]
    np.testing.assert_array_equal(y[roots.size :], [0, np.inf, np.nan, *minus])


@pytest.mark.parametrize("kind", ["avg_pool"])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("name", BYTES)
def test_vectors_of_bytes(kind: str, name: str, width: int):
    """Are no longer than those of 16-bit floats, which sums are as long as."""
    g = geometry((5, 8), 2)
    for tile, window in (("1, 1", g), ("2, 2", geometry((7, 9), 3, (2, 1), 1))):
        # Too many channels for a run, an odd number of vectors of them.
        x = Data("extremes", 1).array((3, *window.size, 41 * width), BYTES[name])
        (kernel,) = assert_agree(quantized(window, x, 5))
        tile = tile if width == 8 or tile == "1, 1" else "4, 2"
        assert kernel == f"{kind}<{name}, {name}, int, {width}, {tile}>"
    (kernel,) = assert_agree(quantized(g, mx.ones((3, 5, 8, 16), mx.uint8), 5))
    assert kernel == f"{kind}<uchar, uchar, int, 8, 1, 1>"


@pytest.mark.parametrize("kind", ["avg_sweep"])
def test_passes_over_bytes_are_not_cut_into_slabs(kind: str):
    """Sums may take as much memory as float32: there will be no gradient."""
    g = GEOMETRIES[kind]["2d"]
    x = Data("extremes", 1).array((2, *g.size, 16), mx.uint8)
    for run, sums, average in (
        (quantized(g, x, 5), "int", "uchar"),
        (lambda: [avg_pool(x, g)], "float", "float"),
    ):
        _, (first, last) = on_shaders(run, "forward")
        assert first.startswith(f"{kind}<uchar, {sums}, int, ")
        assert last.startswith(f"{kind}<{sums}, {average}, int, ")
