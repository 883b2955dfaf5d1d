"""Context caching of the Gemini adapter when something goes wrong with a cache: requests go on without."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from gemini_cache_kit import LONG, answer, ask, gemini, metadata, talk
from kit import named_call, result, said, user
from models.gemini_cache_wire import CachingServer
from models.gemini_wire import refusal, streamed, whole
from models.gemini_wire import text as part
from models.wire_server import Reply, WireServer

from flowloom.errors import ModelRequestError
from flowloom.testing import FrozenClock, frozen


@pytest.fixture
def server() -> Iterator[CachingServer]:
    with CachingServer() as running:
        yield running


@pytest.fixture
def clock() -> Iterator[FrozenClock]:
    with frozen() as standing:
        yield standing


@pytest.mark.parametrize("loss", ["deleted", "expired", "another model's"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cache_that_is_lost_is_done_without_and_logged_once(
    server: CachingServer, caplog: pytest.LogCaptureFixture, loss: str, stream: bool
) -> None:
    model = gemini(server)
    for turns in (1, 2):
        await answer(model, ask(talk(turns)))
    if loss == "deleted":
        server.caches.clear()
    elif loss == "expired":
        server.caches["cachedContents/1"].expires = 0
    else:
        server.caches["cachedContents/1"].model = "models/other"
    with caplog.at_level(logging.WARNING, "flowloom.models"):
        response = await answer(model, ask(talk(3)), stream=stream)
    assert response.text == "ok"
    assert metadata(response).cache_name is None
    assert server.asked[-1]["systemInstruction"]["parts"][0]["text"] == LONG
    assert len(server.asked[-1]["contents"]) == 5
    assert len(caplog.records) == 1
    assert "cachedContents/1" in caplog.text
    await model.aclose()


async def test_a_cache_that_never_worked_is_not_made_again_at_once(server: CachingServer, clock: FrozenClock) -> None:
    model = gemini(server)
    await answer(model, ask(talk(1)))
    server.forgetful = True
    for turns in (2, 3, 4):
        assert metadata(await answer(model, ask(talk(turns)))).cache_name is None
    assert len(server.created) == 1
    clock.advance(60)
    server.forgetful = False
    assert metadata(await answer(model, ask(talk(5)))).cache_name == "cachedContents/2"
    await model.aclose()


@pytest.mark.parametrize(
    "failure", [refusal(500, "INTERNAL"), refusal(400, "INVALID_ARGUMENT"), Reply(ending="reset"), Reply([b"{"])]
)
async def test_a_cache_that_cannot_be_made_is_done_without_and_tried_again_later(
    failure: Reply, caplog: pytest.LogCaptureFixture, clock: FrozenClock
) -> None:
    with CachingServer(create=[failure]) as server:
        model = gemini(server)
        with caplog.at_level(logging.WARNING, "flowloom.models"):
            for turns in (1, 2, 3):
                assert metadata(await answer(model, ask(talk(turns)))).cache_name is None
        assert len(server.created) == 1
        assert len(caplog.records) == 1
        clock.advance(60)
        assert metadata(await answer(model, ask(talk(4)))).cache_name == "cachedContents/1"
        await model.aclose()


async def test_a_refusal_that_is_not_the_caches_is_raised(server: CachingServer) -> None:
    """The request is not made again for it, and the cache is used on."""
    model = gemini(server)
    for turns in (1, 2):
        await answer(model, ask(talk(turns)))
    bad = [*talk(2), said(named_call("c1", "look")), user(result("c1", "look", {}), result("c2", "look", {}))]
    count = len(server.asked)
    with pytest.raises(Exception, match="function response parts"):
        await answer(model, ask(bad))
    assert len(server.asked) == count + 1
    assert metadata(await answer(model, ask(talk(3)))).cache_name == "cachedContents/1"
    await model.aclose()


async def test_an_answer_that_was_begun_is_not_begun_anew_without_the_cache() -> None:
    """A long answer is continued by a second call, and the cache may be gone by then."""
    made = {"name": "cachedContents/1", "expireTime": "2999-01-01T00:00:00Z"}
    usage = {"promptTokenCount": 5000}
    content = {"role": "model", "parts": [part("Once")]}
    begun = {"index": 0, "content": content, "finishReason": "CONTINUATION", "continuationToken": "eA=="}
    with WireServer(
        whole(part("ok"), usageMetadata=usage),
        Reply([json.dumps(made).encode()]),
        streamed({"candidates": [begun]}),
        refusal(403, "PERMISSION_DENIED", "CachedContent not found"),
        whole(part("again")),
    ) as server:
        model = gemini(server)
        await answer(model, ask(talk(1)))
        with pytest.raises(ModelRequestError, match="CachedContent not found"):
            await answer(model, ask(talk(2)), stream=True)
        assert len(server.requests) == 4
        await model.aclose()


@pytest.mark.parametrize("given", ["nothing", {"cache_name": "x"}, 7], ids=str)
async def test_metadata_that_cannot_be_read_is_no_obstacle(server: CachingServer, given: Any) -> None:
    model = gemini(server)
    assert metadata(await answer(model, ask(talk(1), cache_metadata=given))).cache_name is None
    await model.aclose()


async def test_a_system_instruction_that_keeps_changing_is_told_about_once(
    server: CachingServer, caplog: pytest.LogCaptureFixture
) -> None:
    model, known = gemini(server), None
    with caplog.at_level(logging.WARNING, "flowloom.models"):
        for turns in range(1, 8):
            response = await answer(model, ask(talk(turns), system=f"{LONG} {turns}", cache_metadata=known))
            known = response.cache_metadata
    assert len(caplog.records) == 1
    assert "`static_instruction`" in caplog.text
    await model.aclose()
