"""What mutations.py would change is there to be changed.

That each is caught takes hours to find out, and is not asked here.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]


def mutations() -> dict[str, list[tuple[str, str]]]:
    """Read, not imported: the program needs packages that the tests do not."""
    tree = ast.parse((HERE / "mutations.py").read_text())
    (found,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MUTATIONS"
    )
    return ast.literal_eval(found)


@pytest.mark.parametrize("file", mutations())
def test_the_old_text_occurs_once(file: str):
    text = (PROJECT / file).read_text()
    assert {old for old, _ in mutations()[file] if text.count(old) != 1} == set()
