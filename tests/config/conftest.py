"""A folder of files that describe agents, and a package that they may name."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes files into one folder, and gives the first."""

    def write(root: str, **others: str) -> Path:
        files = {"root_agent": root, **others}
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path / "root_agent.yaml"

    return write


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of a user's own, which can be imported, and says when it is."""
    folder = tmp_path / "own_desk"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "things.py").write_text(
        textwrap.dedent(
            """
            from pydantic import BaseModel
            from flowloom import BaseAgent, BaseTool, LlmAgent, OfflineModel

            def roll(sides: int) -> int:
                "Rolls a die."
                return sides

            def wait(): ...

            def before(callback_context): ...

            def made(args):
                def scaled(value: int) -> int:
                    "Scales."
                    return value * args.factor
                return scaled

            class City(BaseModel):
                name: str

            class Own(BaseTool):
                def __init__(self, name: str, text: str) -> None:
                    super().__init__(name=name, description=text)

            class Desk(LlmAgent):
                floor: int = 0

            helper = LlmAgent(name="helper", model=OfflineModel())
            model = OfflineModel()
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_desk"
    for name in [each for each in sys.modules if each.partition(".")[0] == "own_desk"]:
        del sys.modules[name]
