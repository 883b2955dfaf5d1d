"""Answers of Gemini that were grounded on a search, as Google writes them."""

from __future__ import annotations

import json
from typing import Any

from models.gemini_wire import answer, streamed, text
from models.wire_server import Reply

SAID = "Crème brûlée 🍮 costs 9 € at the Café Élan. It opens at eight."
CLAIM = "costs 9 € at the Café Élan."


def support(said: str, *chunks: int, within: str = SAID, part: int | None = None) -> dict[str, Any]:
    start = len(within[: within.index(said)].encode())
    segment: dict[str, Any] = {"startIndex": start, "endIndex": start + len(said.encode()), "text": said}
    if part is not None:
        segment["partIndex"] = part
    return {"segment": segment, "groundingChunkIndices": list(chunks)}


def web(uri: str, title: str) -> dict[str, Any]:
    return {"web": {"uri": uri, "title": title}}


CHUNKS = [web("https://elan.example/menu", "elan.example"), web("https://elan.example/hours", "Hours")]
ENTRY = {"renderedContent": "<div>Search again</div>"}


def grounding(*supports: dict[str, Any]) -> dict[str, Any]:
    return {
        "webSearchQueries": ["café élan menu", "café élan hours"],
        "searchEntryPoint": ENTRY,
        "groundingChunks": CHUNKS,
        "groundingSupports": list(supports) or [support(CLAIM, 0), support("It opens at eight.", 1)],
    }


USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 20, "toolUsePromptTokenCount": 30, "totalTokenCount": 60}


def grounded(*parts: dict[str, Any], stream: bool, metadata: dict[str, Any] | None = None) -> Reply:
    """An answer with its grounding, which stands in the last chunk of a stream."""
    parts = parts or (text(SAID),)
    if not stream:
        reply = answer(*parts, finish="STOP", usageMetadata=USAGE)
        reply["candidates"][0]["groundingMetadata"] = metadata or grounding()
        return whole_of(reply)
    last = answer(finish="STOP", usageMetadata=USAGE)
    last["candidates"][0]["groundingMetadata"] = metadata or grounding()
    pieces: list[dict[str, Any]] = []
    for part in parts:
        said = part.get("text")
        cut = [part] if said is None else [{**part, "text": said[at : at + 7]} for at in range(0, len(said), 7)]
        pieces += [answer(piece) for piece in cut]
    return streamed(*pieces, last)


def whole_of(data: dict[str, Any]) -> Reply:
    return Reply([json.dumps(data).encode()])
