"""Layers of a model replaced by others, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mlx.nn import Module


@dataclass
class _Row:
    paths: list[str]
    layer: Module
    outcome: str

    def cells(self) -> tuple[str, str, str]:
        paths = ", ".join(path.removeprefix(".") for path in self.paths)
        before = f"{_name(self.layer)}({self.layer._extra_repr()})"
        return paths or "(model)", before, self.outcome


class Swap:
    """Replaces the layers of some types, visiting each node of a tree once.

    ``replacement`` returns what is to be in a layer's place, or raises ValueError
    with the reason why the layer is to stay.
    """

    def __init__(
        self,
        layer_types: type[Module] | tuple[type[Module], ...],
        replacement: Callable[[Module], Module],
    ) -> None:
        self._layer_types = layer_types
        self._replacement = replacement
        self._rows: dict[int, _Row] = {}
        # By identity, holding the node too so that no other can have its id.
        self._visited: dict[int, tuple[object, object]] = {}

    def table(self) -> str:
        """List what was replaced and what was not."""
        if not self._rows:
            return "no pooling layer to replace"
        lines = [("path", "before", "after")]
        lines += [row.cells() for row in self._rows.values()]
        widths = [max(len(line[column]) for line in lines) for column in range(2)]
        return "\n".join(
            f"{path:{widths[0]}}  {before:{widths[1]}}  {after}"
            for path, before, after in lines
        )

    def visit(self, node: object, path: str) -> object:
        """Return what is to be in the place of ``node``."""
        if not isinstance(node, (dict, list, tuple)):
            return node
        if id(node) in self._visited:
            if id(node) in self._rows:
                self._rows[id(node)].paths.append(path)
            return self._visited[id(node)][1]
        result: dict | list | tuple = node
        if isinstance(node, self._layer_types):
            result = self._replace(node, path)
        self._visited[id(node)] = node, result  # now, for cycles that lead back here
        if isinstance(result, tuple):
            result = self._visit_tuple(result, path)
            self._visited[id(node)] = node, result
        else:
            self._visit_items(result, path)
        return result

    def _replace(self, layer: Module, path: str) -> Module:
        try:
            replacement = self._replacement(layer)
        except ValueError as reason:
            self._rows[id(layer)] = _Row([path], layer, f"kept: {reason}")
            return layer
        self._rows[id(layer)] = _Row([path], layer, _name(replacement))
        return replacement

    def _visit_items(self, node: dict | list, path: str) -> None:
        # The methods of the base classes: a subclass may refuse to be changed.
        base: Any = dict if isinstance(node, dict) else list
        items: Iterable[tuple[Any, object]] = (
            dict.items(node)
            if isinstance(node, dict)
            else enumerate(list.__iter__(node))
        )
        for key, child in items:
            swapped = self.visit(child, f"{path}.{key}")
            if swapped is not child:
                base.__setitem__(node, key, swapped)

    def _visit_tuple(self, node: tuple, path: str) -> tuple:
        swapped = [self.visit(child, f"{path}.{i}") for i, child in enumerate(node)]
        if all(new is old for new, old in zip(swapped, node, strict=True)):
            return node
        copy = tuple.__new__(type(node), swapped)  # serves named tuples as well
        if hasattr(node, "__dict__"):
            vars(copy).update(vars(node))
        return copy


def _name(layer: Module) -> str:
    package = type(layer).__module__
    for public in ("mlx.nn", "mlx_pooling"):
        if package.startswith(f"{public}.layers"):
            package = public
    return f"{package}.{type(layer).__name__}"
