"""Models of ``mlx.nn`` with the pooling layers of this package, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

import mlx.nn as nn
from mlx.nn import Module

from . import layers
from ._arguments import check_flag
from ._swap import Swap

_Model = TypeVar("_Model", bound=Module)

_OURS: dict[type[Any], type[Any]] = {
    nn.MaxPool1d: layers.MaxPool1d,
    nn.MaxPool2d: layers.MaxPool2d,
    nn.MaxPool3d: layers.MaxPool3d,
    nn.AvgPool1d: layers.AvgPool1d,
    nn.AvgPool2d: layers.AvgPool2d,
    nn.AvgPool3d: layers.AvgPool3d,
}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}

_THEIR_DEFINITION = {
    "_pooling_function",
    "_kernel_size",
    "_stride",
    "_padding",
    "_padding_value",
    "_axes",
}
_DEFINITION = _THEIR_DEFINITION | {"_window", "_return_indices", "_replaces"}


def convert(model: _Model, verbose: bool = False) -> _Model:
    """Replace the pooling layers of ``mlx.nn`` in a model by those of this package.

    The model is changed in place, wherever MLX finds its submodules and in tuples;
    a layer used in several places stays one layer. Parameters, training mode,
    frozen keys and what else was set on a layer are kept. Left alone are subclasses,
    layers whose internals were changed to what no constructor gives, and layers which
    MLX does not see either (in closures, class attributes, other objects). Functions
    that ``mlx.core.compile`` has traced already keep the layers they were traced with.
    Results are the same, and so are gradients where no maximum is tied.

    Args:
        model (mlx.nn.Module): The model, or itself a pooling layer.
        verbose (bool): Print a table of what was replaced, and what was kept and
            why. Default: ``False``.

    Returns:
        mlx.nn.Module: ``model``; its replacement if it is itself a pooling layer.

    Raises:
        TypeError: For a ``model`` that is no module or a ``verbose`` that is no bool.

    Examples:
        >>> model = convert(nn.Sequential(nn.MaxPool2d(2), nn.ReLU()), verbose=True)
        path      before ...
        layers.0  mlx.nn.MaxPool2d(kernel_size=(2, 2), ...  mlx_pooling.MaxPool2d
    """
    return _swap("convert", model, verbose, tuple(_OURS), _to_ours)


def revert(model: _Model, verbose: bool = False) -> _Model:
    """Replace the pooling layers of this package in a model by those of ``mlx.nn``.

    Undoes :func:`convert`: the very layers that it replaced return, with the training
    mode and the rest of the state that their replacements have now. Of layers that
    replaced none, such as those of a copied or unpickled model, equal ones of
    ``mlx.nn`` take the place. Left alone are subclasses and layers that ``mlx.nn``
    lacks or could not express, such as one with ``ceil_mode``.

    Args:
        model (mlx.nn.Module): The model, or itself a pooling layer.
        verbose (bool): Print a table of what was replaced, and what was kept and
            why. Default: ``False``.

    Returns:
        mlx.nn.Module: ``model``; its replacement if it is itself a pooling layer.

    Raises:
        TypeError: For a ``model`` that is no module or a ``verbose`` that is no bool.

    Examples:
        >>> pool = nn.MaxPool2d(2)
        >>> revert(convert(pool)) is pool
        True
    """
    return _swap("revert", model, verbose, layers._Pool, _to_theirs)


@contextmanager
def patch_mlx_nn() -> Iterator[None]:
    """Inside this context ``mlx.nn.MaxPool2d`` and its five siblings are ours.

    For code that builds its model out of reach: what it looks up in ``mlx.nn``,
    ``mlx.nn.layers`` or ``mlx.nn.layers.pooling`` meanwhile, to construct a layer or
    as the class of ``isinstance``, is the layer of this package. A name that a module
    imported before (``from mlx.nn import MaxPool2d``) is not changed.

    The whole process sees the change, all of its threads included, until all such
    contexts have ended, in any order. Then, after an exception too, what was there
    before the first returns.

    Examples:
        >>> with patch_mlx_nn():
        ...     pool = nn.MaxPool2d(2)
        >>> isinstance(pool, MaxPool2d), nn.MaxPool2d is MaxPool2d
        (True, False)
    """
    _patch.begin()
    try:
        yield
    finally:
        _patch.end()


class _Patch:
    """What ``mlx.nn`` had, while contexts are open in any of the threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open = 0
        self._former: list[tuple[object, str, object]] = []

    def begin(self) -> None:
        with self._lock:
            if self._open == 0:
                for namespace in (nn, nn.layers, nn.layers.pooling):
                    for ours in _THEIRS:
                        name = ours.__name__
                        self._former.append((namespace, name, getattr(namespace, name)))
                        setattr(namespace, name, ours)
            self._open += 1

    def end(self) -> None:
        with self._lock:
            self._open -= 1
            while self._open == 0 and self._former:
                setattr(*self._former.pop())


_patch = _Patch()


def _swap(
    name: str,
    model: Module,
    verbose: bool,
    layer_types: type[Module] | tuple[type[Module], ...],
    equal: Callable[[Module], Module],
) -> Any:
    if not isinstance(model, Module):
        raise TypeError(
            f"[{name}] 'model' must be an mlx.nn.Module but got {type(model).__name__}."
        )
    check_flag(name, "verbose", verbose)

    def replacement(layer: Module) -> Module:
        replacing = equal(layer)
        _keep_state(layer, replacing)
        return replacing

    swap = Swap(layer_types, replacement)
    swapped = swap.visit(model, "")
    if verbose:
        print(swap.table())
    return swapped


def _to_ours(theirs: Module) -> Module:
    """Build our layer, or raise ValueError with the reason why not."""
    layer_type: type[Any] = type(theirs)
    if layer_type not in _OURS:
        raise ValueError("a subclass")
    sizes = theirs._kernel_size, theirs._stride, [low for low, _ in theirs._padding]
    constructed = layer_type(*sizes)
    if any(getattr(theirs, n) != getattr(constructed, n) for n in _THEIR_DEFINITION):
        raise ValueError("changed after construction")
    ours = _OURS[layer_type](*sizes)
    vars(ours)["_replaces"] = theirs  # where MLX does not look for submodules
    return ours


def _to_theirs(ours: Module) -> Module:
    """Find or build that of mlx.nn, or raise ValueError with the reason why not."""
    if ours._replaces is not None:
        return ours._replaces
    if type(ours) not in _THEIRS:
        raise ValueError(f"mlx.nn has no {type(ours).__name__}")
    window = ours._window
    theirs = _THEIRS[type(ours)](window.kernel_size, window.stride, window.pad_lo)
    lacking = [a for a in _arguments(ours) if a not in _arguments(theirs)]
    if lacking:
        raise ValueError(f"mlx.nn has no {', '.join(lacking)}")
    return theirs


def _arguments(layer: Module) -> list[str]:
    return re.split(r", (?=\w+=)", layer._extra_repr())


def _keep_state(layer: Module, replacement: Module) -> None:
    """Give the replacement the attributes of a layer, but those that define it."""
    for attributes, destination in (
        (vars(layer), vars(replacement)),
        (layer, replacement),
    ):
        for name in dict.keys(destination) - dict.keys(attributes) - _DEFINITION:
            dict.__delitem__(destination, name)
        for name, value in dict.items(attributes):
            if name not in _DEFINITION:
                dict.__setitem__(destination, name, value)
