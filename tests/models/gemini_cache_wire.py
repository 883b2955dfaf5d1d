"""Gemini with its `cachedContents`: makes and deletes caches, and refuses what Google refuses beside one."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any

from google.genai import types
from models.answer_server import Json
from models.gemini_wire import GeminiServer, contents_problem
from models.wire_server import Reply, Seen

from flowloom import LlmResponse
from flowloom.events.clock import now


@dataclass
class Cache:
    """A cache as the server keeps it."""

    model: str
    told: Json
    """Contents, system instruction, tools and tool config."""
    expires: float
    tokens: int


class CachingServer(GeminiServer):
    """Answers `ok` to everything, and counts a token for four characters of the body."""

    def __init__(self, *, create: list[Reply] | None = None) -> None:
        super().__init__(self._ok)
        self.caches: dict[str, Cache] = {}
        self.deleted: list[str] = []
        self.prompts: list[Json] = []
        """What the model read for each answer: the cache and the request together."""
        self.forgetful = False
        """Whether a cache is gone as soon as it was made."""
        self._create = create or []
        """Answers to the first calls that make caches, instead of caches."""
        self._number = 0

    @property
    def created(self) -> list[Seen]:
        """The calls that asked for a cache."""
        return [seen for seen in self.requests if _is_creation(seen)]

    @property
    def asked(self) -> list[Json]:
        """The bodies of the calls that asked the model."""
        return [seen.json for seen in self.requests if "enerateContent" in seen.path]

    def refused(self, seen: Seen) -> Reply | None:
        """Calls that are about caches are answered here as well."""
        if _is_creation(seen):
            return self._create.pop(0) if self._create else self._created(seen)
        if seen.method == "DELETE":
            name = seen.path.split("/", 2)[2]
            self.deleted.append(name)
            return Reply([b"{}"]) if self.caches.pop(name, None) else self.error(404, "Not found.")
        body: Json = seen.json
        problem = self._problem(body, seen)
        if problem is not None:
            return problem
        found = self.caches.get(body.get("cachedContent", ""))
        told = {**body, **(found.told if found else {})}
        told["contents"] = [*(found.told.get("contents") or [] if found else []), *body["contents"]]
        wrong = contents_problem(told["contents"])
        if wrong is None:
            self.prompts.append(told)
        return None if wrong is None else self.error(400, wrong)

    def _problem(self, body: Json, seen: Seen) -> Reply | None:
        name = body.get("cachedContent")
        if name is None:
            return None
        found = self.caches.get(name)
        if not body.get("contents"):
            return self.error(400, "* GenerateContentRequest.contents: contents is not specified")
        if found is None:
            return self.error(403, "CachedContent not found (or permission denied)")
        if now() >= found.expires:
            return self.error(400, f"Cache content {name} is expired.")
        if {"systemInstruction", "tools", "toolConfig"} & body.keys():
            return self.error(
                400,
                "CachedContent can not be used with GenerateContent request setting system_instruction, tools or "
                "tool_config.",
            )
        if found.model.rsplit("/", 1)[-1] != seen.path.rsplit("/", 1)[-1].split(":")[0]:
            return self.error(400, "Model used by GenerateContent request and CachedContent has to be the same.")
        return None

    def _created(self, seen: Seen) -> Reply:
        body: Json = seen.json
        told = {name: body[name] for name in ("contents", "systemInstruction", "tools", "toolConfig") if name in body}
        tokens = size_of(told)
        if not told:
            return self.error(400, "CachedContent: contents, system_instruction or tools are required")
        self._number += 1
        place = seen.path.split("/", 2)[2]
        name = f"{place}/{self._number}"
        expires = now() + float(body["ttl"].removesuffix("s"))
        if not self.forgetful:
            self.caches[name] = Cache(body["model"], told, expires, tokens)
        made = {
            "name": name,
            "model": body["model"],
            "expireTime": datetime.datetime.fromtimestamp(expires, datetime.UTC).isoformat().replace("+00:00", "Z"),
            "usageMetadata": {"totalTokenCount": tokens},
        }
        return Reply([json.dumps(made).encode()])

    def _ok(self, seen: Seen) -> LlmResponse:
        body: Json = seen.json
        cached = self.caches.get(body.get("cachedContent", ""))
        before = cached.tokens if cached else 0
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=size_of(body) + before,
            cached_content_token_count=before or None,
            candidates_token_count=1,
            total_token_count=size_of(body) + before + 1,
        )
        content = types.Content(role="model", parts=[types.Part(text="ok")])
        return LlmResponse(content=content, usage_metadata=usage, finish_reason=types.FinishReason.STOP)


def size_of(told: Any) -> int:
    return len(json.dumps(told)) // 4


def _is_creation(seen: Seen) -> bool:
    return seen.method == "POST" and seen.path.endswith("/cachedContents")
