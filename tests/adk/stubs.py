"""What type checkers read of `flowloom.adk`, made from its table. `python tests/adk/stubs.py` writes it anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import flowloom.adk
from flowloom.adk.table import HOMES, PATHS

FOLDER = Path(flowloom.adk.__file__ or "").parent


def stubs() -> dict[str, str]:
    """The text of each stub, by its path below the room."""
    made: dict[str, str] = {}
    for path, names in PATHS.items():
        file = f"{path.replace('.', '/')}/__init__.pyi"  # in a folder: a stub alone would lack its source, says pyright
        imports = sorted(f"from {HOMES[name][0]} import {_as(HOMES[name][1], name)}" for name in names)
        exported = ["", "__all__ = [", *(f'    "{name}",' for name in names), "]"] if names else []
        lines = ["# made from table.py by tests/adk/stubs.py", "", *imports, *exported]
        made[file.lstrip("/")] = "\n".join(lines).rstrip("\n") + "\n"
    return made


def _as(own_name: str, name: str) -> str:
    return name if name == own_name else f"{own_name} as {name}"


def found() -> dict[str, str]:
    """The stubs that are there."""
    return {str(file.relative_to(FOLDER)): file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.pyi")}


if __name__ == "__main__":
    for folder in FOLDER.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    for file, text in stubs().items():
        (FOLDER / file).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / file).write_text(text, encoding="utf-8")
