"""Padding by name: "valid" is none; "same" is TensorFlow's and ONNX's SAME_UPPER."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
import reference
from checks import (
    assert_all_identical,
    check_compile,
    check_composed,
    check_vmap,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Geometry
from strategies import Data, data
from support import (
    NDIMS,
    assert_identical,
    assert_same,
    avg_op,
    exact,
    fixed,
    geometry,
    layer,
    max_op,
    min_op,
    power_sum,
    vjp,
)

OPS = {"Max": max_op, "Min": min_op, "Avg": avg_op}
KINDS = pytest.mark.parametrize("kind", OPS)
COUNTS = pytest.mark.parametrize("count_include_pad", [True, False])


def pooling(kind: str, g: Geometry, padding, **options):
    """The pooling of g with another padding, as a function of x."""
    op = OPS[kind](g.ndim)
    return fixed(op, g.kernel, g.stride, padding, dilation=g.dilation, **options)


def check(kind: str, x: mx.array, g: Geometry, **options) -> None:
    """Values, indices and gradients are those of the pairs of the formula."""
    named = pooling(kind, g, "same", **options)
    paired = pooling(kind, g, g.padding, **options)
    y = named(x)
    assert y.shape[1:-1] == tuple(map(math.ceil, np.divide(g.size, g.stride)))
    assert_identical(y, paired(x))
    dy = Data("ties", 1).array(y.shape, x.dtype)
    if mx.issubdtype(x.dtype, mx.floating):
        assert_identical(vjp(named, x, dy), vjp(paired, x, dy))
    if kind != "Avg":
        named = pooling(kind, g, "same", return_indices=True)
        paired = pooling(kind, g, g.padding, return_indices=True)
        assert_all_identical(named(x), paired(x))


@st.composite
def same_geometries(draw) -> Geometry:
    ndim = draw(st.sampled_from([1, 2, 3]))
    each = st.tuples(
        st.integers(1, {1: 14, 2: 8, 3: 5}[ndim]),
        st.integers(1, 5 if ndim < 3 else 3),
        st.integers(1, 4),
        st.sampled_from([1, 1, 2, 3]),
    )
    axes = [draw(each) for _ in range(ndim)]
    return reference.same_upper(*map(tuple, zip(*axes, strict=True)))


@KINDS
@COUNTS
@given(g=same_geometries(), values=data(), channels=st.sampled_from([1, 3, 8]))
@settings(max_examples=30)
def test_any_geometry(kind, count_include_pad, g, values, channels):
    options = {"count_include_pad": count_include_pad} if kind == "Avg" else {}
    for dtype in (mx.float32, mx.bfloat16, mx.int8):
        check(kind, values.array((2, *g.size, channels), dtype), g, **options)


@KINDS
@pytest.mark.parametrize("size", range(1, 12))
def test_every_small_size(kind: str, size: int):
    x = Data("normal", size).array((1, size, 2), mx.float32)
    for kernel in range(1, 6):
        for stride in range(1, 6):
            for dilation in (1, 2, 3):
                g = reference.same_upper((size,), (kernel,), (stride,), (dilation,))
                y = pooling(kind, g, "same")(x)
                assert y.shape == (1, math.ceil(size / stride), 2)
                assert_identical(y, pooling(kind, g, g.padding)(x))


def test_the_odd_element_is_at_the_end():
    x = mx.array([5.0, 1.0, 3.0]).reshape(1, 3, 1)
    values, indices = max_op(1)(x, 2, 1, "same", return_indices=True)
    np.testing.assert_array_equal(exact(values).ravel(), [5, 3, 3])
    np.testing.assert_array_equal(exact(indices).ravel(), [0, 2, 2])
    y = avg_op(1)(x, 2, 1, "same")
    np.testing.assert_array_equal(exact(y).ravel(), [3, 2, 1.5])
    y = avg_op(1)(x, 2, 1, "same", count_include_pad=False)
    np.testing.assert_array_equal(exact(y).ravel(), [3, 2, 3])
    y = avg_op(1)(x, 4, 1, "same", divisor_override=1)  # one before, two after
    np.testing.assert_array_equal(exact(y).ravel(), [9, 9, 4])


def test_stride_decides_how_much_is_padded():
    """TensorFlow's example: 224 by 3/2 is padded at the end alone."""
    x = Data("normal", 0).array((1, 224, 224, 1), mx.float32)
    y = max_op(2)(x, 3, 2, "same")
    assert y.shape == (1, 112, 112, 1)
    assert_identical(y, max_op(2)(x, 3, 2, ((0, 1), (0, 1))))
    odd = x[:, :223, :223]
    assert_identical(max_op(2)(odd, 3, 2, "same"), max_op(2)(odd, 3, 2, 1))


@KINDS
def test_axes_differ(kind: str):
    g = reference.same_upper((9, 8, 7), (2, 3, 4), (3, 1, 2), (1, 2, 1))
    assert g.padding == ((0, 0), (2, 2), (1, 2))
    check(kind, Data("nan", 0).array((2, *g.size, 3), mx.float32), g)


@KINDS
@NDIMS
def test_strides_longer_than_the_kernel_need_none(ndim: int, kind: str):
    g = reference.same_upper((9,) * ndim, (2,) * ndim, (5,) * ndim, (1,) * ndim)
    assert g.padding == ((0, 0),) * ndim
    check(kind, Data("nan", 0).array((2, *g.size, 3), mx.float32), g)


@KINDS
@NDIMS
def test_kernels_larger_than_the_input(ndim: int, kind: str):
    g = reference.same_upper((2,) * ndim, (7,) * ndim, (1,) * ndim, (1,) * ndim)
    check(kind, Data("nan", 0).array((2, *g.size, 3), mx.float32), g)


@KINDS
@NDIMS
def test_the_default_stride(ndim: int, kind: str):
    x = Data("normal", 0).array((2, *(7, 8, 5)[:ndim], 3), mx.float32)
    op = OPS[kind](ndim)
    assert_identical(op(x, 3, padding="same"), op(x, 3, 3, "same"))


@KINDS
@NDIMS
def test_ceil_mode_changes_nothing(ndim: int, kind: str):
    for kernel, stride in ((2, 3), (3, 2), (1, 4), (2, 2)):
        for size in (6, 7, 8):
            x = Data("normal", 0).array((1, *(size,) * ndim, 2), mx.float32)
            op = fixed(OPS[kind](ndim), kernel, stride, "same")
            ceil = fixed(OPS[kind](ndim), kernel, stride, "same", ceil_mode=True)
            assert_identical(ceil(x), op(x))


@KINDS
@NDIMS
def test_valid_is_no_padding(ndim: int, kind: str):
    x = Data("nan", 0).array((2, *(9, 8, 7)[:ndim], 3), mx.float32)
    for options in ({}, {"stride": 2}, {"stride": 2, "dilation": 2, "ceil_mode": True}):
        op = OPS[kind](ndim)
        y = op(x, 3, padding="valid", **options)
        assert_identical(y, op(x, 3, padding=0, **options))
    with pytest.raises(ValueError, match="'kernel_size'"):
        op(x, 30, padding="valid")


@pytest.mark.parametrize("divisor", [None, 1, -3])
@COUNTS
@NDIMS
def test_averages_against_the_reference(ndim: int, count_include_pad: bool, divisor):
    for kernel, stride in ((2, 1), (3, 2), (4, 3)):
        each = ((7, 6, 5)[:ndim], (kernel,) * ndim, (stride,) * ndim, (1,) * ndim)
        g = reference.same_upper(*each)
        x = Data("normal", 0).array((2, *g.size, 3), mx.float32)
        options = {"count_include_pad": count_include_pad, "divisor_override": divisor}
        named = pooling("Avg", g, "same", **options)
        expected = reference.avg_pool(exact(x), g, **options)
        np.testing.assert_allclose(exact(named(x)), expected, rtol=1e-5, atol=1e-6)
        dy = Data("normal", 1).array((2, *g.output, 3), mx.float32)
        expected = reference.avg_pool_grad(exact(dy), g, **options)
        np.testing.assert_allclose(
            exact(vjp(named, x, dy)), expected, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("kind", ["Max", "Min"])
@NDIMS
def test_maxima_and_minima_against_the_reference(ndim: int, kind: str):
    each = ((7, 6, 5)[:ndim], (4, 2, 3)[:ndim], (1, 3, 2)[:ndim], (1, 2, 1)[:ndim])
    g = reference.same_upper(*each)
    x = Data("nan", 0).array((2, *g.size, 3), mx.float32)
    values, indices = pooling(kind, g, "same", return_indices=True)(x)
    expected = {"Max": reference.max_pool, "Min": reference.min_pool}[kind](exact(x), g)
    assert_same(values, expected.values)
    assert_same(indices, expected.indices)


# Transformations


SIZES = {
    1: ((2, 9, 3), (2, 12, 3), (5, 9, 3), (1, 30, 8), (1, 2, 1)),
    2: ((2, 9, 8, 3), (2, 10, 13, 3), (3, 16, 9, 3), (1, 1, 2, 8)),
    3: ((1, 5, 6, 7, 3), (1, 6, 7, 10, 3), (2, 1, 7, 4, 3)),
}


@KINDS
@NDIMS
def test_compile(ndim: int, kind: str):
    """The padding of a shapeless trace depends on the size."""
    inputs = [Data("ties", 0).array(shape, mx.float32) for shape in SIZES[ndim]]
    for kernel, stride in ((3, 2), (2, 1), (2, 3)):
        check_compile(fixed(OPS[kind](ndim), kernel, stride, "same"), inputs)
    if kind != "Avg":
        f = fixed(OPS[kind](ndim), 3, 2, "same", return_indices=True)
        check_compile(f, inputs)


def test_shapeless_compile_of_averages_over_what_is_inside():
    f = fixed(avg_op(2), 3, 2, "same", count_include_pad=False)
    inputs = [Data("ties", 0).array(shape, mx.float32) for shape in SIZES[2]]
    check_compile(f, inputs)


@KINDS
def test_shapeless_compile_tells_same_from_what_it_is_at_first(kind: str):
    """On the first input all three are one; on the second they are not."""
    padded = ((0, 1), (0, 1))
    calls = [fixed(OPS[kind](2), 3, 2, p) for p in ("same", padded, "valid", 0)]

    def together(x):
        return [call(x) for call in calls]

    compiled = mx.compile(together, shapeless=True)
    for shape in ((1, 8, 8, 2), (1, 9, 9, 2), (2, 5, 12, 3)):
        x = Data("normal", 0).array(shape, mx.float32)
        assert_all_identical(compiled(x), together(x))


@KINDS
@NDIMS
def test_vmap_and_composed(ndim: int, kind: str):
    x = Data("ties", 0).array((2, *(6, 5, 4)[:ndim], 3), mx.float32)
    f = fixed(OPS[kind](ndim), 3, 2, "same")
    check_vmap(f, x)
    if kind == "Avg":
        f = fixed(OPS[kind](ndim), 2, 2, "same", divisor_override=1)  # exact sums
    check_composed(f, x)


@KINDS
def test_unbatched_and_empty(kind: str):
    f = fixed(OPS[kind](2), 3, 2, "same")
    x = Data("normal", 0).array((6, 7, 3), mx.float32)
    assert_identical(f(x), f(x[None])[0])
    for shape in ((0, 6, 7, 3), (2, 6, 7, 0)):
        assert f(mx.ones(shape)).shape == (shape[0], 3, 4, shape[-1])
        assert mx.grad(power_sum(f, 2))(mx.ones(shape)).shape == shape


# Layers and errors


@KINDS
@NDIMS
def test_layers(ndim: int, kind: str):
    x = Data("normal", 0).array((2, *(6, 5, 4)[:ndim], 3), mx.float32)
    for padding in ("same", "valid"):
        module = layer(kind, ndim)(3, 2, padding)
        assert_identical(module(x), OPS[kind](ndim)(x, 3, 2, padding))
        assert_identical(layer(kind, ndim)(3, 2, padding=padding)(x), module(x))
    same = layer(kind, ndim)(3, 2, "same")
    for size in (4, 5, 8):  # of one layer, inputs of many sizes
        x = Data("normal", 0).array((1, *(size,) * ndim, 1), mx.float32)
        assert_identical(same(x), OPS[kind](ndim)(x, 3, 2, "same"))


@KINDS
def test_repr(kind: str):
    start = f"{kind}Pool2d(kernel_size=(3, 3), stride=(2, 2), padding="
    assert repr(layer(kind, 2)(3, 2, "same")) == f"{start}same)"
    assert repr(layer(kind, 2)(3, 2, "valid")) == f"{start}(0, 0))"


@pytest.mark.parametrize(
    "bad",
    ["", "SAME", "same_upper", "Valid", "full", "0", b"same", ("same", "same"),
     ["same"], ("same", 1), (("same", "same"), (0, 0))],
    ids=repr,
)  # fmt: skip
@KINDS
def test_other_names(kind: str, bad):
    x = mx.zeros((1, 8, 9, 2))
    for name, call in (
        (f"{kind.lower()}_pool2d", lambda: OPS[kind](2)(x, 2, padding=bad)),
        (f"{kind}Pool2d", lambda: layer(kind, 2)(2, padding=bad)),
    ):
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value).startswith(f"[{name}] 'padding' must be ")


@KINDS
def test_bad_sizes_are_still_errors(kind: str):
    x = mx.zeros((1, 8, 9, 2))
    for bad in ({"kernel_size": 0}, {"stride": -1}, {"dilation": (1, 0)}):
        with pytest.raises(ValueError, match=r"must be positive"):
            OPS[kind](2)(x, **{"kernel_size": 2, "padding": "same", **bad})


def test_geometry_of_the_reference():
    """Of ONNX's own formula, for a case worked by hand."""
    g = reference.same_upper((5, 6), (3, 4), (2, 1), (1, 2))
    assert g == geometry((5, 6), (3, 4), (2, 1), ((1, 1), (3, 3)), (1, 2))
    assert g.output == (3, 6)
