"""`CachedModel`: asks a model the same thing once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from google.genai import types
from pydantic import Field, PrivateAttr

from flowloom.events import clock
from flowloom.events.ids import CLIENT_CALL_PREFIX, new_id
from flowloom.events.parts import content_of, parts_of
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make, replace, set_fields
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.wrappers.flights import Flights
from flowloom.wrappers.request_key import request_key
from flowloom.wrappers.stores import CacheStore, DirectoryStore, MemoryStore
from flowloom.wrappers.wrapper import WrapperModel, provider_name_of

_log = logging.getLogger("flowloom.wrappers")

METADATA = "cache"
"""The key in `custom_metadata` under which an answer from the cache says so."""
_VERSION = 1
_ENDED_WELL = (None, types.FinishReason.STOP, types.FinishReason.MAX_TOKENS)


class CachedModel(WrapperModel):
    """Asks `model` (or the one of that name) once for each request, and repeats its answer from then on.

    `store` says where answers are kept: by default in memory, the `max_entries` that were asked for last; a path is a
    directory, which several processes may share; or anything with `get` and item assignment for texts, such as a dict.
    Answers older than `ttl` seconds are not used.

    The same thing is asked if the model would be given the same: contents to the letter, files, instructions, tools,
    every setting, the model's name, HTTP headers; and the same `namespace`, a text for what else answers depend on (the
    owner of the API key, for example) if several models share a store. Streaming makes no difference. A caller that
    asks while another one asks the same waits for that answer, or that error.

    Only complete answers are kept: no errors, no interrupted or empty ones, none that a safety filter cut off. An
    answer from the cache has fresh ids on its function calls, no `usage_metadata`, since it costs nothing, and
    `custom_metadata["cache"]` with `saved_at` (epoch seconds) and the `usage_metadata` of the call that was made.
    `hits` and `misses` count the answers.
    """

    store: CacheStore
    ttl: float | None = Field(default=None, gt=0)
    namespace: str = ""

    _flights: Flights = PrivateAttr(default_factory=Flights)

    def __init__(
        self,
        model: BaseLlm | str,
        store: CacheStore | str | Path | None = None,
        *,
        max_entries: int = 1024,
        ttl: float | None = None,
        namespace: str = "",
    ) -> None:
        if store is None:
            store = MemoryStore(max_entries)
        elif isinstance(store, str | Path):
            store = DirectoryStore(store)
        super().__init__(model, store=store, ttl=ttl, namespace=namespace)

    @property
    def hits(self) -> int:
        """How many answers were given without asking the model."""
        return self._flights.hits

    @property
    def misses(self) -> int:
        """How often the model was asked."""
        return self._flights.misses

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer that is kept, or the model's. Raises what the model raises."""
        key = self._key(llm_request)
        saved, leads = (None, False) if key is None else await self._known(key)
        if saved is not None:
            self._flights.count(hit=True)
            for response in _replayed(saved, stream):
                yield response
            return
        self._flights.count(hit=False)
        asked = self.inner.generate_content_async(llm_request, stream)
        async with aclosing(self._keep(key, asked) if leads and key is not None else asked) as responses:
            async for response in responses:
                yield response

    def _key(self, request: LlmRequest) -> str | None:
        base_url: str | None = getattr(self.inner, "base_url", None)
        name = request.model or self.model
        return request_key(request, name, self.namespace, self.backend, provider_name_of(self.inner), base_url)

    async def _known(self, key: str) -> tuple[LlmResponse | None, bool]:
        """The answer, if it is kept or on its way; otherwise whether the caller is the one to ask and to tell."""
        while True:
            saved = self._read(key)
            if saved is not None:
                return saved, False
            flight, leads = self._flights.join(key)
            if leads:
                saved = self._read(key)  # another thread may have written it just now
                if saved is not None:
                    self._flights.end(key, None)
                return saved, saved is None
            if flight.task is asyncio.current_task():
                return None, False  # it would wait for itself
            text = await flight.landing()
            if text is not None:
                return self._response_of(text), False

    async def _keep(self, key: str, asked: AsyncGenerator[LlmResponse, None]) -> AsyncGenerator[LlmResponse, None]:
        """The model's answer, which is kept, and told to those who wait for it, when it is whole."""
        whole: LlmResponse | None = None
        count = 0
        outcome: str | Exception | None = None
        try:
            async with aclosing(asked):
                while True:
                    try:
                        response = await anext(asked)
                    except StopAsyncIteration:
                        break
                    except Exception as error:
                        outcome = error
                        break
                    if whole is not None:
                        yield whole
                    whole, count = (None, count) if response.partial else (response, count + 1)
                    if response.partial:
                        yield response
            if outcome is None and whole is not None and count == 1:
                outcome = self._written(key, whole)
        finally:
            self._flights.end(key, outcome)
        if whole is not None:
            yield whole
        if isinstance(outcome, Exception):
            raise outcome

    # -- the store ---------------------------------------------------------------------------------

    def _read(self, key: str) -> LlmResponse | None:
        """The answer that is kept, if it is there, can be read and is not too old."""
        try:
            text = self.store.get(key)
            return None if text is None else self._response_of(text)
        except Exception as error:  # the store may be anything; without it, the model is asked
            _log.warning("The answer %s cannot be read from %r: %r. The model is asked.", key[:16], self.store, error)
            return None

    def _response_of(self, text: str) -> LlmResponse | None:
        """An answer as it is given from the cache; None if it is too old, or of another version."""
        entry: dict[str, Any] = json.loads(text)
        if entry["version"] != _VERSION:
            return None
        if self.ttl is not None and clock.now() - entry["saved_at"] > self.ttl:
            return None
        response = LlmResponse.model_validate(entry["response"])
        mark: dict[str, Any] = {"saved_at": entry["saved_at"]}
        if response.usage_metadata is not None:
            mark["usage_metadata"] = entry["response"]["usageMetadata"]
        set_fields(response, usage_metadata=None, custom_metadata={**(response.custom_metadata or {}), METADATA: mark})
        for part in parts_of(response.content):
            if part.function_call is not None:
                set_fields(part.function_call, id=_fresh_id(part.function_call.id))
        return response

    def _written(self, key: str, whole: LlmResponse) -> str | None:
        """An answer as the text that is kept; None if it cannot be one."""
        try:
            entry = {"version": _VERSION, "saved_at": clock.now(), "model": self.model, "response": whole.to_wire()}
            text = json.dumps(entry, separators=(",", ":"))
            if _is_worth_keeping(whole):
                self.store[key] = text
        except Exception as error:  # an answer that cannot be kept is an answer all the same
            _log.warning("The answer %s cannot be kept in %r: %r", key[:16], self.store, error)
            return None
        return text


def _is_worth_keeping(response: LlmResponse) -> bool:
    """Whether an answer is whole, and would do as well another time."""
    if response.error_code or response.error_message or response.interrupted:
        return False
    if response.turn_complete is False and response.finish_reason is None:
        return False  # put together from a stream that did not say that it had come to its end
    return response.finish_reason in _ENDED_WELL and bool(parts_of(response.content))


def _fresh_id(kept: str | None) -> str:
    """Another id for a call: the same answer may come twice in a session, where results are found by these ids.

    Models that give ids are sent them back, those that were minted here are taken off for some: a new id is what the
    old one was.
    """
    if kept is None or kept.startswith(CLIENT_CALL_PREFIX):
        return CLIENT_CALL_PREFIX + new_id()
    return "call_" + new_id().replace("-", "")


def _replayed(response: LlmResponse, stream: bool) -> Iterator[LlmResponse]:
    """An answer as it comes: streamed, a partial response for each part, then the whole."""
    if stream and response.content is not None:
        for part in parts_of(response.content):
            shown = replace(part)
            if part.function_call is not None:
                # callbacks may edit what they are shown, and the whole once more
                shown.function_call = replace(part.function_call)
                shown.function_call.args = dict(part.function_call.args or {})
            content = content_of(response.content.role, [shown])
            yield make(LlmResponse, content=content, partial=True, turn_complete=False)
    yield response
