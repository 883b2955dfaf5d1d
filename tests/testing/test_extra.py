"""The extra `test` brings what the page about testing needs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def named(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=\[;! ]", each, maxsplit=1)[0].lower() for each in requirements}


def test_what_the_examples_import_is_a_dependency_or_in_the_extra() -> None:
    """Asynchronous tests need the plugin that runs them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    brought = named([*project["dependencies"], *project["optional-dependencies"]["test"]])
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    examples = [ast.parse(block) for block in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)]
    nodes = [node for example in examples for node in ast.walk(example)]
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    roots = {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"flowloom", "google"}
    assert {root.replace("_", "-") for root in roots} <= brought
    assert any(isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_") for node in nodes)
    assert {"pytest", "pytest-asyncio", "syrupy"} <= brought
