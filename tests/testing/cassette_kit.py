"""What the tests of cassettes share: models that record and play, and readers of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.genai import types
from kit import user

from flowloom import BaseLlm, LlmRequest, LlmResponse
from flowloom.testing import ScriptedModel
from flowloom.testing.cassettes import Mode, RecordingModel


def recording(path: Path, *answers: Any, mode: Mode = "record", **fields: Any) -> RecordingModel:
    """A model that records these answers."""
    return RecordingModel(ScriptedModel(answers, **fields), path, mode)


def replaying(path: Path) -> RecordingModel:
    """A model that plays, and whose inner model fails when it is asked."""
    return RecordingModel(ScriptedModel(), path)


def ask(message: str = "go", **config: Any) -> LlmRequest:
    return LlmRequest(model="m", contents=[user(message)], config=types.GenerateContentConfig(**config))


async def responses(model: BaseLlm, request: LlmRequest | None = None, stream: bool = False) -> list[LlmResponse]:
    return [each async for each in model.generate_content_async(request or ask(), stream)]


async def texts(model: BaseLlm, *messages: str, stream: bool = False) -> list[str]:
    """The text of each response to these messages, asked one after another."""
    return [each.text for message in messages for each in await responses(model, ask(message), stream)]


def written(path: Path) -> str:
    """The file; empty if there is none."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written(path).split("\n") if line]
