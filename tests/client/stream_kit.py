"""Payloads of events as ADK servers write them, and strategies for any of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from flowloom.client import ParsedEvent, parse_event_sse

TYPICAL: dict[str, Any] = {
    "content": {"parts": [{"text": "It is sunny in Rome, about 21 degrees."}], "role": "model"},
    "partial": True,
    "usageMetadata": {
        "candidatesTokenCount": 12,
        "promptTokenCount": 120,
        "totalTokenCount": 132,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 120}],
    },
    "invocationId": "e-8c6c0b7e-0a83-4a52-a8b4-2c2a2f1f7f0c",
    "author": "weather",
    "actions": {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}},
    "id": "9d5b6c6e-6df9-4b66-8f0a-3f0ad7d5c1d2",
    "timestamp": 1767323045.25,
}


def wire(*parts: dict[str, Any] | str, author: str = "root", **fields: Any) -> dict[str, Any]:
    """The JSON of an event; texts stand for text parts."""
    content = {"role": "model", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}
    event: dict[str, Any] = {"author": author, "invocationId": "i1", "id": "e1", "timestamp": 1.0}
    return {**event, **({"content": content} if parts else {}), **fields}


def frame(data: dict[str, Any] | str, **fields: str) -> bytes:
    """One server-sent event."""
    lines = [f"{name}: {value}" for name, value in fields.items()]
    text = data if isinstance(data, str) else json.dumps(data)
    return "\n".join([*lines, *(f"data: {line}" for line in text.split("\n")), "", ""]).encode()


def parsed(data: dict[str, Any] | str | bytes, **options: Any) -> ParsedEvent:
    """An event that can be read."""
    found = parse_event_sse(json.dumps(data) if isinstance(data, dict) else data, **options)
    assert found is not None
    return found


def web(uri: str | None, title: str | None = None, **more: str) -> dict[str, Any]:
    """A grounding chunk."""
    given = {"uri": uri, "title": title, **more}
    return {"web": {key: value for key, value in given.items() if value is not None}}


def grounded(*chunks: Any) -> dict[str, Any]:
    """The JSON of an event with these grounding chunks."""
    return wire("x", groundingMetadata={"groundingChunks": list(chunks)})


def look_at(parsed: ParsedEvent) -> list[Any]:
    """Everything that can be asked of a parsed event."""
    return [
        parsed.text_content,
        parsed.thought_content,
        parsed.function_calls,
        parsed.function_responses,
        parsed.sources,
        parsed.is_final_response,
        parsed.transfer_to_agent,
        parsed.error,
        repr(parsed),
    ]


# -- any event -------------------------------------------------------------------------------------

words = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(words, json_values, max_size=3)
base64s = st.sampled_from(["AQ==", "c2lnbg==", "-_8="])


def objects(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects with these keys, the optional ones now and then."""
    return st.fixed_dictionaries(required, optional=optional)


parts = st.one_of(
    objects({"text": words}, thoughtSignature=base64s),
    objects({"text": words}, thought=st.booleans()),
    objects({"functionCall": objects({"name": words, "args": json_objects}, id=words)}, thoughtSignature=base64s),
    objects({"functionCall": objects({"name": words}, willContinue=st.booleans())}),
    objects({"functionResponse": objects({"name": words, "response": json_objects}, id=words)}),
    objects({"inlineData": objects({"mimeType": words, "data": base64s})}),
    objects({"fileData": objects({"mimeType": words, "fileUri": words})}),
    objects({"executableCode": objects({"code": words, "language": st.just("PYTHON")})}),
    objects({"text": words}, brandNew=json_values.filter(lambda value: value is not None)),
)
contents = objects({}, role=st.sampled_from(["user", "model", "tool"]), parts=st.lists(parts, max_size=4))
chunks = objects({"web": objects({"uri": words, "title": words})})
other_chunks = objects({"web": objects({"uri": words}, domain=words)}) | objects({"maps": objects({"uri": words})})
groundings = objects(
    {}, groundingChunks=st.lists(chunks | other_chunks, max_size=3), webSearchQueries=st.lists(words, max_size=2)
)
pages = objects(
    {"retrievedUrl": words},
    urlRetrievalStatus=st.sampled_from(["URL_RETRIEVAL_STATUS_SUCCESS", "URL_RETRIEVAL_STATUS_ERROR"]),
)
actions = objects(
    {},
    stateDelta=json_objects,
    artifactDelta=st.dictionaries(words, st.integers(0, 9), max_size=2),
    transferToAgent=words,
    escalate=st.booleans(),
    skipSummarization=st.booleans(),
    requestedToolConfirmations=st.dictionaries(words, objects({"hint": words, "confirmed": st.booleans()}), max_size=2),
    somethingNew=st.integers(),
)
wires = objects(
    {"author": words, "invocationId": words, "id": words, "timestamp": st.floats(0, 2e9)},
    content=contents,
    partial=st.booleans(),
    branch=words,
    turnComplete=st.booleans(),
    interrupted=st.booleans(),
    errorCode=words,
    errorMessage=words,
    finishReason=st.sampled_from(["STOP", "MAX_TOKENS"]),
    longRunningToolIds=st.lists(words, max_size=2),
    groundingMetadata=groundings,
    urlContextMetadata=objects({}, urlMetadata=st.lists(pages, max_size=3)),
    usageMetadata=objects({"totalTokenCount": st.integers(0, 9)}, promptTokenCount=st.integers(0, 9)),
    customMetadata=json_objects,
    actions=actions,
    output=json_values,
    nodeInfo=objects({}, path=words, outputFor=st.lists(words, max_size=2)),
    event=st.integers(),
    avgLogprobs=st.floats(-10, 0),
)
