"""The same requests to two servers, and what is left of the answers when what differs from run to run is taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

S = "{S}"
"""The path of the sessions of the row's own user."""
COMPARED_HEADERS = ("content-type", "location", "access-control-allow-origin", "access-control-allow-credentials")
_ID = re.compile(r"(?:[a-z]{1,6}-)?[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_WORDS = ("hint", "error", "errorMessage")
"""Texts that each says in its own words."""
_OWN = {"agentState": {"pending_calls"}, "customMetadata": {"run_ended"}}
"""What of an event only flowloom writes, in fields that google-adk has, too."""
_TIMES = ("timestamp", "lastUpdateTime", "createTime", "start_time", "end_time", "canonicalUri")


@dataclass(frozen=True)
class Ask:
    """One request: a body as JSON, or as it is."""

    method: str
    path: str
    json: Any = None
    content: str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    """What came of a request; `body` is JSON, the list of a stream's frames, or text."""

    status: int
    headers: dict[str, str]
    body: Any
    raw: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.body

    def call_id(self, name: str) -> str:
        """The id of the call of that name in the events."""
        parts = (part for event in self.events for part in event.get("content", {}).get("parts", ()))
        return next(part["functionCall"]["id"] for part in parts if part.get("functionCall", {}).get("name") == name)


Step = Ask | Callable[[list[Answer]], Ask]
"""A request, or what makes one of the answers before."""


@dataclass(frozen=True)
class Row:
    """One line of the specification: the requests that show it.

    `gap` says why the answers differ on purpose; `ours` then checks our answers, and the two have to differ.
    """

    line: str
    what: str
    steps: Sequence[Step]
    gap: str = ""
    ours: Callable[[list[Answer]], object] | None = None


def run(method: str = "/run_sse", **more: Any) -> Callable[[str], Ask]:
    """A run of the words in the session `s` of the row's user."""

    def asked(words: str) -> Ask:
        body = {"appName": "desk", "userId": "{U}", "sessionId": "s", "newMessage": user(words), **more}
        return Ask("POST", method, body)

    return asked


def user(words: str) -> dict[str, Any]:
    """What a user says."""
    return {"role": "user", "parts": [{"text": words}]}


def problem(status: int, code: str, at: int = -1) -> Any:
    """Checks an answer of ours: an error with a code."""

    def check(answers: list[Answer]) -> None:
        assert (answers[at].status, answers[at].body["code"]) == (status, code), answers[at].raw

    return check


MAKE = Ask("POST", S, {"sessionId": "s"})
SEE = Ask("GET", f"{S}/s")


def ask_all(client: httpx.Client, row: Row, who: str) -> list[Answer]:
    """The answers to a row's requests."""
    answers: list[Answer] = []
    for step in row.steps:
        asked = step if isinstance(step, Ask) else step(answers)
        answers.append(answer_to(client, _filled(asked, who)))
    return answers


def _filled(asked: Ask, who: str) -> Ask:
    def filled(text: str) -> str:
        return text.replace(S, f"/apps/desk/users/{who}/sessions").replace("{U}", who)

    body = None if asked.json is None else json.loads(filled(json.dumps(asked.json)))
    content = filled(asked.content) if isinstance(asked.content, str) else asked.content
    return Ask(asked.method, filled(asked.path), body, content, asked.headers)


def answer_to(client: httpx.Client, asked: Ask) -> Answer:
    """What a server says."""
    body: dict[str, Any] = {"content": asked.content} if asked.content is not None else {}
    if asked.json is not None:
        body["json"] = asked.json
    if asked.content is not None and "content-type" not in asked.headers:
        body["headers"] = {"content-type": "application/json", **asked.headers}
    else:
        body["headers"] = asked.headers
    response = client.request(asked.method, asked.path, **body)
    kind = response.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        value: Any = list(frames(response.text))
    elif "json" in kind:
        value = response.json()
    else:
        value = response.text
    return Answer(response.status_code, dict(response.headers), value, response.text)


def frames(text: str) -> Iterator[Any]:
    """The data of each frame of a stream; the other lines of server-sent events are left out."""
    for frame in text.split("\n\n"):
        data = [line[6:] for line in frame.split("\n") if line.startswith("data: ")]
        if data:
            yield json.loads("\n".join(data))


def compared(answers: list[Answer]) -> list[Any]:
    """The answers with ids by order of appearance, without times, and without the words of errors."""
    names: dict[str, str] = {}
    return [
        {
            "status": answer.status,
            "headers": {name: answer.headers[name] for name in COMPARED_HEADERS if name in answer.headers},
            "body": _plain(_error(answer) if answer.status >= 400 else answer.body, names),
        }
        for answer in answers
    ]


def _error(answer: Answer) -> Any:
    """An error's `detail`: that it is a text, or which fields are wrong."""
    if not isinstance(answer.body, dict):
        return answer.body
    detail = answer.body.get("detail")
    if isinstance(detail, list):
        return sorted([wrong["type"], wrong["loc"]] for wrong in detail)
    return type(detail).__name__


def _plain(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            _plain(name, names): _field(name, inner, names) for name, inner in value.items() if _is_told(name, inner)
        }
    if isinstance(value, list):
        return [_plain(inner, names) for inner in _in_order(value)]
    if isinstance(value, str):
        return _ID.sub(lambda found: names.setdefault(found[0], f"<{len(names) + 1}>"), value)
    return value


def _field(name: str, value: Any, names: dict[str, str]) -> Any:
    if name in _TIMES or (name in _WORDS and isinstance(value, str) and " " in value):
        return type(value).__name__
    return _plain(value, names)


def _is_told(name: str, value: Any) -> bool:
    """Whether a field is compared: not one that may be absent, nor what is flowloom's own, nor a result of nothing."""
    if name == "title":
        return False  # of a schema
    if name in ("longRunningToolIds", "result"):
        return value not in ([], None)
    return not (name in _OWN and isinstance(value, dict) and set(value) <= _OWN[name] and value)


def _in_order(values: list[Any]) -> list[Any]:
    """Events in which what asks for approvals stands before what the calls are answered meanwhile: either may."""
    asking = [number for number, event in enumerate(values) if isinstance(event, dict) and _asks(event)]
    if len(asking) == 2 and "functionResponse" in values[asking[0]]["content"]["parts"][0]:
        first, second = asking
        return [*values[:first], values[second], values[first], *values[second + 1 :]]
    return values


def _asks(event: dict[str, Any]) -> bool:
    parts = (event.get("content") or {}).get("parts", ())
    called = any(part.get("functionCall", {}).get("name") == "adk_request_confirmation" for part in parts)
    return called or bool(event.get("actions", {}).get("requestedToolConfirmations"))


def differing(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where two values differ, a line for each place."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted({*theirs, *ours}):
            if name not in ours:
                yield f"{path}.{name}: missing here, there {theirs[name]!r}"
            elif name not in theirs:
                yield f"{path}.{name}: only here, {ours[name]!r}"
            else:
                yield from differing(theirs[name], ours[name], f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            yield from differing(left, right, f"{path}[{number}]")
    elif theirs != ours or type(theirs) is not type(ours):
        yield f"{path}: there {theirs!r}, here {ours!r}"
