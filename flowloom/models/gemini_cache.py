"""`ContextCaches`: what Gemini keeps of the beginnings of requests.

A request whose beginning is cached goes out with the cache's name instead: without system instruction, tools and tool
config, and with the rest of the contents. Whatever goes wrong with a cache, the request is sent whole.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from google import genai
from google.genai import types
from pydantic import BaseModel

from flowloom.errors import ModelError
from flowloom.events.clock import monotonic, now
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, replace
from flowloom.models.context_cache import CacheMetadata, ContextCacheConfig, metadata_of
from flowloom.models.gemini_errors import call_error
from flowloom.models.request import LlmRequest

_log = logging.getLogger("flowloom.models")

Json = dict[str, Any]
_BASE = 16  # hexadecimal digits of a fingerprint that stand for all but the contents
_REMEMBERED = 1000
_PAUSE = 60.0
_CHANGES = 3
_LEAST = {"gemini-2.5-": 2048, "gemini-3": 4096}
"""The tokens that a cache must have, by the beginning of the model's name."""


class _Chain(NamedTuple):
    """What is known of the requests before this one."""

    metadata: CacheMetadata
    prompt_tokens: int | None


class _Beginning:
    """What of a request can be cached, and its fingerprints."""

    def __init__(self, model: str, scope: str, config: types.GenerateContentConfig, contents: list[Json]) -> None:
        self.contents = contents
        told = [config.system_instruction, _in_order(fields_of(config)["tools"]), config.tool_config]
        self._fixed = _dumped([model, scope, told])
        self.base = hashlib.sha256(self._fixed).hexdigest()[:_BASE]
        self._hash = hashlib.sha256()
        self._sizes: list[int] = []
        self._digests = [self._hash.hexdigest()[:_BASE]]

    @property
    def most(self) -> int:
        """How many contents can be left out of a request: one has to be sent."""
        return len(self.contents) - 1

    @property
    def stable(self) -> int:
        """How many contents will stand there in the next request: those before the latest of the user, who always
        has the last word.
        """
        count = len(self.contents)
        while count and self.contents[count - 1].get("role") == "user":
            count -= 1
        return count

    def fingerprint(self, count: int) -> str:
        """The fingerprint of all that is fixed, and the first contents."""
        while len(self._digests) <= count:
            piece = _dumped(self.contents[len(self._digests) - 1])
            self._sizes.append(len(piece))
            self._hash.update(len(piece).to_bytes(8, "big") + piece)
            self._digests.append(self._hash.copy().hexdigest()[:_BASE])
        return self.base + self._digests[count]

    def share(self, count: int) -> float:
        """How much of the request is what would be cached."""
        self.fingerprint(len(self.contents))
        return (len(self._fixed) + sum(self._sizes[:count])) / (len(self._fixed) + sum(self._sizes))


@dataclass(eq=False, repr=False)
class CachePlan:
    """How one request is sent, and what its answer says about caches. Must be closed."""

    caches: ContextCaches
    config: types.GenerateContentConfig
    """What to send."""
    whole: types.GenerateContentConfig
    """The same without a cache."""
    metadata: CacheMetadata
    remembers: bool
    """Whether only this plan remembers the metadata for the next request."""
    cleanup: asyncio.Task[None] | None = None

    def after(self, failure: ModelError) -> types.GenerateContentConfig | None:
        """What to send instead, when the failure was the cache's; None for any other."""
        name = self.metadata.cache_name
        if name is None or failure.status not in (400, 403, 404):
            return None
        if failure.status == 400 and "cach" not in str(failure).lower():
            return None
        _log.warning("The context cache `%s` cannot be used, the request is sent without it: %s", name, failure)
        # a new one would fare no better than one that never worked
        self.caches.forget(self.metadata, pause=failure.status == 400 or self.metadata.invocations_used == 1)
        found = self.metadata
        self.metadata = CacheMetadata(fingerprint=found.fingerprint, contents_count=found.contents_count)
        return self.whole

    def answered(self, response: LlmResponse) -> None:
        """Put the metadata on the complete response."""
        response.cache_metadata = self.metadata
        usage = response.usage_metadata
        if self.remembers and usage is not None and not response.error_code:
            self.caches.remember(_Chain(self.metadata, usage.prompt_token_count))

    async def aclose(self) -> None:
        """Wait until caches that are not needed any more are gone."""
        if self.cleanup is not None:
            await self.cleanup


class ContextCaches:
    """The caches of one adapter: those that it has made, and what it knows of earlier requests."""

    def __init__(self) -> None:
        self._made: dict[str, CacheMetadata] = {}  # by fingerprint
        self._making: dict[str, asyncio.Task[CacheMetadata | None]] = {}
        self._lock = threading.Lock()
        self._chains: OrderedDict[str, _Chain] = OrderedDict()
        self._not_before: dict[str, float] = {}  # when to try again after a failure, by what is fixed
        self._changes = 0

    async def plan(
        self,
        client: genai.Client,
        model: str,
        scope: str,
        request: LlmRequest,
        config: types.GenerateContentConfig,
        settings: ContextCacheConfig,
    ) -> CachePlan | None:
        """How to send `config`, whose contents are JSON in the addition to its body.

        None if the caller has named a cache of their own.
        """
        contents = contents_of(config)
        if config.cached_content is not None or not contents:
            return None
        beginning = _Beginning(model, scope, config, contents)
        given = metadata_of(request.cache_metadata)
        if given is not None:
            chain = _Chain(given, request.cacheable_contents_token_count)
        else:
            chain = self._recalled(beginning)
        metadata, stale = await self._metadata(client, model, beginning, chain, config, settings)
        plan = CachePlan(self, config, config, metadata, remembers=given is None)
        if metadata.cache_name is not None:
            plan.config = _without_beginning(config, contents, metadata)
        if stale is not None and stale.contents_count:  # one without contents may serve other conversations
            self._drop(stale)
            plan.cleanup = asyncio.create_task(_delete(client, stale.cache_name))
        return plan

    async def _metadata(
        self,
        client: genai.Client,
        model: str,
        beginning: _Beginning,
        chain: _Chain | None,
        config: types.GenerateContentConfig,
        settings: ContextCacheConfig,
    ) -> tuple[CacheMetadata, CacheMetadata | None]:
        """The cache to use, or what could be one; and the cache that is not used any more."""
        stable = beginning.stable
        fresh = CacheMetadata(fingerprint=beginning.fingerprint(stable), contents_count=stable)
        if chain is None:
            return fresh, None
        known = chain.metadata
        stale = known if known.cache_name is not None else None
        if known.contents_count > beginning.most or beginning.fingerprint(known.contents_count) != known.fingerprint:
            self._note_change(known, beginning, model)
            return fresh, stale
        if stale is not None and not _is_over(known) and (known.invocations_used or 0) <= settings.cache_intervals:
            return known, None
        count = max(known.contents_count, stable)
        wanted = CacheMetadata(fingerprint=beginning.fingerprint(count), contents_count=count)
        made = self._made.get(wanted.fingerprint)
        if made is not None and not _is_over(made) and made.cache_name != known.cache_name:
            return made, stale
        if not self._may_make(model, beginning, count, chain.prompt_tokens, settings):
            return wanted, stale
        made = await self._make_once(client, model, wanted, config, beginning.contents[:count], settings)
        return made or wanted, stale

    def _may_make(
        self, model: str, beginning: _Beginning, count: int, tokens: int | None, settings: ContextCacheConfig
    ) -> bool:
        if tokens is None or tokens < settings.min_tokens:
            return False
        if monotonic() < self._not_before.get(beginning.base, 0):
            return False
        name = model.rsplit("/", 1)[-1]
        least = next((least for start, least in _LEAST.items() if name.startswith(start)), 0)
        return tokens * beginning.share(count) >= least

    def _note_change(self, known: CacheMetadata, beginning: _Beginning, model: str) -> None:
        """Say once that what should stay the same does not."""
        if known.fingerprint[:_BASE] == beginning.base:
            return
        self._changes += 1
        if self._changes == _CHANGES:
            _log.warning(
                "System instruction or tools of requests to `%s` keep changing, so that nothing of them can be cached. "
                "Give the agent what stays the same as `static_instruction`; its `instruction` then comes after the "
                "history.",
                model,
            )

    # -- making and deleting -------------------------------------------------------------------------

    async def _make_once(
        self,
        client: genai.Client,
        model: str,
        wanted: CacheMetadata,
        config: types.GenerateContentConfig,
        contents: list[Json],
        settings: ContextCacheConfig,
    ) -> CacheMetadata | None:
        """Make a cache; runs that want the same one wait for it together. It goes on when a run is cancelled."""
        key = wanted.fingerprint
        with self._lock:
            task = self._making.get(key)
            if task is None:
                making = self._make(client, model, wanted, config, contents, settings)
                task = self._making[key] = asyncio.create_task(making)
                task.add_done_callback(lambda _: self._making.pop(key, None))
        if task.get_loop() is not asyncio.get_running_loop():
            return None
        return await asyncio.shield(task)

    async def _make(
        self,
        client: genai.Client,
        model: str,
        wanted: CacheMetadata,
        config: types.GenerateContentConfig,
        contents: list[Json],
        settings: ContextCacheConfig,
    ) -> CacheMetadata | None:
        given = settings.create_http_options
        options = types.HttpOptions() if given is None else replace(given)
        if contents:
            options.extra_body = {**(options.extra_body or {}), "contents": contents}
        try:
            made = await client.aio.caches.create(
                model=model,
                config=types.CreateCachedContentConfig(
                    ttl=settings.ttl_string,
                    display_name=f"flowloom-{wanted.fingerprint}",
                    system_instruction=cast(Any, config.system_instruction),
                    tools=fields_of(config)["tools"],
                    tool_config=config.tool_config,
                    http_options=options,
                ),
            )
        except Exception as error:
            self._not_before[wanted.fingerprint[:_BASE]] = monotonic() + _PAUSE
            _log.warning("No context cache could be made, requests are sent without: %s", call_error(error, model))
            return None
        created = now()
        metadata = CacheMetadata(
            cache_name=made.name,
            expire_time=made.expire_time.timestamp() if made.expire_time else created + settings.ttl_seconds,
            fingerprint=wanted.fingerprint,
            invocations_used=1,
            contents_count=wanted.contents_count,
            created_at=created,
        )
        self._made[wanted.fingerprint] = metadata
        return metadata

    def forget(self, metadata: CacheMetadata, *, pause: bool) -> None:
        """Never use a cache again; with `pause`, make no other one for a while."""
        self._drop(metadata)
        self._chains.pop(metadata.fingerprint, None)
        if pause:
            self._not_before[metadata.fingerprint[:_BASE]] = monotonic() + _PAUSE

    def _drop(self, metadata: CacheMetadata) -> None:
        made = self._made.get(metadata.fingerprint)
        if made is not None and made.cache_name == metadata.cache_name:
            del self._made[metadata.fingerprint]

    async def aclose(self, client: genai.Client) -> None:
        """Delete the caches that were made here."""
        made, self._made = self._made, {}
        self._chains.clear()
        await asyncio.gather(*(_delete(client, each.cache_name) for each in made.values() if not _is_over(each)))

    # -- requests that come without metadata -----------------------------------------------------------

    def remember(self, chain: _Chain) -> None:
        """Keep what a later request may go on from."""
        self._chains[chain.metadata.fingerprint] = chain
        self._chains.move_to_end(chain.metadata.fingerprint)
        while len(self._chains) > _REMEMBERED:
            self._chains.popitem(last=False)

    def _recalled(self, beginning: _Beginning) -> _Chain | None:
        """The chain that this request goes on with: the one with the most contents of those that it begins with."""
        counts = {
            chain.metadata.contents_count
            for fingerprint, chain in self._chains.items()
            if fingerprint.startswith(beginning.base) and chain.metadata.contents_count <= beginning.most
        }
        for count in sorted(counts, reverse=True):
            chain = self._chains.get(beginning.fingerprint(count))
            if chain is not None:
                used = chain.metadata.invocations_used
                if used is not None:  # each request counts: nothing tells which belong together
                    chain = chain._replace(metadata=chain.metadata.model_copy(update={"invocations_used": used + 1}))
                return chain
        return None


def contents_of(config: types.GenerateContentConfig) -> list[Json]:
    """The contents as JSON, in the addition to the body."""
    options = config.http_options
    return ((options and options.extra_body) or {}).get("contents") or []


def _without_beginning(
    config: types.GenerateContentConfig, contents: list[Json], metadata: CacheMetadata
) -> types.GenerateContentConfig:
    """The config with the cache's name instead of what is in the cache."""
    options = types.HttpOptions() if config.http_options is None else replace(config.http_options)
    rest = type(contents)(contents[metadata.contents_count :])
    options.extra_body = {**(options.extra_body or {}), "contents": rest}
    return replace(
        config,
        system_instruction=None,
        tools=None,
        tool_config=None,
        cached_content=metadata.cache_name,
        http_options=options,
    )


async def _delete(client: genai.Client, name: str | None) -> None:
    if name is None:
        return
    try:
        await client.aio.caches.delete(name=name)
    except Exception as error:
        _log.info("The context cache `%s` could not be deleted, and lives until it expires: %s", name, error)


def _is_over(metadata: CacheMetadata) -> bool:
    return metadata.expire_time is None or now() >= metadata.expire_time


def _in_order(tools: Any) -> list[Any]:
    """Tools and their functions by name: their order does not matter to a model."""
    return sorted((_plain(tool) for tool in tools or ()), key=_dumped)


def _plain(value: Any) -> Any:
    if not isinstance(value, BaseModel):
        return value
    data = value.model_dump(mode="json", exclude_none=True, fallback=repr)
    functions: list[Json] | None = data.get("function_declarations")
    if functions:
        functions.sort(key=lambda each: str(each.get("name")))
    return data


def _default(value: Any) -> Any:
    return _plain(value) if isinstance(value, BaseModel) else repr(value)


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=_default).encode


def _dumped(value: Any) -> bytes:
    return _encode(value).encode(errors="replace")
