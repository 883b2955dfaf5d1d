"""`Answer`: one HTTP answer of a provider, read here and not by its SDK.

An SDK makes an object of its own of each chunk, which takes longer than all that comes after it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar, cast

from flowloom.errors import EventParseError, FlowloomError, ModelStreamError
from flowloom.events.event_json import read_json
from flowloom.models.failures import (
    broken_stream,
    empty_stream,
    stream_error,
    transport_error,
    unreadable,
    without_secrets,
)
from flowloom.models.http import MAX_BODY_BYTES, TOO_LARGE, httpx, sent_secrets, whole_body
from flowloom.models.sse_decoder import SseDecoder

_Chunk = TypeVar("_Chunk")
_DONE = b"[DONE]"
_ERROR = b"error:"  # before JSON, where a field of an event should stand
_PATIENCE = 1.0
"""Seconds that a connection has to end in, once the provider has said that it is done."""
READING_ERRORS = (TypeError, ValueError, LookupError, AttributeError)
"""What code raises that reads JSON of another form than it expects."""


class Answer(ABC, Generic[_Chunk]):
    """An answer of status 200, from its first byte to its last. Must be closed."""

    def __init__(self, response: httpx.Response, model: str, *, stream: bool) -> None:
        self._response = response
        self._model = model
        self._stream = stream
        self._bytes = response.aiter_bytes()
        self._events = SseDecoder()
        self._failure: FlowloomError | None = None
        self._empty = True
        self._ended = False
        self._drained = False
        self._done = False
        self._size = 0
        """How many bytes of a stream have come, unpacked."""
        self._finished = False
        """Whether the provider has said that the answer is at its end; nothing is missing then."""

    @abstractmethod
    def _take(self, data: dict[str, Any]) -> list[_Chunk]:
        """What the JSON of a chunk, or of a whole answer, says. Errors of types and values mean: it is no answer."""
        raise NotImplementedError

    async def read(self) -> list[_Chunk] | None:
        """What arrived next, one chunk or more; None at the end. A whole answer comes at once.

        Raises `ModelStreamError` for a stream that is empty, breaks off before it finished, or reports an error;
        `ModelResponseError` for what cannot be read; for a whole answer, what the network and the provider report.
        """
        if self._failure is not None:
            raise self._failure
        while not self._ended:
            chunks = self._parse(await self._receive())
            if chunks:
                return chunks
            if self._failure is not None:
                raise self._failure
        if self._stream and self._empty:
            raise empty_stream(self._model)
        if self._stream and not self._finished:
            raise broken_stream(self._model, "it ended without a reason for its end")
        return None

    async def aclose(self) -> None:
        """Give the connection back, or close it when the answer was not read to its end."""
        await self._bytes.aclose()
        await self._response.aclose()
        if not self._drained:
            # The HTTP library drops a generator that it has not closed; the event loop then closes it in a task,
            # which is made in its next turn and ends in the one after.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _receive(self) -> list[bytes]:
        """The next pieces of JSON. Sets `_ended` at the end."""
        try:
            if not self._stream:
                self._ended = True
                body = await whole_body(self._bytes)
                self._drained = True
                return [body]
            async with asyncio.timeout(_PATIENCE if self._done else None):
                received = await anext(self._bytes, None)
        except Exception as error:
            self._ended = True
            if self._finished:
                return []
            raise (stream_error if self._stream else transport_error)(error, self._model) from error
        try:
            if received is not None:
                self._size += len(received)
                if self._size > MAX_BODY_BYTES:
                    raise EventParseError(f"It is larger than {MAX_BODY_BYTES >> 20} MiB, and not at its end.")
                return self._events.feed(received)
            self._ended = self._drained = True
            return self._events.close()
        except EventParseError as error:
            self._ended = True
            raise ModelStreamError(
                f"The streamed answer of the model `{self._model}` is given up: {error}",
                model=self._model,
                code=TOO_LARGE,
            ) from error

    def _parse(self, payloads: list[bytes]) -> list[_Chunk]:
        """The chunks of some pieces of JSON. What is wrong with one is raised after those before it were given."""
        chunks: list[_Chunk] = []
        for payload in payloads:
            if payload.strip() == _DONE:
                self._finished = self._done = True
                continue
            try:
                chunks += self._parse_one(payload)
            except FlowloomError as failure:
                self._failure = without_secrets(failure, sent_secrets(self._response.request))
                self._ended = True
                break
        return chunks

    def _parse_one(self, payload: bytes) -> list[_Chunk]:
        self._empty = False
        try:
            data = read_json(payload.removeprefix(_ERROR), strict=False, any_depth=True)
        except ValueError as error:
            if self._stream and self._ended:
                raise broken_stream(self._model, "its last event is not whole") from error
            raise unreadable(error, self._model) from error
        try:
            if not isinstance(data, dict):
                raise TypeError("it is not a JSON object")
            return self._take(cast(dict[str, Any], data))
        except FlowloomError:
            raise
        except READING_ERRORS as error:
            raise unreadable(error, self._model) from error
