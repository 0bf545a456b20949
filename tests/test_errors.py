"""Bad arguments raise at the call; absurd but legal ones work, and soon."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager, nullcontext, suppress

import mlx.core as mx
import mlx_pooling as mp
import numpy as np
import pytest
import reference
from mlx_pooling import _ext
from support import (
    INPUTS,
    KINDS,
    NDIMS,
    assert_same,
    avg_op,
    avg_pool,
    exact,
    fixed,
    geometry,
    layer,
    max_op,
    max_pool,
    power_sum,
    vjp,
)

LARGEST = 2**31 - 1


def op(kind: str, ndim: int):
    return {"Max": max_op, "Avg": avg_op}[kind](ndim)


def name(kind: str, ndim: int) -> str:
    return f"[{kind.lower()}_pool{ndim}d]"


def raises_from_both(kind: str, ndim: int, arguments: dict) -> list[str]:
    """The messages of function and layer, which must name themselves."""
    messages = []
    with pytest.raises((ValueError, TypeError)) as raised:
        op(kind, ndim)(mx.zeros(INPUTS[ndim]), **arguments)
    messages.append(str(raised.value))
    assert messages[0].startswith(f"{name(kind, ndim)} ")
    with pytest.raises((ValueError, TypeError)) as raised:
        layer(kind, ndim)(**arguments)(mx.zeros(INPUTS[ndim]))
    messages.append(str(raised.value))
    assert messages[1].startswith(f"[{kind}Pool{ndim}d] ")
    return [message.split("] ", 1)[1] for message in messages]


@pytest.mark.parametrize("argument", ["kernel_size", "stride", "dilation"])
@pytest.mark.parametrize(
    "bad",
    [
        *(2.0, True, "2", (2,) * 4, (), (2.0,), ("2",), (True,), {2}, [None], 1j),
        *(np.array(2.5), np.array([2, 2]), mx.array(2.0)),
    ],
    ids=repr,
)
@NDIMS
@KINDS
def test_sizes_that_are_not_integers(kind: str, ndim: int, argument: str, bad):
    if isinstance(bad, tuple) and len(bad) == 1:
        bad *= ndim
    arguments = {"kernel_size": 2} | {argument: bad}
    plural = "s" if ndim > 1 else ""
    for message in raises_from_both(kind, ndim, arguments):
        assert message == (
            f"'{argument}' must be an integer or a tuple containing "
            f"{ndim} integer{plural} but got {bad!r}."
        )


@pytest.mark.parametrize("bad", [2.0, (2, 2.0), ((0, 0), (0.0, 0)), (True, True)])
@KINDS
def test_what_only_equals_sizes_is_refused_after_them(kind: str, bad):
    x = mx.ones((1, 4, 4, 1))
    for argument in ("kernel_size", "stride", "padding", "dilation"):
        arguments = {"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1}
        for good in (2, (2, 2), 1, (1, 1), ((0, 0), (0, 0))):
            with suppress(ValueError):
                op(kind, 2)(x, **arguments | {argument: good})
        with pytest.raises(ValueError, match="must be an integer"):
            op(kind, 2)(x, **arguments | {argument: bad})


@pytest.mark.parametrize("bad", [4.0, (4, 4.0), (True, 4), (4, False)])
def test_what_only_equals_an_output_size_is_refused_after_it(bad):
    x = mx.ones((1, 2, 2, 1))
    y, indices = mp.max_pool2d(x, 1, return_indices=True)
    pools = {
        lambda size: mp.adaptive_avg_pool2d(x, size): "an integer, None or a tuple",
        lambda size: mp.adaptive_max_pool2d(x, size): "an integer, None or a tuple",
        lambda size: mp.max_unpool2d(y, indices, 2, output_size=size): (
            "None, a whole shape or a tuple"
        ),
    }
    for pool, wanted in pools.items():
        for good in (4, (4, 4), (1, 4), (4, 0)):
            with suppress(ValueError):
                pool(good)
        with pytest.raises(ValueError, match=f"'output_size' must be {wanted} ") as e:
            pool(bad)
        assert str(e.value).endswith(f"but got {bad!r}.")


@pytest.mark.parametrize("argument", ["kernel_size", "dilation"])
@KINDS
def test_none_is_a_size_only_for_the_stride(kind: str, argument: str):
    for message in raises_from_both(kind, 2, {"kernel_size": 2} | {argument: None}):
        assert message.startswith(f"'{argument}' must be an integer")


@pytest.mark.parametrize(
    "bad",
    [
        *(1.0, False, "0", None, (1,) * 4, (), (0.5,), (True,), ("01",)),
        *(((1, 2, 3),), ((1,),), ((1, 0.5),), ((0, True),), ((1, None),)),
    ],
    ids=str,
)
@NDIMS
@KINDS
def test_paddings_of_the_wrong_form(kind: str, ndim: int, bad):
    if isinstance(bad, tuple) and len(bad) == 1:
        bad *= ndim
    for message in raises_from_both(kind, ndim, {"kernel_size": 2, "padding": bad}):
        plural = "s" if ndim > 1 else ""
        assert message == (
            f"'padding' must be an integer or a tuple containing {ndim} "
            f"integer{plural} or (lo, hi) pair{plural}, 'same' or 'valid' "
            f"but got {bad!r}."
        )


@pytest.mark.parametrize("argument", ["kernel_size", "stride", "dilation"])
@pytest.mark.parametrize("bad", [0, -1, -(2**31), -(2**40), -(10**30)])
@NDIMS
@KINDS
def test_sizes_that_are_not_positive(kind: str, ndim: int, argument: str, bad: int):
    arguments = {"kernel_size": 2} | {argument: bad}
    expected = f"'{argument}' must be positive but got {(bad,) * ndim}."
    for message in raises_from_both(kind, ndim, arguments):
        if bad >= -(2**63):
            assert message == expected
        else:
            assert f"'{argument}'" in message


@pytest.mark.parametrize("axis", [0, 1, 2])
@KINDS
def test_one_size_that_is_not_positive(kind: str, axis: int):
    sizes = tuple(0 if a == axis else 2 for a in range(3))
    for argument in ("kernel_size", "stride", "dilation"):
        arguments = {"kernel_size": 2} | {argument: sizes}
        for message in raises_from_both(kind, 3, arguments):
            assert message == f"'{argument}' must be positive but got {sizes}."


@KINDS
def test_negative_padding(kind: str):
    expected = "'padding' must be non-negative but got (-1, 0)."
    for message in raises_from_both(kind, 2, {"kernel_size": 2, "padding": (-1, 0)}):
        assert message == expected
    for pairs in (((-1, 0), (0, 0)), ((0, 0), (0, -1)), ((5, -5), (0, 0))):
        for message in raises_from_both(kind, 2, {"kernel_size": 2, "padding": pairs}):
            assert message.startswith("'padding' must be non-negative but got (")
            assert "-" in message.split("got")[1]


@pytest.mark.parametrize("argument", ["kernel_size", "stride", "dilation", "padding"])
@pytest.mark.parametrize("bad", [2**31, 2**32, 2**63 - 1, 2**63, 2**64 + 2, 10**30])
@NDIMS
@KINDS
def test_sizes_too_large_for_mlx(kind: str, ndim: int, argument: str, bad: int):
    arguments = {"kernel_size": 2} | {argument: bad}
    for message in raises_from_both(kind, ndim, arguments):
        assert f"'{argument}'" in message


@NDIMS
@KINDS
def test_wrong_rank(kind: str, ndim: int):
    for rank in range(7):
        x = mx.zeros((4,) * rank)
        if rank in (ndim + 1, ndim + 2):
            assert op(kind, ndim)(x, 2).ndim == rank
            continue
        with pytest.raises(ValueError) as raised:
            op(kind, ndim)(x, 2)
        assert str(raised.value).startswith(f"{name(kind, ndim)} ")
        with pytest.raises(ValueError) as raised:
            layer(kind, ndim)(2)(x)
        assert str(raised.value).startswith(f"[{kind}Pool{ndim}d] ")


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 10},
        {"kernel_size": 5, "dilation": 3},
        {"kernel_size": 12, "padding": 1},
        {"kernel_size": 10, "stride": 1, "ceil_mode": True},
        {"kernel_size": 13, "padding": 1, "stride": 2, "ceil_mode": True},
        {"kernel_size": 2, "dilation": 2**30},
        {"kernel_size": LARGEST, "dilation": LARGEST},
    ],
    ids=str,
)
@NDIMS
@KINDS
def test_kernels_larger_than_the_padded_input(kind: str, ndim: int, arguments: dict):
    for message in raises_from_both(kind, ndim, arguments):
        assert "'kernel_size'" in message


@KINDS
def test_a_kernel_larger_than_one_axis_only(kind: str):
    for kernel in ((9, 1), (1, 10)):
        raises_from_both(kind, 2, {"kernel_size": kernel})
    assert op(kind, 2)(mx.zeros(INPUTS[2]), (8, 9)).shape == (1, 1, 1, 2)


@KINDS
def test_sizes_of_numpy_are_sizes(kind: str):
    x = mx.arange(72.0).reshape((*INPUTS[2][:3], 1))
    expected = op(kind, 2)(x, 2, 1, 1)
    for integer in (np.int64, np.uint8, np.array):
        sizes = (integer(2), integer(1), integer(1))
        assert mx.array_equal(op(kind, 2)(x, *sizes), expected)
        assert mx.array_equal(layer(kind, 2)(*sizes)(x), expected)


@NDIMS
def test_complex_maximum(ndim: int):
    x = mx.zeros(INPUTS[ndim], mx.complex64)
    with pytest.raises(ValueError, match=rf"^\[max_pool{ndim}d\] .*complex"):
        max_op(ndim)(x, 2)
    with pytest.raises(ValueError, match=rf"^\[MaxPool{ndim}d\] .*complex"):
        layer("Max", ndim)(2)(x)


@pytest.mark.parametrize("bad", [0, 2.0, "3", True, False, (2,), [1]], ids=repr)
@NDIMS
def test_divisor_override(ndim: int, bad):
    for message in raises_from_both(
        "Avg", ndim, {"kernel_size": 2, "divisor_override": bad}
    ):
        assert "'divisor_override'" in message


@pytest.mark.parametrize("flag", ["ceil_mode", "count_include_pad", "return_indices"])
@pytest.mark.parametrize("bad", [1, "yes", None, 0.0], ids=repr)
def test_flags_that_are_not_bools(flag: str, bad):
    kinds = {"count_include_pad": ("Avg",), "return_indices": ("Max",)}
    for kind in kinds.get(flag, ("Max", "Avg")):
        for message in raises_from_both(kind, 2, {"kernel_size": 2, flag: bad}):
            assert f"'{flag}'" in message


@pytest.mark.parametrize("bad", [None, 1, 1.0, [[1.0]], "x", np.zeros((1, 8, 9, 2))])
@KINDS
def test_input_that_is_not_an_mlx_array(kind: str, bad):
    with pytest.raises(TypeError) as raised:
        op(kind, 2)(bad, 2)
    assert str(raised.value).startswith(f"{name(kind, 2)} ")
    with pytest.raises(TypeError):
        layer(kind, 2)(2)(bad)


@KINDS
def test_missing_and_unknown_arguments(kind: str):
    x = mx.zeros(INPUTS[2])
    with pytest.raises(TypeError):
        op(kind, 2)(x)
    with pytest.raises(TypeError):
        op(kind, 2)(x, 2, strides=2)
    with pytest.raises(TypeError):
        layer(kind, 2)()
    with pytest.raises(TypeError):
        max_op(2)(x, 2, count_include_pad=True)
    with pytest.raises(TypeError):
        avg_op(2)(x, 2, return_indices=True)


@pytest.mark.parametrize("bad", ["cpu", 5, 1.0, 0, 1, False, True], ids=repr)
@KINDS
def test_a_stream_of_the_wrong_type(kind: str, bad):
    expected = (
        f"{name(kind, 2)} 'stream' must be a Stream, Device or None but got {bad!r}."
    )
    with pytest.raises(TypeError) as raised:
        op(kind, 2)(mx.zeros(INPUTS[2]), 2, stream=bad)
    assert str(raised.value) == expected


@KINDS
def test_output_axes_too_long_for_mlx(kind: str):
    with pytest.raises(ValueError) as raised:
        op(kind, 1)(mx.zeros((1, 8, 1)), 1, padding=LARGEST)
    assert str(raised.value).startswith(name(kind, 1))


def test_planes_too_large_for_indices():
    x = mx.broadcast_to(mx.zeros((1, 1, 1, 1), mx.uint8), (1, 2**16, 2**16, 1))
    with pytest.raises(ValueError, match=r"^\[max_pool2d\] "):
        max_op(2)(x, 2**16, return_indices=True)
    assert max_op(2)(x, 2**16).shape == (1, 1, 1, 1)  # made, never evaluated


def test_errors_come_at_the_call_inside_transforms_too():
    x = mx.zeros((2, 4, 4, 1))
    f = power_sum(fixed(max_op(2), 5), 1)
    for transformed in (mx.grad(f), mx.compile(f), mx.checkpoint(f)):
        with pytest.raises(ValueError, match=r"^\[max_pool2d\] "):
            transformed(x)
    with pytest.raises(ValueError, match=r"^\[max_pool2d\] "):
        mx.vmap(f)(x[None])


@KINDS
def test_an_error_leaves_the_next_call_alone(kind: str):
    x = mx.ones((1, 4, 4, 1))
    for _ in range(3):
        with pytest.raises(ValueError):
            op(kind, 2)(x, 5)
        np.testing.assert_array_equal(exact(op(kind, 2)(x, 2)), 1)


def test_float64_needs_the_cpu(device: str):
    with mx.stream(mx.cpu):
        x = mx.zeros((1, 4, 4, 1), mx.float64)
    if device == "cpu":
        assert max_op(2)(x, 2).dtype == mx.float64
        return
    for pool in (max_op, avg_op):
        with pytest.raises(ValueError, match="float64"):
            pool(2)(x, 2, stream=mx.gpu)


@pytest.mark.parametrize(
    ("argument", "lengths"),
    [("kernel_size", (4,) * 5), ("kernel_size", (0,) * 5), ("stride", (2, 1, 2, 2, 2))],
)
def test_a_window_has_a_size_for_each_axis(argument: str, lengths: tuple[int, ...]):
    """Also one made without the functions, as by unpickling."""
    values = (2, 2, 0, 0, 1)
    sizes = [[value] * n for value, n in zip(values, lengths, strict=True)]
    with pytest.raises(ValueError, match=rf"^\[w\] '{argument}' must have a size"):
        _ext.Window("w", *sizes)
    state = ("w", *sizes, False, True, None, False, False, _ext.Kind.sliding, [])
    with pytest.raises(ValueError, match=rf"^\[w\] '{argument}' must have a size"):
        _ext.Window.__new__(_ext.Window).__setstate__(state)


@contextmanager
def at_once():
    """A loop over 2**31 of anything, for each output, takes longer."""
    start = time.process_time()
    yield
    assert time.process_time() - start < 3


SIXTEEN = mx.array(np.random.default_rng(0).permutation(16).astype(np.float32))


def line(values: mx.array = SIXTEEN) -> mx.array:
    return values.reshape(1, -1, 1)


@pytest.mark.parametrize("stride", [2**30, LARGEST])
@KINDS
def test_a_huge_stride(kind: str, stride: int):
    with at_once():
        y = op(kind, 1)(line(), 3, stride)
        dx = mx.grad(lambda x: op(kind, 1)(x, 3, stride).sum())(line())
        mx.eval(y, dx)
    window = exact(SIXTEEN)[:3]
    expected = window.max() if kind == "Max" else window.mean()
    np.testing.assert_allclose(exact(y).ravel(), [expected])
    assert exact(dx).sum() == pytest.approx(1)
    assert not exact(dx).ravel()[3:].any()


@pytest.mark.parametrize("dilation", [2**30, LARGEST - 1])
def test_a_huge_dilation(dilation: int):
    """Both taps of a window are apart by more than the input: one is valid."""
    x = line()
    g = geometry((16,), 2, 1, ((dilation, 0),), dilation)
    with at_once():
        values, indices = max_pool(x, g, return_indices=True)
        average = avg_pool(x, g)
        dx = mx.grad(lambda x: (max_pool(x, g) ** 2).sum())(x)
        dx_average = mx.grad(lambda x: avg_pool(x, g).sum())(x)
        mx.eval(values, indices, average, dx, dx_average)
    assert_same(values, exact(x))
    np.testing.assert_array_equal(exact(indices).ravel(), range(16))
    assert_same(average, exact(x) / 2)
    assert_same(dx, 2 * exact(x))
    assert_same(dx_average, np.full((1, 16, 1), 0.5))


@KINDS
def test_a_huge_dilation_of_a_huge_output(kind: str):
    """Which is never evaluated."""
    with at_once():
        y = op(kind, 1)(line(), 2, 1, 2**30, dilation=2**30 + 3)
    assert y.shape == (1, 2**31 + 16 - (2**30 + 3), 1)


def test_a_huge_dilation_and_stride():
    x = line()
    g = geometry((16,), 3, LARGEST, 2**30, 2**30)
    assert g.output == (1,)
    with at_once():
        value, index = max_pool(x, g, return_indices=True)
        average = avg_pool(x, g, count_include_pad=False)
        mx.eval(value, index, average)
    assert value.item() == x[0, 0, 0].item() == average.item()
    assert index.item() == 0


@pytest.mark.parametrize("pool", [max_pool, avg_pool], ids=["max", "avg"])
def test_a_window_longer_than_32_bits_can_tell(pool):
    """By less than a stride more than the padded input: only its start is inside."""
    x = line()
    g = geometry((16,), 3, LARGEST, 0, 2**30, ceil_mode=True)
    assert g.output == (1,)
    with at_once():
        y = pool(x, g)
        dx = vjp(lambda x: pool(x, g), x, mx.ones((1, 1, 1)))
        mx.eval(y, dx)
    assert y.item() == x[0, 0, 0].item()
    np.testing.assert_array_equal(exact(dx).ravel(), [1] + [0] * 15)


def test_a_span_beyond_32_bits():
    """With one output nothing is a stride apart, be that as long as the window."""
    x = line()
    g = geometry((16,), 2, 16, ((LARGEST, 0),), LARGEST)
    assert g.output == (1,)
    for context in (nullcontext, mp.composed):
        with context(), at_once():
            value, index = max_pool(x, g, return_indices=True)
            average = avg_pool(x, g)
        assert value.item() == x[0, 0, 0].item() == 2 * average.item()
        assert index.item() == 0


def test_a_huge_kernel_with_padding_as_huge():
    """Window o reaches from far before the input up to position o."""
    x = line()
    options = {"stride": 1, "padding": ((LARGEST - 1, 0),)}
    with at_once():
        values, indices = max_op(1)(x, LARGEST, return_indices=True, **options)
        total = avg_op(1)(x, LARGEST, divisor_override=1, **options)
        average = avg_op(1)(x, LARGEST, **options)
        valid = avg_op(1)(x, LARGEST, count_include_pad=False, **options)
        mx.eval(values, indices, total, average, valid)
    flat = exact(x).ravel()
    running = np.maximum.accumulate(flat)
    np.testing.assert_array_equal(exact(values).ravel(), running)
    np.testing.assert_array_equal(
        exact(indices).ravel(), [list(flat).index(value) for value in running]
    )
    sums = np.cumsum(flat)
    np.testing.assert_array_equal(exact(total).ravel(), sums)
    np.testing.assert_allclose(exact(average).ravel(), sums / LARGEST, rtol=1e-6)
    np.testing.assert_allclose(exact(valid).ravel(), sums / np.arange(1, 17), rtol=1e-6)


def test_gradients_with_a_huge_kernel():
    x = line()
    options = {"stride": 1, "padding": ((LARGEST - 1, 0),)}
    with at_once():
        dx = mx.grad(lambda x: max_op(1)(x, LARGEST, **options).sum())(x)
        dx_average = mx.grad(
            lambda x: avg_op(1)(x, LARGEST, divisor_override=1, **options).sum()
        )(x)
        mx.eval(dx, dx_average)
    flat = exact(x).ravel()
    expected = np.zeros(16)
    for value in np.maximum.accumulate(flat):
        expected[list(flat).index(value)] += 1
    np.testing.assert_array_equal(exact(dx).ravel(), expected)
    np.testing.assert_array_equal(exact(dx_average).ravel(), range(16, 0, -1))


def test_a_huge_kernel_with_the_default_stride():
    x = line()
    with at_once():
        y = max_op(1)(x, LARGEST, padding=LARGEST)
        average = avg_op(1)(x, LARGEST, padding=LARGEST)
        valid = avg_op(1)(x, LARGEST, padding=LARGEST, count_include_pad=False)
        mx.eval(y, average, valid)
    np.testing.assert_array_equal(exact(y).ravel(), [-np.inf, 15])
    np.testing.assert_allclose(exact(average).ravel(), [0, 120 / LARGEST], rtol=1e-6)
    np.testing.assert_array_equal(exact(valid).ravel(), [0, 7.5])


@pytest.mark.parametrize("ndim", [2, 3])
def test_huge_kernels_on_every_axis(ndim: int):
    """More taps than 32 bits count: only an offset of one could be too large."""
    x = mx.arange(math.prod(INPUTS[ndim]), dtype=mx.float32).reshape(INPUTS[ndim])
    padding = ((LARGEST - 1, 0),) * ndim
    with at_once():
        y = max_op(ndim)(x, LARGEST, LARGEST, padding)
        average = avg_op(ndim)(x, LARGEST, LARGEST, padding, count_include_pad=False)
        mx.eval(y, average)
    first = exact(x)[(0,) * (ndim + 1)]  # the one window ends at the first position
    np.testing.assert_array_equal(exact(y).reshape(2), first)
    np.testing.assert_array_equal(exact(average).reshape(2), first)
    with at_once():
        average = avg_op(ndim)(x + 1, LARGEST, LARGEST, padding)
        mx.eval(average)
    expected = (first + 1) / float(LARGEST) ** ndim
    np.testing.assert_allclose(exact(average).reshape(2), expected, rtol=1e-5)
    traced = mx.compile(lambda x: max_op(ndim)(x, LARGEST, LARGEST, padding))
    with pytest.raises(ValueError, match="too many taps") as raised:
        traced(x)
    assert str(raised.value).startswith(name("Max", ndim))


@KINDS
def test_results_of_more_bytes_than_can_be_counted(kind: str):
    """Indices and averages have more each than an element of x."""
    options = {"return_indices": True} if kind == "Max" else {}
    x = mx.zeros((1, 1, 1, 4), mx.int8)
    padding = ((0, 2**30 - 1), (0, 2**30 - 1))
    with pytest.raises(ValueError, match="too large to index"):
        op(kind, 2)(x, 1, 1, padding, **options)


def test_a_kernel_wider_than_a_long_line_of_channels():
    """A plane of one position and very many channels, and the reverse."""
    x = mx.arange(100_000, dtype=mx.float32)
    y = max_op(1)(x.reshape(1, 1, -1), 3, 1, 1)
    assert_same(y, exact(x).reshape(1, 1, -1))
    y = max_op(1)(x.reshape(1, -1, 1), 3, 1, 1)
    expected = np.minimum(np.arange(100_000) + 1, 99_999)
    assert_same(y, expected.reshape(1, -1, 1).astype(float))


@pytest.mark.parametrize("divisor", [1, -1, 10**6, LARGEST, -LARGEST])
def test_any_non_zero_divisor(divisor: int):
    x = line()
    y = avg_op(1)(x, 4, divisor_override=divisor)
    g = geometry((16,), 4)
    expected = reference.avg_pool(exact(x), g, divisor_override=divisor)
    np.testing.assert_allclose(exact(y), expected, rtol=1e-6)
