"""flowloom with the seams for observers cut out of its source, to show what they cost without observers.

Every loop over observers, and every branch that is taken if there are any, is removed from the syntax trees before they
are compiled. What is left is the engine as if it could not be watched.
"""

from __future__ import annotations

import ast
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

_SEAM = "observers"


class Cut(ast.NodeTransformer):
    """Takes the seams out of a module."""

    def visit_For(self, node: ast.For) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if _names(node.iter) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if _names(node.test) else self.generic_visit(node)


def _names(node: ast.AST) -> bool:
    """Whether an expression is the observers of a run."""
    return getattr(node, "attr", getattr(node, "id", None)) == _SEAM


_get_code: Any = SourceFileLoader.get_code


def _get_cut_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
    if not fullname.startswith("flowloom."):
        return _get_code(self, fullname)
    path = self.get_filename(fullname)
    tree = Cut().visit(ast.parse(Path(path).read_text(encoding="utf-8")))
    return compile(tree, path, "exec", dont_inherit=True)


SourceFileLoader.get_code = _get_cut_code  # type: ignore[method-assign]

from benchmarks.peers.flowloom import engine  # noqa: E402 - the engine is loaded through the loader above

__all__ = ["engine"]
