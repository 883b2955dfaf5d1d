"""Context caching of the Gemini adapter, against a server that keeps caches as Google does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from gemini_cache_kit import LONG, answer, ask, gemini, metadata, talk
from google.genai import types
from google.oauth2.credentials import Credentials
from kit import Chat, agent, context, event, named_call, result, said, user
from models.gemini_cache_wire import CachingServer

from flowloom import (
    BaseAgent,
    ConfigurationError,
    ContextCacheConfig,
    Event,
    Flow,
    Gemini,
    LlmAgent,
    LlmRequest,
    LlmResponse,
)
from flowloom.models.context_cache import CacheMetadata
from flowloom.processors.context_cache import ContextCaching
from flowloom.testing import FrozenClock, frozen


@pytest.fixture
def server() -> Iterator[CachingServer]:
    with CachingServer() as running:
        yield running


@pytest.fixture
def clock() -> Iterator[FrozenClock]:
    with frozen() as standing:
        yield standing


# -- with and without a cache ----------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_the_second_request_makes_a_cache_and_the_third_sends_the_rest(
    server: CachingServer, stream: bool
) -> None:
    model = gemini(server)
    responses = [await answer(model, ask(talk(turns)), stream=stream) for turns in (1, 2, 3)]
    assert len(server.created) == 1
    made = server.created[0].json
    assert [each["parts"][0]["text"] for each in made["contents"]] == ["m0", "ok"]
    assert made["systemInstruction"]["parts"][0]["text"] == LONG
    assert made["tools"][0]["functionDeclarations"][0]["name"] == "look"
    assert made["ttl"] == "1800s"
    first, second, third = server.asked
    assert "cachedContent" not in first
    assert second == {**second, "cachedContent": "cachedContents/1", "contents": [_json(user("m1"))]}
    assert [each["parts"][0]["text"] for each in third["contents"]] == ["m1", "ok", "m2"]
    assert not {"systemInstruction", "tools", "toolConfig"} & {*second, *third}
    assert [each.usage_metadata and bool(each.usage_metadata.cached_content_token_count) for each in responses] == [
        False,
        True,
        True,
    ]
    await model.aclose()


async def test_the_model_reads_the_same_with_and_without_caches(server: CachingServer) -> None:
    contents = [*talk(3), said(named_call("c1", "look")), user(result("c1", "look", {"n": 1})), said("so"), user("x")]
    ends = [1, 3, 5, 7, 9]
    cached, plain = gemini(server), gemini(server)
    plain.context_cache_config = None
    for model in (cached, plain):
        for end in ends:
            await answer(model, ask(contents[:end]))
        await model.aclose()
    told = [{name: each[name] for name in ("contents", "systemInstruction", "tools")} for each in server.prompts]
    assert told[:5] == told[5:]
    assert len(server.created) == 1


async def test_metadata_tell_of_the_cache(server: CachingServer, clock: FrozenClock) -> None:
    model = gemini(server, ContextCacheConfig(ttl_seconds=60))
    before, made, used = [metadata(await answer(model, ask(talk(turns)))) for turns in (1, 2, 3)]
    assert (before.cache_name, before.contents_count, before.invocations_used) == (None, 0, None)
    assert (made.cache_name, made.contents_count, made.invocations_used) == ("cachedContents/1", 2, 1)
    assert (made.created_at, made.expire_time) == (clock.now(), clock.now() + 60)
    assert used == made.model_copy(update={"invocations_used": 2})
    assert made.expire_soon
    await model.aclose()


async def test_only_the_complete_response_has_metadata(server: CachingServer) -> None:
    model = gemini(server)
    responses = [each async for each in model.generate_content_async(ask(talk(1)), True)]
    assert [each.cache_metadata is None for each in responses] == [True] * (len(responses) - 1) + [False]
    await model.aclose()


async def test_the_latest_messages_are_never_cached(server: CachingServer) -> None:
    """Instructions that change stand among them."""
    model = gemini(server)
    await answer(model, ask([user("m0")]))
    await answer(model, ask([user("m0"), said("ok"), user("It is Monday."), user("m1")]))
    await answer(model, ask([user("m0"), said("ok"), user("m1"), said("ok"), user("It is Tuesday."), user("m2")]))
    assert len(server.created) == 1
    assert len(server.created[0].json["contents"]) == 2
    assert len(server.asked[-1]["contents"]) == 4
    await model.aclose()


async def test_contents_that_end_on_the_models_words_leave_one_to_send(server: CachingServer) -> None:
    model = gemini(server)
    for _ in range(3):
        await answer(model, ask([user("m0"), said("ok")]))
    assert [each["parts"][0]["text"] for each in server.asked[-1]["contents"]][-1].startswith("Please continue")
    assert "cachedContent" in server.asked[-1]
    await model.aclose()


async def test_nothing_is_cached_if_nobody_asks_for_it(server: CachingServer) -> None:
    model = gemini(server)
    model.context_cache_config = None
    for turns in (1, 2, 3):
        assert (await answer(model, ask(talk(turns)))).cache_metadata is None
    assert server.created == []
    await model.aclose()


async def test_a_cache_of_the_callers_own_is_left_alone(server: CachingServer) -> None:
    model = gemini(server)
    for turns in (1, 2):
        await answer(model, ask(talk(turns)))
    request = LlmRequest(
        contents=talk(3), config=types.GenerateContentConfig(cached_content="cachedContents/1"), cache_config=None
    )
    response = await answer(model, request)
    assert response.cache_metadata is None
    assert len(server.asked[-1]["contents"]) == 5
    await model.aclose()


async def test_vertex_ai_keeps_caches_in_the_project(server: CachingServer) -> None:
    signed_in = Credentials("token")
    model = gemini(server, vertexai=True, api_key=None, credentials=signed_in, project="p", location="l")
    responses = [await answer(model, ask(talk(turns))) for turns in (1, 2, 3)]
    name = "projects/p/locations/l/cachedContents/1"
    assert metadata(responses[-1]).cache_name == server.asked[-1]["cachedContent"] == name
    assert server.created[0].json["model"].endswith("publishers/google/models/gemini-2.5-flash")
    await model.aclose()
    assert server.deleted == [name]


# -- when a cache is made, and when it ends --------------------------------------------------------


async def test_a_cache_that_was_used_often_gives_way_to_a_longer_one(server: CachingServer) -> None:
    model = gemini(server, ContextCacheConfig(cache_intervals=2))
    counts = [metadata(await answer(model, ask(talk(turns)))).contents_count for turns in range(1, 7)]
    assert counts == [0, 2, 2, 6, 6, 10]
    assert server.deleted == ["cachedContents/1", "cachedContents/2"]
    await model.aclose()


async def test_a_cache_that_has_expired_gives_way_to_a_longer_one(server: CachingServer, clock: FrozenClock) -> None:
    model = gemini(server, ContextCacheConfig(ttl_seconds=60))
    for turns in (1, 2, 3):
        await answer(model, ask(talk(turns)))
    clock.advance(60)
    assert metadata(await answer(model, ask(talk(4)))).contents_count == 6
    await model.aclose()


@pytest.mark.parametrize("change", ["contents", "system", "shorter"])
async def test_a_cache_is_dropped_when_the_beginning_is_another_one(server: CachingServer, change: str) -> None:
    """A flow puts metadata on the request; by itself the adapter takes it for another conversation."""
    model = gemini(server)
    first = await answer(model, ask(talk(1)))
    known = {"cache_metadata": first.cache_metadata, "cacheable_contents_token_count": 5000}
    made = await answer(model, ask(talk(2), **known))
    requests = {
        "contents": ask(talk(3, "other"), cache_metadata=made.cache_metadata),
        "system": ask(talk(3), system=LONG + "!", cache_metadata=made.cache_metadata),
        "shorter": ask(talk(1), cache_metadata=made.cache_metadata),
    }
    assert metadata(await answer(model, requests[change])).cache_name is None
    assert "cachedContent" not in server.asked[-1]
    assert server.deleted == ["cachedContents/1"]
    await model.aclose()


@pytest.mark.parametrize(
    ("name", "tokens"), [("gemini-2.5-flash", 2048), ("gemini-3-pro", 4096), ("gemini-exp-1", 500)]
)
async def test_too_little_for_the_model_is_not_cached(name: str, tokens: int) -> None:
    with CachingServer() as server:
        for size in (tokens - 400, tokens + 400):
            model = gemini(server, model=name)
            for turns in (1, 2):
                await answer(model, ask(talk(turns), system="a" * (4 * size)))
            await model.aclose()
        assert len(server.created) == (2 if tokens == 500 else 1)


async def test_the_beginning_must_be_long_enough_by_itself(server: CachingServer) -> None:
    """A long message at the end does not help."""
    model = gemini(server)
    await answer(model, ask(talk(1), system="Be kind."))
    await answer(model, ask([user("m0"), said("ok"), user(LONG)], system="Be kind."))
    await answer(model, ask([user("m0"), said("ok"), user(LONG)], system="Be kind."))
    assert server.created == []
    await answer(model, ask([user("m0"), said("ok"), user(LONG), said("ok"), user("m2")], system="Be kind."))
    assert len(server.created) == 1
    await model.aclose()


async def test_little_is_not_cached_if_the_config_says_so(server: CachingServer) -> None:
    model = gemini(server, ContextCacheConfig(min_tokens=10_000))
    for turns in (1, 2, 3):
        await answer(model, ask(talk(turns)))
    assert server.created == []
    await model.aclose()


async def test_settings_of_a_request_go_before_those_of_the_adapter(server: CachingServer) -> None:
    model = gemini(server)
    for turns in (1, 2):
        await answer(model, ask(talk(turns), cache_config=ContextCacheConfig(ttl_seconds=7)))
    assert server.created[0].json["ttl"] == "7s"
    await model.aclose()


async def test_a_cache_is_made_with_the_http_options_for_it(server: CachingServer) -> None:
    options = types.HttpOptions(headers={"x-mark": "1"})
    model = gemini(server, ContextCacheConfig(create_http_options=options))
    for turns in (1, 2):
        await answer(model, ask(talk(turns)))
    assert server.created[0].header("x-mark") == ["1"]
    assert not any(seen.header("x-mark") for seen in server.requests if seen not in server.created)
    assert options.extra_body is None
    await model.aclose()


# -- many at once ----------------------------------------------------------------------------------


async def test_runs_that_want_the_same_cache_make_it_once(server: CachingServer) -> None:
    model = gemini(server)
    await answer(model, ask(talk(1)))
    responses = await asyncio.gather(*(answer(model, ask(talk(2))) for _ in range(8)))
    assert len(server.created) == 1
    assert {metadata(each).cache_name for each in responses} == {"cachedContents/1"}
    await model.aclose()


async def test_a_conversation_that_begins_the_same_uses_the_cache_that_is_there(server: CachingServer) -> None:
    """As branches and forks of one session do."""
    model = gemini(server)
    first = await answer(model, ask(talk(1)))
    known = {"cache_metadata": first.cache_metadata, "cacheable_contents_token_count": 5000}
    made, found = [metadata(await answer(model, ask(talk(2), **known))) for _ in range(2)]
    assert made == found
    assert len(server.created) == 1
    await model.aclose()


async def test_a_cancelled_run_does_not_take_the_cache_from_others(server: CachingServer) -> None:
    model = gemini(server)
    await answer(model, ask(talk(1)))
    first, second = (asyncio.create_task(answer(model, ask(talk(2)))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert metadata(await second).cache_name == "cachedContents/1"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert len(server.created) == 1
    await model.aclose()


async def test_conversations_of_one_agent_do_not_get_each_others_contents(server: CachingServer) -> None:
    model = gemini(server)
    for turns in (1, 2, 3):
        for name in ("ann", "bob"):
            await answer(model, ask(talk(turns, name)))
    assert [each["contents"][0]["parts"][0]["text"] for each in server.prompts] == ["ann", "bob"] * 3
    await model.aclose()


async def test_caches_are_deleted_when_the_adapter_is_closed(server: CachingServer) -> None:
    model = gemini(server)
    for turns in (1, 2):
        await answer(model, ask(talk(turns)))
    await model.aclose()
    assert server.deleted == ["cachedContents/1"]
    assert server.caches == {}
    await model.aclose()
    assert len(server.deleted) == 1


# -- in a flow -------------------------------------------------------------------------------------


def caching_agent(server: CachingServer, config: ContextCacheConfig, **fields: Any) -> LlmAgent:
    model = gemini(server)
    model.context_cache_config = None
    flow = Flow().with_processor(ContextCaching(config), after="contents")
    return LlmAgent(name="root", model=model, flow=flow, **fields)


async def test_a_conversation_goes_on_with_the_cache_of_its_events(server: CachingServer) -> None:
    """Each adapter here knows nothing of the requests before, as in another process."""
    chat = Chat(caching_agent(server, ContextCacheConfig(cache_intervals=2), static_instruction=LONG))
    for number in range(5):
        events = await chat.say(f"m{number}")
        root = chat.runner.agent
        assert isinstance(root, LlmAgent)
        root.model = gemini(server)
        root.model.context_cache_config = None
        assert isinstance(events[-1].cache_metadata, CacheMetadata)
    used = [each.cache_metadata for each in await chat.stored() if each.author == "root"]
    assert [each.invocations_used for each in used] == [None, 1, 2, 1, 2]
    assert [each.contents_count for each in used] == [0, 2, 2, 6, 6]
    assert [len(each["contents"]) for each in server.asked] == [1, 1, 3, 1, 3]
    await root.model.aclose()


async def test_changing_instructions_do_not_disturb_the_cache_beside_a_static_one(server: CachingServer) -> None:
    root = caching_agent(server, ContextCacheConfig(), static_instruction=LONG, instruction="Mood: {mood}.")
    chat = Chat(root)
    for mood in ("good", "bad", "mixed"):
        await chat.say("m", state_delta={"mood": mood})
    assert len(server.created) == 1
    assert [each["contents"][-2]["parts"][0]["text"] for each in server.asked] == [
        "Mood: good.",
        "Mood: bad.",
        "Mood: mixed.",
    ]
    assert "cachedContent" in server.asked[-1]
    assert isinstance(root.model, Gemini)
    await root.model.aclose()


async def test_each_agent_goes_on_with_its_own_cache() -> None:
    def made(name: str) -> CacheMetadata:
        return CacheMetadata(
            cache_name=name, expire_time=2.0, fingerprint="ab", invocations_used=1, contents_count=3, created_at=1.0
        )

    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=7)
    log = [
        event("root", "ok", cache_metadata=made("root's"), usage_metadata=usage),
        event("root", "ok", cache_metadata=made("another branch's"), branch="a.b"),
        event("helper", "ok", cache_metadata=made("helper's")),
        event("user", "m1"),
    ]
    config = ContextCacheConfig()
    flow = Flow().with_processor(ContextCaching(config), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow), *log))).request
    assert request.cache_config == config
    assert request.cache_metadata == made("root's").model_copy(update={"invocations_used": 2})
    assert request.cacheable_contents_token_count == 7


@pytest.mark.parametrize("apart", [False, True], ids=["of one answer", "of two answers"])
def test_the_latest_cache_and_the_latest_count_are_gone_on_with(apart: bool) -> None:
    """Whichever answers they stand on; a cache that was used in this run is not counted once more."""

    def said(name: str, tokens: int, **fields: Any) -> list[Event]:
        made = CacheMetadata(
            cache_name=name, expire_time=2.0, fingerprint="ab", invocations_used=1, contents_count=3, created_at=1.0
        )
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens)
        if not apart:
            return [event("root", "ok", cache_metadata=made, usage_metadata=usage, **fields)]
        parts = [
            event("root", "ok", cache_metadata=made, **fields),
            event("root", "ok", usage_metadata=usage, **fields),
        ]
        return parts if tokens == 7 else parts[::-1]

    for latest in (7, 8):
        ctx = context(agent("root"), *said("old", 5), *said("new", latest), event("user", "m1"))
        request = LlmRequest()
        ContextCaching()(ctx, request)
        assert isinstance(request.cache_metadata, CacheMetadata)
        assert (request.cache_metadata.cache_name, request.cache_metadata.invocations_used) == ("new", 2)
        assert request.cacheable_contents_token_count == latest
    ctx = context(agent("root"))
    ctx.session.events.extend(said("new", 7, invocation_id=ctx.invocation_id))
    ContextCaching()(ctx, request)
    assert isinstance(request.cache_metadata, CacheMetadata)
    assert request.cache_metadata.invocations_used == 1


def test_older_caches_and_counts_are_passed_over() -> None:
    """However the answers that have one and those that have the other follow each other."""

    def made(name: str) -> CacheMetadata:
        return CacheMetadata(cache_name=name, expire_time=2.0, fingerprint="ab", invocations_used=1, contents_count=3)

    usage = types.GenerateContentResponseUsageMetadata
    caches = [event("root", "ok", cache_metadata=made(name)) for name in ("old", "new")]
    counts = [event("root", "ok", usage_metadata=usage(prompt_token_count=tokens)) for tokens in (5, 7)]
    for log in ([*caches, *counts], [*counts, *caches]):
        request = LlmRequest()
        ContextCaching()(context(agent("root"), *log), request)
        assert isinstance(request.cache_metadata, CacheMetadata)
        assert (request.cache_metadata.cache_name, request.cacheable_contents_token_count) == ("new", 7)


def test_caching_has_a_config_of_its_own_and_is_for_agents_with_a_model() -> None:
    for who, expected in ((agent("root"), ContextCacheConfig()), (BaseAgent(name="plain"), None)):
        request = LlmRequest()
        ContextCaching()(context(who), request)
        assert request.cache_config == expected


def test_metadata_survive_being_stored() -> None:
    made = CacheMetadata(
        cache_name="cachedContents/1",
        expire_time=2.0,
        fingerprint="ab",
        invocations_used=1,
        contents_count=3,
        created_at=1.0,
    )
    stored = LlmResponse(cache_metadata=made).to_wire()
    assert stored == {"cacheMetadata": made.model_dump()}
    read = LlmResponse.model_validate(stored)
    assert CacheMetadata.model_validate(read.cache_metadata) == made


@pytest.mark.parametrize("fields", [{"ttl_seconds": 0}, {"cache_intervals": 0}, {"cache_intervals": 101}, {"tll": 1}])
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ContextCacheConfig(**fields)


def _json(content: types.Content) -> dict[str, Any]:
    return {"role": content.role, "parts": [{"text": part.text} for part in content.parts or ()]}
