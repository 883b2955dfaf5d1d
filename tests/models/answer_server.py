"""A server that is given answers as flowloom has them, and gives them in the wire format of a provider."""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeGuard, cast

from google.genai import types
from models.wire_server import Ending, Reply, Seen, WireServer, raw_stream
from pydantic import ConfigDict, TypeAdapter, ValidationError

from flowloom import LlmResponse
from flowloom.testing.suites.model_faults import Fault

Json = dict[str, Any]
Said = LlmResponse | Reply | Fault
KEEP_ALIVE = b": keep-alive\n\n"
SIGNED = b"signed:"
"""What the signatures of thoughts begin with, before they become base64; servers refuse others."""


class AnswerServer(WireServer):
    """Gives each answer whole or as a stream, as it is asked for; refuses what the true API would refuse.

    Answers are `LlmResponse`s, `Reply`s as they are, or faults; given a function, it is asked for the answer to each
    request. `cuts` says where a stream is cut into the pieces that are sent: `None` for each event by itself, 1 for
    every byte, and a `random.Random` for anywhere. With `keep_alive`, comments stand between the events.
    """

    def __init__(
        self,
        answers: Iterable[Said] | Callable[[Seen], Said] = (),
        *,
        cuts: random.Random | int | None = None,
        keep_alive: bool = False,
    ) -> None:
        super().__init__()
        self._function = answers if callable(answers) else None
        self.answers: list[Said] = [] if callable(answers) else list(answers)
        self._cuts = cuts
        self._keep_alive = keep_alive

    # -- a wire format -----------------------------------------------------------------------------

    @abstractmethod
    def is_streamed(self, seen: Seen) -> bool:
        """Whether a request asks for a stream."""

    @abstractmethod
    def refused(self, seen: Seen) -> Reply | None:
        """The answer to a request that the true API would refuse; None for one that it takes."""

    @abstractmethod
    def whole(self, response: LlmResponse, seen: Seen) -> Json:
        """An answer that comes at once."""

    @abstractmethod
    def events(self, response: LlmResponse, seen: Seen) -> list[bytes]:
        """The events of a streamed answer, as they are on the wire."""

    @abstractmethod
    def error(self, status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
        """A refusal in the provider's own words."""

    @abstractmethod
    def error_inside(self) -> tuple[Json, bytes]:
        """An error that is reported with status 200: as a whole answer, and as an event of a stream."""

    def headers(self) -> dict[str, str]:
        """The headers of every answer."""
        return {}

    # -- answers -----------------------------------------------------------------------------------

    @property
    def bodies(self) -> list[Json]:
        """The bodies of all requests."""
        return [seen.json for seen in self.requests]

    def reply_to(self, seen: Seen) -> Reply:
        refused = self.refused(seen)
        if refused is not None:
            return refused
        if self._function is None and not self.answers:
            return self.error(400, "no answer is left")
        said = self._function(seen) if self._function is not None else self.answers.pop(0)
        if isinstance(said, Reply):
            return said
        if isinstance(said, Fault):
            return self._faulty(said, seen)
        if self.is_streamed(seen):
            return self._stream(self.events(said, seen))
        return Reply([_json(self.whole(said, seen))], headers=self.headers())

    def failure(self, message: str) -> Reply:
        return self.error(500, message)

    def _stream(self, events: Sequence[bytes], ending: Ending = "complete") -> Reply:
        if self._keep_alive:
            events = [piece for event in events for piece in (KEEP_ALIVE, event)]
        reply = raw_stream(cut(b"".join(events), self._cuts) if self._cuts is not None else events, ending)
        return Reply(reply.pieces, 200, self.headers(), "text/event-stream; charset=utf-8", ending)

    # -- faults ------------------------------------------------------------------------------------

    def _faulty(self, fault: Fault, seen: Seen) -> Reply:
        stream = self.is_streamed(seen)
        name = fault.name
        if name == "refused_with_a_page":
            return Reply([_PAGE], 502, content_type="text/html")
        if name.startswith("refused_"):
            asked = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
            assert isinstance(fault.status, int)
            return self.error(fault.status, "Not now.", asked)
        if name in ("silent", "reset_before_an_answer"):
            return Reply(ending="silent" if name == "silent" else "reset")
        if name == "wrong_content_type":
            return Reply([_PAGE], content_type="text/html")
        if stream:
            return self._faulty_stream(name, self.events(fault.answer, seen))
        return self._faulty_whole(name, _json(self.whole(fault.answer, seen)))

    def _faulty_stream(self, name: str, events: list[bytes]) -> Reply:
        some, inside = events[: len(events) // 2], events[len(events) // 2][:-12]
        wrong = {
            "error_inside": self.error_inside()[1],
            "malformed_json": b'data: {"malformed": [1, 2\n\n',
            "not_json": b"data: upstream connect error\n\n",
            "not_an_object": b'data: ["nothing"]\n\n',
        }
        if name in wrong:
            return self._stream([*some, wrong[name]])
        endings: dict[str, tuple[list[bytes], Ending]] = {
            "empty": ([], "complete"),
            "broken_before_a_chunk": ([], "cut"),
            "broken_inside_a_chunk": ([*some, inside], "cut"),
            "broken_after_a_chunk": (some, "cut"),
            "silent_after_a_chunk": (some, "hang"),
            "ended_inside_a_chunk": ([*some, inside], "complete"),
            "ended_after_a_chunk": (some, "complete"),
        }
        return self._stream(*endings[name])

    def _faulty_whole(self, name: str, body: bytes) -> Reply:
        half = body[: len(body) // 2]
        bodies: dict[str, tuple[bytes, Ending]] = {
            "empty": (b"", "complete"),
            "broken_before_a_chunk": (b"", "cut"),
            "broken_inside_a_chunk": (half, "cut"),
            "broken_after_a_chunk": (body, "cut"),
            "silent_after_a_chunk": (half, "hang"),
            "ended_inside_a_chunk": (half, "complete"),
            "ended_after_a_chunk": (body[:-1], "complete"),
            "error_inside": (_json(self.error_inside()[0]), "complete"),
            "malformed_json": (body + b"}", "complete"),
            "not_json": (b"upstream connect error", "complete"),
            "not_an_object": (b'["nothing"]', "complete"),
        }
        sent, ending = bodies[name]
        return Reply([sent] if sent else [], headers=self.headers(), ending=ending)


_PAGE = b"<!DOCTYPE html>\n<html><body><h1>Bad Gateway</h1></body></html>\n"


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def cut(data: bytes, cuts: random.Random | int) -> list[bytes]:
    """Bytes in pieces of a size, or cut anywhere."""
    if isinstance(cuts, int):
        return [data[at : at + cuts] for at in range(0, len(data), cuts)]
    if len(data) < 2:
        return [data] if data else []
    places = sorted(cuts.sample(range(1, len(data)), min(len(data) - 1, 1 + len(data) // 60)))
    return [data[start:end] for start, end in pairwise([0, *places, len(data)])]


# -- what all formats are made of ------------------------------------------------------------------


def parts_of(response: LlmResponse) -> list[types.Part]:
    return list((response.content.parts if response.content is not None else None) or ())


def fragments(text: str, size: int = 7) -> list[str]:
    """A text as it is streamed."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def is_refusal(response: LlmResponse) -> bool:
    """Whether an answer is to be told as a refusal, where the format has such a thing."""
    return bool((response.custom_metadata or {}).get("refusal"))


def base64_of(data: bytes | None) -> str | None:
    """A signature as formats without bytes have it."""
    return None if data is None else types.Blob(data=data).model_dump(mode="json")["data"]


def is_signed(signature: Any) -> TypeGuard[str]:
    """Whether a signature is one that a server may have given."""
    try:
        return isinstance(signature, str) and (types.Blob.model_validate({"data": signature}).data or b"").startswith(
            SIGNED
        )
    except ValidationError:
        return False


def counts(response: LlmResponse) -> tuple[int, int, int, int, int]:
    """Tokens of a response in the terms of other providers: prompt, cached of it, output, thoughts of it, total."""
    usage = response.usage_metadata or types.GenerateContentResponseUsageMetadata()
    thoughts = usage.thoughts_token_count or 0
    output = (usage.candidates_token_count or 0) + thoughts
    prompt = usage.prompt_token_count or 0
    return prompt, usage.cached_content_token_count or 0, output, thoughts, usage.total_token_count or prompt + output


class RequestForm:
    """The form of requests, as a provider's SDK has it in its types: unknown fields are refused at any depth."""

    def __init__(self, form: Any) -> None:
        self._adapter = TypeAdapter[Any](form | None, config=ConfigDict(extra="forbid"))

    def problem(self, body: Json) -> str | None:
        """What is wrong with the body of a request, and where; None if nothing is."""
        try:
            _read_all(self._adapter.validate_python(body, strict=True))
        except ValidationError as error:
            # of all that could have been meant, what came furthest
            worst = max(error.errors(include_url=False, include_context=False), key=lambda each: len(each["loc"]))
            place = ".".join(str(step) for step in worst["loc"] if not str(step).startswith(("list[", "generator")))
            return f"{place}: {worst['msg']}"
        return None


def _read_all(value: Any) -> None:
    """Go through what pydantic leaves to be validated when it is read."""
    if isinstance(value, dict):
        value = cast(Json, value).values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in cast(Iterable[Any], value):
            _read_all(each)
