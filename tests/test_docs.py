"""Each public name has an example, which gives what it says; the README's run."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling
import pytest

# What the examples take for imported: as after `from mlx_pooling import *`.
NAMES = {
    "mx": mx,
    "nn": nn,
    **{name: getattr(mlx_pooling, name) for name in mlx_pooling.__all__},
}


def examples(name: str) -> list[doctest.DocTest]:
    """Of its docstring, and of those of its methods."""
    found = doctest.DocTestFinder().find(getattr(mlx_pooling, name), name, globs=NAMES)
    return [test for test in found if test.examples]


@pytest.mark.parametrize("name", mlx_pooling.__all__)
def test_examples(name: str):
    failures: list[str] = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    for test in examples(name):
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("name", mlx_pooling.__all__)
def test_there_is_an_example_with_a_result(name: str):
    doc = inspect.getdoc(getattr(mlx_pooling, name))
    assert "\nExamples:\n" in doc
    of_its_own = [test for test in examples(name) if test.name == name]
    assert any(example.want for test in of_its_own for example in test.examples)


FUNCTIONS = [n for n in mlx_pooling.__all__ if "pool" in n and n.islower()]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_of_functions_call_them_and_show_values(name: str):
    """Not only shapes."""
    (test,) = [test for test in examples(name) if test.name == name]
    assert any(f"{name}(" in example.source for example in test.examples)
    shown = [e for e in test.examples if e.want and ".shape" not in e.source]
    assert shown


def test_the_readme_runs_as_printed():
    readme = Path(__file__).parents[1] / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})
