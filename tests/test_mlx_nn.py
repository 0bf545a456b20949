"""The layers in the place of mlx.nn's."""

from __future__ import annotations

import copy
import pickle
import re

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling
import numpy as np
import pytest
from hypothesis import given
from mlx.utils import tree_flatten
from strategies import Case, Data, cases, mlx_nn_geometries
from support import (
    FLOATS,
    INTEGERS,
    KINDS,
    NDIMS,
    assert_identical,
    assert_same,
    avg_op,
    exact,
    layer,
    max_op,
    power_sum,
)


def theirs(kind: str, ndim: int) -> type:
    return getattr(nn, f"{kind}Pool{ndim}d")


def arguments(case: Case) -> tuple:
    g = case.geometry
    return g.kernel, g.stride, tuple(low for low, _ in g.padding)


def assert_near(actual: mx.array, expected: mx.array, ulps: float) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    eps = {mx.float16: 2.0**-10, mx.bfloat16: 2.0**-7}.get(actual.dtype, 2.0**-23)
    np.testing.assert_allclose(
        exact(actual), exact(expected), rtol=ulps * eps, atol=ulps * eps
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@given(case=cases(shapes=mlx_nn_geometries()))
def test_max_of_floats(dtype: mx.Dtype, case: Case):
    x = case.input(dtype)
    ours = layer("Max", case.geometry.ndim)(*arguments(case))
    assert_identical(ours(x), theirs("Max", case.geometry.ndim)(*arguments(case))(x))


@pytest.mark.parametrize("dtype", [*INTEGERS, mx.bool_], ids=str)
@given(case=cases(shapes=mlx_nn_geometries()))
def test_max_of_integers_without_padding(dtype: mx.Dtype, case: Case):
    """Padding is where mlx.nn casts minus infinity to an integer."""
    kernel, stride, padding = arguments(case)
    n = case.geometry.ndim
    size = (s + 2 * p for s, p in zip(case.geometry.size, padding, strict=True))
    x = case.data.array((case.batch, *size, case.channels), dtype)
    assert_identical(
        layer("Max", n)(kernel, stride)(x), theirs("Max", n)(kernel, stride)(x)
    )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, mx.bool_], ids=str)
@given(case=cases(("ties", "negative", "relu"), shapes=mlx_nn_geometries()))
def test_average(dtype: mx.Dtype, case: Case):
    x = case.input(dtype)
    ours = layer("Avg", case.geometry.ndim)(*arguments(case))
    expected = theirs("Avg", case.geometry.ndim)(*arguments(case))(x)
    assert_near(ours(x), expected, ulps=3)


@NDIMS
def test_complex_average(ndim: int):
    x = Data("normal", 0).array((2, *(6, 7, 8)[:ndim], 3), mx.complex64)
    ours, expected = (new("Avg", ndim)(3, 2, 1)(x) for new in (layer, theirs))
    assert_near(ours, expected, ulps=20)


@given(case=cases(("normal",), shapes=mlx_nn_geometries()))
def test_gradients_where_no_maximum_is_tied(case: Case):
    x = case.input()
    n = case.geometry.ndim
    for kind in ("Max", "Avg"):
        pools = (new(kind, n)(*arguments(case)) for new in (layer, theirs))
        a, b = (
            mx.grad(lambda x, p=pool: (mx.where(mx.isinf(p(x)), 0, p(x)) ** 2).sum())(x)
            for pool in pools
        )
        np.testing.assert_allclose(exact(a), exact(b), rtol=1e-4, atol=1e-5)


def test_what_the_readme_says_of_mlx_nn():
    """Where this package differs; of another version of MLX it may be untrue."""
    pool = nn.MaxPool1d(2)
    x = mx.ones((1, 2, 1))
    assert mx.grad(lambda x: pool(x).sum())(x).tolist() == [[[0.5], [0.5]]]
    assert nn.MaxPool1d(3)(x).shape == (1, 0, 1)
    assert pool(x.astype(mx.complex64)).item() == 1
    most = mx.full((1, 2, 1), 2**31 - 1, mx.int32)
    assert nn.AvgPool1d(2)(most).item() == -1
    with pytest.raises(ValueError):
        pool(x[0])
    with pytest.raises(ValueError):
        nn.MaxPool2d(np.int64(2))
    nn.MaxPool2d((np.int64(2), 2))
    nn.MaxPool2d((2.5, True))
    overlapping = nn.MaxPool1d(2, 1)
    with pytest.raises(ValueError, match="AsStrided"):
        mx.vmap(overlapping)(x[None])
    with pytest.raises(ValueError, match="AsStrided"):
        mx.compile(overlapping, shapeless=True)(x)


@NDIMS
@KINDS
def test_layers_are_the_functions(kind: str, ndim: int):
    x = Data("nan", 0).array((2, *(9, 8, 7)[:ndim], 3), mx.float32)
    op = {"Max": max_op, "Avg": avg_op}[kind](ndim)
    options = [
        {},
        {"stride": 1},
        {"stride": 2, "padding": 1, "ceil_mode": True, "dilation": 2},
        {"padding": ((0, 1),) * ndim},
    ]
    if kind == "Avg":
        options += [
            {"padding": 1, "count_include_pad": False},
            {"padding": 1, "divisor_override": 5},
        ]
    for some in options:
        assert_identical(layer(kind, ndim)(3, **some)(x), op(x, 3, **some))
    if kind == "Max":
        found = layer(kind, ndim)(3, return_indices=True)(x)
        for a, b in zip(found, op(x, 3, return_indices=True), strict=True):
            assert_identical(a, b)


def test_positional_order_is_that_of_pytorch():
    x = Data("normal", 0).array((2, 9, 8, 3), mx.float32)
    values, indices = layer("Max", 2)(3, 2, 1, 2, True, True)(x)
    expected = max_op(2)(x, 3, 2, 1, 2, True, True)
    assert_identical(values, expected[0])
    assert_identical(indices, expected[1])
    y = layer("Avg", 2)(3, 2, 1, True, False, 5, dilation=2)(x)
    assert_identical(y, avg_op(2)(x, 3, 2, 1, True, False, 5, dilation=2))
    with pytest.raises(TypeError):
        layer("Avg", 2)(3, 2, 1, True, False, 5, 2)


@pytest.mark.parametrize(
    "args",
    [(2,), (3, 2), (2, 1, 1), ((3,),), ((3,), (2,), (1,)), ([3], [2], [1])],
    ids=str,
)
@NDIMS
@KINDS
def test_repr(kind: str, ndim: int, args: tuple):
    args = tuple(a if isinstance(a, int) else type(a)(a * ndim) for a in args)
    assert repr(layer(kind, ndim)(*args)) == repr(theirs(kind, ndim)(*args))


@NDIMS
def test_repr_shows_what_is_not_default(ndim: int):
    usual = repr(layer("Max", ndim)(3))
    for name, value in (("dilation", 2), ("ceil_mode", True), ("return_indices", True)):
        assert name not in usual
        assert f"{name}=" in repr(layer("Max", ndim)(3, **{name: value}))
    usual = repr(layer("Avg", ndim)(3))
    for name, value in (
        ("dilation", 2),
        ("ceil_mode", True),
        ("count_include_pad", False),
        ("divisor_override", 7),
    ):
        assert name not in usual
        assert f"{name}=" in repr(layer("Avg", ndim)(3, **{name: value}))


@KINDS
def test_repr_of_asymmetric_padding_shows_both_sides(kind: str):
    one = repr(layer(kind, 2)(3, padding=((1, 2), (0, 4))))
    other = repr(layer(kind, 2)(3, padding=((2, 1), (0, 4))))
    assert one != other
    assert "padding=((1, 2), (0, 4))" in one


BAD = (
    ("kernel_size", ((2,) * 5,), {}),
    ("kernel_size", (2.0,), {}),
    ("kernel_size", ("2",), {}),
    ("kernel_size", (None,), {}),
    ("kernel_size", ((),), {}),
    ("kernel_size", (0,), {}),
    ("kernel_size", (-3,), {}),
    ("stride", (2, (1,) * 5), {}),
    ("stride", (2, 1.5), {}),
    ("stride", (2, "1"), {}),
    ("stride", (2, 0), {}),
    ("stride", (2, -1), {}),
    ("padding", (2, 1, (0,) * 5), {}),
    ("padding", (2, 1, 0.5), {}),
    ("padding", (2, 1, None), {}),
    ("padding", (2, 1, -1), {}),
    ("padding", (2,), {"padding": -2}),
)


@pytest.mark.parametrize(("name", "args", "kwargs"), BAD, ids=str)
@NDIMS
@KINDS
def test_error_messages(kind: str, ndim: int, name: str, args: tuple, kwargs: dict):
    with pytest.raises(Exception) as theirs_raised:
        theirs(kind, ndim)(*args, **kwargs)
    with pytest.raises(type(theirs_raised.value)) as ours_raised:
        layer(kind, ndim)(*args, **kwargs)
    assert f"'{name}'" in str(ours_raised.value)
    more = r"( or \(lo, hi\) pairs?, 'same' or 'valid')? but got .*\."
    expected = f"{re.escape(str(theirs_raised.value))}({more})?"
    assert re.fullmatch(expected, str(ours_raised.value), re.DOTALL)


@pytest.mark.parametrize(
    "bad", [{"stride": (0, 2)}, {"kernel_size": (2, 0)}, {"padding": (-1, 0)}], ids=str
)
@KINDS
def test_error_messages_with_one_bad_axis(kind: str, bad: dict):
    arguments = {"kernel_size": 2} | bad
    messages = []
    for new in (theirs, layer):
        with pytest.raises(ValueError) as raised:
            new(kind, 2)(**arguments)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@NDIMS
@KINDS
def test_is_a_module_with_nothing_to_learn(kind: str, ndim: int):
    pool = layer(kind, ndim)(3, 2, 1)
    assert isinstance(pool, nn.Module)
    assert pool.parameters() == {}
    assert pool.trainable_parameters() == {}
    assert pool.children() == {}
    assert tree_flatten(pool.parameters()) == []
    assert not any(isinstance(v, mx.array) for _, v in tree_flatten(pool.state))
    assert pool.training
    assert pool.eval() is pool and not pool.training
    assert pool.train() is pool and pool.training
    assert pool.freeze() is pool
    pool.update({})
    pool.set_dtype(mx.float16)
    assert pool(mx.zeros((1, *(6,) * ndim, 2))).dtype == mx.float32


@NDIMS
@pytest.mark.parametrize(
    ("kind", "arguments", "options"),
    [
        ("Max", (3, 2, 1), {"ceil_mode": True, "dilation": 2}),
        ("Avg", (3, 2, 1), {"ceil_mode": True, "divisor_override": 5}),
        ("Avg", (3, 2, 1), {"count_include_pad": False}),
        ("Min", (3, 2, "same"), {}),
        ("AdaptiveMax", (3,), {}),
        ("AdaptiveAvg", (None,), {}),
        ("GlobalAvg", (), {}),
        ("LP", (3, 2), {"ceil_mode": True}),
    ],
)
def test_pickle_and_copy(kind: str, ndim: int, arguments: tuple, options: dict):
    x = Data("ties", 0).array((1, *(6, 7, 8)[:ndim], 2), mx.float32)
    pool = layer(kind, ndim)(*arguments, **options)
    for twin in twins(pool):
        assert_identical(twin(x), pool(x))


@NDIMS
def test_pickle_and_copy_of_an_unpooling(ndim: int):
    x = Data("ties", 0).array((1, *(6, 7, 8)[:ndim], 2), mx.float32)
    y, indices = layer("Max", ndim)(3, 2, 1, return_indices=True)(x)
    unpool = getattr(mlx_pooling, f"MaxUnpool{ndim}d")(3, 2, 1)
    for twin in twins(unpool):
        assert_identical(twin(y, indices), unpool(y, indices))


def twins(pool: nn.Module) -> list[nn.Module]:
    copies = [pickle.loads(pickle.dumps(pool)), copy.copy(pool), copy.deepcopy(pool)]
    for twin in copies:
        assert type(twin) is type(pool)
        assert repr(twin) == repr(pool)
    return copies


def network(kind: str, new) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), new(kind, 2)(2), nn.ReLU(), new(kind, 2)(3, 2, 1)
    )


@KINDS
def test_inside_a_model(kind: str, tmp_path):
    ours, original = network(kind, layer), network(kind, theirs)
    flat = tree_flatten(original.parameters())
    assert [name for name, _ in tree_flatten(ours.parameters())] == [n for n, _ in flat]
    ours.load_weights(flat)
    ours.save_weights(str(tmp_path / "weights.npz"))
    original.load_weights(str(tmp_path / "weights.npz"))
    assert repr(ours) == repr(original)
    x = Data("normal", 0).array((2, 12, 12, 1), mx.float32)
    np.testing.assert_allclose(exact(ours(x)), exact(original(x)), rtol=1e-5, atol=1e-6)


@KINDS
def test_a_compiled_training_step(kind: str):
    """The usual MLX loop: model and optimizer state are inputs and outputs."""
    import mlx.optimizers as optim

    def train(compiled: bool) -> list[float]:
        mx.random.seed(0)
        model = network(kind, layer)
        optimizer = optim.SGD(0.1)
        loss_and_grad = nn.value_and_grad(model, lambda x: (model(x) ** 2).mean())
        state = [model.state, optimizer.state]

        def step(x):
            loss, gradients = loss_and_grad(x)
            optimizer.update(model, gradients)
            return loss

        if compiled:
            step = mx.compile(step, inputs=state, outputs=state)
        x = Data("normal", 0).array((2, 12, 12, 1), mx.float32)
        losses = []
        for _ in range(4):
            losses.append(step(x))
            mx.eval(losses, state)
        return [loss.item() for loss in losses]

    losses = train(compiled=True)
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, train(compiled=False), rtol=1e-4)


@KINDS
def test_a_subclass_is_named_in_its_repr_and_errors(kind: str):
    class Mine(layer(kind, 2)):
        pass

    assert repr(Mine(2)).startswith("Mine(kernel_size=(2, 2)")
    with pytest.raises(ValueError, match=r"^\[Mine\] 'stride' must be positive"):
        Mine(2, 0)


@NDIMS
def test_ties_are_where_we_differ(ndim: int):
    """mlx.nn shares the gradient among equal taps; ours gives it to the first."""
    x = mx.zeros((1, *(2,) * ndim, 1))
    ours, shared = (
        mx.grad(power_sum(new("Max", ndim)(2), 1))(x) for new in (layer, theirs)
    )
    assert_same(shared, np.full(x.shape, 0.5**ndim))
    first = np.zeros(x.shape)
    first.flat[0] = 1
    assert_same(ours, first)
