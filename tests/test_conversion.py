"""Models of mlx.nn with our pooling layers in place, and back."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from typing import NamedTuple

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx_pooling
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_pooling import convert, patch_mlx_nn, revert
from models import POOLS, ResNet
from support import KINDS, NDIMS, assert_identical, exact, layer

MODELS = pytest.mark.parametrize("build", POOLS, ids=lambda build: build.__name__)
NAMES = [f"{kind}Pool{n}d" for kind in ("Max", "Avg") for n in (1, 2, 3)]
NAMESPACES = (nn, nn.layers, nn.layers.pooling)
THEIRS = {name: getattr(nn, name) for name in NAMES}


def seeded(build: type[nn.Module]) -> nn.Module:
    mx.random.seed(0)
    return build()


def images() -> mx.array:
    return mx.random.normal((2, 32, 32, 3), key=mx.random.key(1))


def outcome(model: nn.Module) -> dict[str, mx.array]:
    """The output of a training step and the gradient of each parameter."""
    x = images()
    loss = nn.value_and_grad(model, lambda x: (model(x) ** 2).mean())
    return dict(tree_flatten({"y": model(x), "gradients": loss(x)[1]}))


def assert_close(actual: dict[str, mx.array], expected: dict[str, mx.array]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(
            exact(actual[name]), exact(value), rtol=1e-4, atol=1e-5, err_msg=name
        )


def count(model: nn.Module, layers: list[type]) -> int:
    return sum(type(module) in layers for module in model.modules())


def ours_in(model: nn.Module) -> int:
    return count(model, [getattr(mlx_pooling, name) for name in NAMES])


def theirs_in(model: nn.Module) -> int:
    return count(model, list(THEIRS.values()))


@MODELS
def test_outputs_and_gradients_stay(build: type[nn.Module]):
    model = seeded(build)
    modules = model.named_modules()
    expected = outcome(model)
    ours_before = ours_in(model)

    assert convert(model) is model
    assert (theirs_in(model), ours_in(model)) == (0, POOLS[build] + ours_before)
    assert_close(outcome(model), expected)

    assert revert(model) is model
    assert (theirs_in(model), ours_in(model)) == (POOLS[build], ours_before)
    for (path, module), (path_before, module_before) in zip(
        model.named_modules(), modules, strict=True
    ):
        assert path == path_before
        assert module is module_before
    assert_close(outcome(model), expected)


@MODELS
def test_parameters_are_the_same_arrays(build: type[nn.Module]):
    def arrays() -> dict[str, mx.array]:
        trees = {"all": model.parameters(), "trainable": model.trainable_parameters()}
        return dict(tree_flatten(trees))

    model = seeded(build)
    model.freeze(keys="bias")
    description = repr(model)
    before = arrays()
    convert(model)
    after = arrays()
    assert repr(model) == description
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)


def test_weights_load_into_either(tmp_path):
    path = str(tmp_path / "weights.safetensors")
    mx.random.seed(1)
    trained, converted = ResNet(), convert(ResNet())
    trained.save_weights(path)
    converted.load_weights(path)
    assert_close(outcome(converted), outcome(trained))
    converted.save_weights(path)
    assert_close(outcome(ResNet().load_weights(path)), outcome(trained))


@MODELS
def test_a_compiled_training_step(build: type[nn.Module]):
    def train(model: nn.Module) -> list[float]:
        optimizer = optim.SGD(0.05)
        loss_and_grad = nn.value_and_grad(model, lambda x: (model(x) ** 2).mean())
        state = [model.state, optimizer.state]

        def step(x):
            loss, gradients = loss_and_grad(x)
            optimizer.update(model, gradients)
            return loss

        compiled = mx.compile(step, inputs=state, outputs=state)
        losses = []
        for _ in range(3):
            losses.append(compiled(images()))
            mx.eval(losses, state)
        return [loss.item() for loss in losses]

    losses = train(convert(seeded(build)))
    assert losses[-1] != losses[0]
    np.testing.assert_allclose(losses, train(seeded(build)), rtol=1e-3)


@NDIMS
@KINDS
def test_a_pooling_layer_by_itself(kind: str, ndim: int):
    x = mx.random.normal((2, *(9, 8, 7)[:ndim], 3), key=mx.random.key(0))
    sizes = (2, 3, 1)[:ndim], (1, 2, 2)[:ndim], (0, 2, 1)[:ndim]
    pool = THEIRS[f"{kind}Pool{ndim}d"](*sizes)
    ours = convert(pool)
    assert type(ours) is layer(kind, ndim)
    assert repr(ours) == repr(pool)
    np.testing.assert_allclose(exact(ours(x)), exact(pool(x)), rtol=1e-6, atol=1e-6)
    assert revert(ours) is pool


def test_what_holds_no_pooling_is_unchanged():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    modules = model.modules()
    assert convert(model) is model
    assert all(a is b for a, b in zip(model.modules(), modules, strict=True))


def test_converting_twice_changes_nothing_more():
    model = convert(nn.Sequential(nn.MaxPool2d(2)))
    ours = model.layers[0]
    convert(model)
    assert model.layers[0] is ours


class Pair(NamedTuple):
    high: nn.Module
    low: object


class Unchangeable(dict):
    def __setitem__(self, *_):
        raise TypeError("unchangeable")


class FixedList(list):
    def __setitem__(self, *_):
        raise TypeError("unchangeable")

    def __iter__(self):
        raise TypeError("not for walking")


class Holder(nn.Module):
    def __init__(self, held: object):
        super().__init__()
        self.held = held


@pytest.mark.parametrize(
    ("held", "find"),
    [
        (lambda pool: pool, lambda held: held),
        (lambda pool: [0, [pool]], lambda held: held[1][0]),
        (lambda pool: {"a": {1: pool}, "b": None}, lambda held: held["a"][1]),
        (lambda pool: (None, pool, "x"), lambda held: held[1]),
        (lambda pool: ((pool,), []), lambda held: held[0][0]),
        (lambda pool: [{"a": (pool,)}], lambda held: held[0]["a"][0]),
        (lambda pool: Pair(pool, 3), lambda held: held.high),
        (lambda pool: Pair(nn.ReLU(), [pool]), lambda held: held.low[0]),
        (lambda pool: Holder(nn.Sequential(pool)), lambda held: held.held.layers[0]),
        (lambda pool: Unchangeable(a=pool), lambda held: held["a"]),
        (lambda pool: FixedList([pool]), lambda held: held[0]),
    ],
    ids=[
        "attribute",
        "list",
        "dict",
        "tuple",
        "tuple in tuple",
        "tuple in dict in list",
        "named tuple",
        "list in named tuple",
        "module",
        "unchangeable dict",
        "unchangeable list",
    ],
)
def test_containers(held, find):
    pool = nn.MaxPool2d(2)
    model = Holder(held(pool))
    container = type(model.held)
    convert(model)
    assert type(find(model.held)) is mlx_pooling.MaxPool2d
    if container is not nn.MaxPool2d:
        assert type(model.held) is container
    revert(model)
    assert find(model.held) is pool


def test_private_attributes_are_converted():
    model = nn.Module()
    model._pool = nn.AvgPool1d(2)
    assert type(convert(model)._pool) is mlx_pooling.AvgPool1d


def test_a_tuple_keeps_its_attributes():
    class Named(tuple):
        pass

    layers = Named([nn.MaxPool2d(2)])
    layers.extra = 5
    (held,) = convert(Holder([layers])).held
    assert type(held) is Named
    assert held.extra == 5
    assert type(held[0]) is mlx_pooling.MaxPool2d


def test_a_tuple_without_pooling_stays_the_same_object():
    held = (nn.ReLU(), [1])
    model = convert(Holder(held))
    assert model.held is held


def test_a_shared_layer_stays_shared():
    pool, other = nn.MaxPool2d(2), nn.MaxPool2d(2)
    shared_tuple = (pool,)
    model = Holder([pool, nn.Sequential(pool), other, shared_tuple, shared_tuple])
    convert(model)
    first, sequential, second, *tuples = model.held
    assert first is sequential.layers[0]
    assert first is not second
    assert tuples[0] is tuples[1]
    assert tuples[0][0] is first
    revert(model)
    assert model.held[0] is model.held[1].layers[0] is pool
    assert model.held[2] is other


def test_cycles_end():
    """MLX sees no submodules in tuples, so a module may hold its parent in one."""
    child = Holder(nn.MaxPool2d(2))
    model = nn.Sequential(child, nn.AvgPool2d(2))
    child.parent = (model,)
    model.layers[1].itself = (model.layers[1],)
    convert(model)
    assert ours_in(model) == 2
    assert child.parent[0] is model
    assert model.layers[1].itself[0] is model.layers[1]


def test_odd_attributes_do_no_harm():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = nn.MaxPool2d(2)
            self.function = lambda x: x
            self.generator = (i for i in range(3))
            self.weights = mx.zeros(2)
            self.names = {None: 1, ("a", 2): b"", 3: {4, 5}}

        @property
        def broken(self):
            raise RuntimeError("never to be read")

        def items(self):
            raise RuntimeError("not for walking")

    model = convert(Odd())
    assert type(model.pool) is mlx_pooling.MaxPool2d
    assert list(model.generator) == [0, 1, 2]
    assert set(model.names) == {None, ("a", 2), 3}


def test_training_mode_is_kept():
    model = ResNet().eval()
    model.avgpool.train()
    convert(model)
    assert not model.maxpool.training
    assert model.avgpool.training
    model.train()
    model.avgpool.eval()
    revert(model)
    assert model.maxpool.training
    assert not model.avgpool.training


def test_what_was_set_on_a_layer_is_kept():
    pool = nn.MaxPool2d(2)
    pool.stage = 3
    pool.scale = mx.ones(2)
    pool.freeze(keys="scale")
    model = convert(nn.Sequential(pool))
    ours = model.layers[0]
    assert ours.stage == 3
    assert ours.scale is pool.scale
    assert model.trainable_parameters() == {"layers": [{}]}
    ours.stage = 4
    ours.scale = mx.zeros(2)
    assert revert(model).layers[0] is pool
    assert pool.stage == 4
    assert_identical(pool.scale, mx.zeros(2))
    assert pool(mx.zeros((1, 4, 4, 1))).shape == (1, 2, 2, 1)


class Mine(nn.MaxPool2d):
    def __call__(self, x):
        return -super().__call__(-x)


def changed() -> nn.Module:
    pool = nn.MaxPool2d(2)
    pool._pooling_function = mx.min
    return pool


def asymmetric() -> nn.Module:
    pool = nn.AvgPool2d(2)
    pool._padding = [(1, 0), (1, 0)]
    return pool


def fractional() -> nn.Module:
    return nn.MaxPool2d((2.0, 2.0))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: Mine(2), "a subclass"),
        (changed, "changed after construction"),
        (asymmetric, "changed after construction"),
        (fractional, "[MaxPool2d] 'kernel_size' must be an integer"),
    ],
    ids=["subclass", "function", "padding", "float"],
)
def test_layers_that_convert_keeps(build, reason: str, capsys):
    kept = build()
    model = nn.Sequential(kept, nn.MaxPool2d(3))
    convert(model, verbose=True)
    assert model.layers[0] is kept
    assert type(model.layers[1]) is mlx_pooling.MaxPool2d
    assert f"  kept: {reason}" in capsys.readouterr().out.splitlines()[1]


def test_layers_inside_a_kept_one_are_converted():
    kept = Mine(2)
    kept.inner = nn.AvgPool2d(2)
    convert(nn.Sequential(kept))
    assert type(kept.inner) is mlx_pooling.AvgPool2d


def table(text: str) -> list[list[str]]:
    """The cells of a printed table, the columns of which are aligned."""
    lines = text.splitlines()
    for header in ("before", "after"):
        start = lines[0].index(header)
        assert all(line[start - 2 : start] == "  " != line[start] for line in lines)
    return [re.split("  +", line) for line in lines]


def test_the_table_of_convert(capsys):
    pool = nn.MaxPool2d(3, 2, 1)
    inner = nn.Sequential(nn.AvgPool1d(2), Mine(2))
    convert(nn.Sequential(pool, nn.ReLU(), inner, pool), verbose=True)
    assert table(capsys.readouterr().out) == [
        ["path", "before", "after"],
        [
            "layers.0, layers.3",
            "mlx.nn.MaxPool2d(kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))",
            "mlx_pooling.MaxPool2d",
        ],
        [
            "layers.2.layers.0",
            "mlx.nn.AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
            "mlx_pooling.AvgPool1d",
        ],
        [
            "layers.2.layers.1",
            f"{__name__}.Mine(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))",
            "kept: a subclass",
        ],
    ]


def test_the_table_of_revert(capsys):
    revert(mlx_pooling.MaxPool1d(2), verbose=True)
    assert table(capsys.readouterr().out) == [
        ["path", "before", "after"],
        [
            "(model)",
            "mlx_pooling.MaxPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
            "mlx.nn.MaxPool1d",
        ],
    ]


@pytest.mark.parametrize("change", [convert, revert])
def test_what_is_printed_when_there_is_nothing_to_do(change, capsys):
    change(nn.Sequential(nn.ReLU()), verbose=True)
    assert capsys.readouterr().out == "no pooling layer to replace\n"


def test_nothing_is_printed_unless_asked(capsys):
    revert(convert(nn.Sequential(nn.MaxPool2d(2), Mine(2))))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("change", [convert, revert])
@pytest.mark.parametrize("bad", [None, {}, [nn.MaxPool2d(2)], nn.MaxPool2d])
def test_only_modules(change, bad):
    with pytest.raises(TypeError) as raised:
        change(bad)
    assert str(raised.value) == (
        f"[{change.__name__}] 'model' must be an mlx.nn.Module but got "
        f"{type(bad).__name__}."
    )


@pytest.mark.parametrize("change", [convert, revert])
def test_verbose_is_a_bool(change):
    with pytest.raises(TypeError, match=rf"^\[{change.__name__}\] 'verbose' must be"):
        change(nn.MaxPool2d(2), verbose=1)


@NDIMS
@KINDS
def test_revert_makes_equal_layers_of_those_that_replaced_none(kind: str, ndim: int):
    sizes = (2, 3, 4)[:ndim], (1, 2, 3)[:ndim], (0, 1, 2)[:ndim]
    ours = layer(kind, ndim)(*sizes).eval()
    ours.stage = 3
    theirs = revert(nn.Sequential(ours)).layers[0]
    expected = THEIRS[f"{kind}Pool{ndim}d"](*sizes)
    assert type(theirs) is type(expected)
    assert dict(theirs) == dict(expected)
    assert vars(theirs) == vars(expected) | {"_training": False, "stage": 3}


def test_revert_leaves_out_what_is_no_longer_set():
    original = nn.MaxPool2d(2)
    original.scale, original.stage = mx.ones(1), 3
    ours = convert(original)
    del ours.scale, ours.stage
    ours.offset = mx.zeros(1)
    reverted = revert(ours)
    assert reverted is original
    assert list(reverted.parameters()) == ["offset"]
    assert not hasattr(reverted, "stage")


@pytest.mark.parametrize(
    "twin",
    [copy.copy, copy.deepcopy, lambda pool: pickle.loads(pickle.dumps(pool))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_reverts_to_a_layer_of_its_own(twin):
    pool = nn.MaxPool2d(3, 2)
    ours = convert(pool)
    theirs = revert(twin(ours))
    assert theirs is not pool
    assert type(theirs) is nn.MaxPool2d
    assert repr(theirs) == repr(pool)
    assert revert(ours) is pool


def test_a_model_built_under_the_patch_reverts():
    with patch_mlx_nn():
        model = seeded(ResNet)
    revert(model)
    assert (theirs_in(model), ours_in(model)) == (2, 0)
    assert_close(outcome(model), outcome(seeded(ResNet)))


class OurSubclass(mlx_pooling.MaxPool2d):
    pass


@pytest.mark.parametrize(
    ("kept", "lacking"),
    [
        (mlx_pooling.MaxPool2d(2, dilation=3), "dilation=(3, 3)"),
        (mlx_pooling.MaxPool2d(2, ceil_mode=True), "ceil_mode=True"),
        (mlx_pooling.MaxPool2d(2, return_indices=True), "return_indices=True"),
        (mlx_pooling.MaxPool1d(2, 1, ((0, 1),)), "padding=((0, 1),)"),
        (mlx_pooling.AvgPool2d(2, dilation=(1, 2)), "dilation=(1, 2)"),
        (
            mlx_pooling.AvgPool3d(3, 1, 1, True, False),
            "ceil_mode=True, count_include_pad=False",
        ),
        (mlx_pooling.AvgPool2d(2, divisor_override=5), "divisor_override=5"),
        (mlx_pooling.MaxPool2d(2, padding="same"), "padding=same"),
        (mlx_pooling.MinPool2d(2), "MinPool2d"),
        (mlx_pooling.AdaptiveAvgPool2d(2), "AdaptiveAvgPool2d"),
        (mlx_pooling.GlobalMaxPool1d(), "GlobalMaxPool1d"),
        (mlx_pooling.LPPool2d(2, 2), "LPPool2d"),
        (mlx_pooling.MaxUnpool3d(2), "MaxUnpool3d"),
        (OurSubclass(2), "OurSubclass"),
    ],
    ids=str,
)
def test_layers_that_revert_keeps(kept: nn.Module, lacking: str, capsys):
    model = nn.Sequential(kept, mlx_pooling.MaxPool2d(3))
    revert(model, verbose=True)
    assert model.layers[0] is kept
    assert type(model.layers[1]) is nn.MaxPool2d
    line = capsys.readouterr().out.splitlines()[1]
    assert line.endswith(f"  kept: mlx.nn has no {lacking}")


def test_a_converted_model_is_not_kept_alive():
    model = nn.Sequential(nn.MaxPool2d(2))
    original = weakref.ref(model.layers[0])
    model.layers[0].owner = (model,)
    converted = weakref.ref(convert(model))
    gc.collect()
    assert original() is not None
    del model
    gc.collect()
    assert converted() is None
    assert original() is None


def test_the_original_is_no_submodule():
    model = convert(nn.Sequential(nn.MaxPool2d(2)))
    assert len(model.modules()) == 2
    assert model.layers[0].state == {}


def is_patched() -> bool:
    found = {
        getattr(space, name) is getattr(mlx_pooling, name)
        for space in NAMESPACES
        for name in NAMES
    }
    assert len(found) == 1, "some names are patched and some are not"
    return found.pop()


def is_restored() -> bool:
    return all(
        getattr(space, name) is THEIRS[name] for space in NAMESPACES for name in NAMES
    )


def test_the_patch():
    assert is_restored()
    with patch_mlx_nn() as nothing:
        assert nothing is None
        assert is_patched()
        from mlx.nn import MaxPool2d
        from mlx.nn.layers.pooling import AvgPool1d

        assert MaxPool2d is mlx_pooling.MaxPool2d
        assert AvgPool1d is mlx_pooling.AvgPool1d
        assert isinstance(nn.MaxPool2d(kernel_size=3, stride=2), nn.MaxPool2d)
        assert isinstance(mlx_pooling.AvgPool3d(2), nn.AvgPool3d)
    assert is_restored()


def test_patches_nest():
    with patch_mlx_nn():
        with patch_mlx_nn():
            assert is_patched()
        assert is_patched()
    assert is_restored()


def test_patches_end_in_any_order():
    """As those of two threads do."""
    first, second = patch_mlx_nn(), patch_mlx_nn()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert is_patched()
    second.__exit__(None, None, None)
    assert is_restored()


def test_the_patch_ends_with_an_exception():
    with pytest.raises(KeyError, match="inside"), patch_mlx_nn():
        raise KeyError("inside")
    assert is_restored()


def test_the_patch_restores_what_it_found(monkeypatch):
    monkeypatch.setattr(nn, "MaxPool2d", Mine)
    with patch_mlx_nn():
        assert nn.MaxPool2d is mlx_pooling.MaxPool2d
    assert nn.MaxPool2d is Mine


def test_the_patch_decorates():
    @patch_mlx_nn()
    def build() -> nn.Module:
        return nn.MaxPool2d(2)

    assert type(build()) is mlx_pooling.MaxPool2d
    assert is_restored()


def test_conversion_under_the_patch():
    original = nn.MaxPool2d(2)
    model = nn.Sequential(original)
    with patch_mlx_nn():
        convert(model)
        assert isinstance(model.layers[0], nn.MaxPool2d)
        revert(model)
        assert model.layers[0] is original
        assert type(revert(nn.MaxPool2d(2))) is THEIRS["MaxPool2d"]
