"""How the Anthropic adapter asks each generation of models to think, and how it samples them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types
from kit import said as model
from kit import user
from models.wire_server import WireServer
from providers.sdk_kit import ask, call, result, sent, whole

from flowloom import AnthropicModel
from flowloom.errors import UnsupportedFeatureError
from flowloom.models.signatures import ANTHROPIC, signed
from flowloom.providers.anthropic_models import abilities_of

ANSWER = whole({"type": "message", "model": "m", "content": [], "stop_reason": "end_turn"})
OLD, MIDDLE, NEW = "claude-haiku-4-5", "claude-sonnet-4-6", "claude-opus-4-8"
TOOLS = [types.Tool(function_declarations=[types.FunctionDeclaration(name="f")])]
FORCED = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY))


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as running:
        yield running


async def body(server: WireServer, *contents: types.Content, of: str, **config: Any) -> Any:
    """The body for a request, without marks for the cache."""
    server.replies.append(ANSWER)
    return await sent(AnthropicModel(model=of, base_url=server.url, cache=None), server, ask(*contents, **config))


ADAPTIVE = {"type": "adaptive"}
THINKING: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (OLD, {"thinking_budget": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 18384}),
    (OLD, {"thinking_budget": 10}, {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 17408}),
    (OLD, {"thinking_budget": -1}, {"thinking": {"type": "enabled", "budget_tokens": 8192}, "max_tokens": 24576}),
    (OLD, {"thinking_level": "LOW"}, {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 18432}),
    (OLD, {"include_thoughts": False}, {}),
    (OLD, {"thinking_budget": 0}, {"thinking": {"type": "disabled"}}),
    (
        OLD,
        {"thinking_budget": 2000, "include_thoughts": False},
        {"thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}, "max_tokens": 18384},
    ),
    (MIDDLE, {"thinking_budget": 2000}, {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 18384}),
    (MIDDLE, {"thinking_level": "XHIGH"}, {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}),
    (NEW, {"thinking_budget": 2000}, {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
    (NEW, {"thinking_level": "XHIGH"}, {"thinking": ADAPTIVE, "output_config": {"effort": "xhigh"}}),
    (NEW, {"thinking_level": "MINIMAL"}, {"thinking": ADAPTIVE, "output_config": {"effort": "low"}}),
    (NEW, {"include_thoughts": True}, {"thinking": {"type": "adaptive", "display": "summarized"}}),
    (NEW, {"thinking_budget": 0}, {}),
    ("claude-opus-5", {"thinking_budget": 0}, {"thinking": {"type": "disabled"}}),
    ("claude-sonnet-5-5", {"thinking_budget": 0}, {"thinking": {"type": "between_tools"}}),
    ("claude-opus-5-5", {"thinking_budget": 0}, {"output_config": {"effort": "low"}}),
    ("claude-mythos-preview", {"thinking_budget": 9999}, {"thinking": ADAPTIVE, "output_config": {"effort": "medium"}}),
]


@pytest.mark.parametrize(("name", "config", "expected"), THINKING)
async def test_thinking_is_asked_for_as_each_model_takes_it(
    server: WireServer, name: str, config: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = await body(server, of=name, thinking_config=types.ThinkingConfig(**config))
    assert {key: found[key] for key in found.keys() - {"model", "messages"}} == {"max_tokens": 16384, **expected}


async def test_a_budget_that_leaves_nothing_for_an_answer_is_refused(server: WireServer) -> None:
    with pytest.raises(UnsupportedFeatureError, match="not below"):
        await body(server, of=OLD, max_output_tokens=2000, thinking_config=types.ThinkingConfig(thinking_budget=2000))


async def test_a_level_is_made_to_fit(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    level = types.ThinkingConfig(thinking_level=types.ThinkingLevel.HIGH)
    found = await body(server, of=OLD, max_output_tokens=4000, thinking_config=level)
    assert found["thinking"]["budget_tokens"] == 2000
    assert "thinking" not in await body(server, of=OLD, max_output_tokens=1000, thinking_config=level)
    assert "thinking_config" in caplog.text


async def test_a_forced_call_is_made_without_a_thought(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    config = {"tools": TOOLS, "tool_config": FORCED, "thinking_config": types.ThinkingConfig(thinking_budget=2000)}
    assert "thinking" not in await body(server, of=OLD, **config)
    assert "thinking_config" in caplog.text
    assert (await body(server, of="claude-opus-5", **config))["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("thought_first", [True, False])
async def test_amid_calls_a_model_with_a_budget_goes_on_as_it_began(server: WireServer, thought_first: bool) -> None:
    """The API refuses thinking behind the results of calls that were made without."""
    before = [types.Part(text="hm", thought=True, thought_signature=signed(ANTHROPIC, "s"))] if thought_first else []
    contents = [
        user("go"),
        model(*before, call("f", "c1")),
        user(result("f", "c1")),
        model(call("f", "c2")),
        user(result("f", "c2")),
    ]
    found = await body(
        server, *contents, of=OLD, tools=TOOLS, thinking_config=types.ThinkingConfig(thinking_budget=2000)
    )
    assert ("thinking" in found) is thought_first


SAMPLING: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("m", {"temperature": 0.0, "top_p": 0.5, "top_k": 2.0}, {"temperature": 0, "top_p": 0.5, "top_k": 2}),
    (OLD, {"temperature": 0.0, "top_p": 0.5, "top_k": 2.0}, {"temperature": 0, "top_k": 2}),
    (OLD, {"top_p": 0.5}, {"top_p": 0.5}),
    (OLD, {"top_p": 0.5, "temperature": 1.0}, {"top_p": 0.5}),
    (NEW, {"temperature": 0.0, "top_p": 0.5, "top_k": 2.0}, {}),
]


@pytest.mark.parametrize(("name", "config", "expected"), SAMPLING)
async def test_sampling_is_sent_as_far_as_the_model_takes_it(
    server: WireServer, name: str, config: dict[str, Any], expected: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    found = await body(server, of=name, **config)
    assert {key: found[key] for key in ("temperature", "top_p", "top_k") if key in found} == expected
    left_out = {key for key in config if key not in expected and (key, config[key]) != ("temperature", 1)}
    assert len(caplog.records) == len(left_out)


async def test_a_model_that_thinks_is_sampled_its_own_way(server: WireServer) -> None:
    budget = types.ThinkingConfig(thinking_budget=2000)
    refused = await body(server, of=OLD, thinking_config=budget, temperature=0.0, top_p=0.5, top_k=2.0)
    assert not {"temperature", "top_p", "top_k"} & refused.keys()
    assert (await body(server, of=OLD, thinking_config=budget, top_p=0.95))["top_p"] == 0.95
    assert "temperature" not in await body(server, of=NEW, temperature=1.0)


@pytest.mark.parametrize(
    ("name", "adaptive", "sampling", "off"),
    [
        ("claude-3-7-sonnet-20250219", False, True, "disabled"),
        ("claude-opus-4-20250514", False, True, "disabled"),
        ("claude-haiku-4-5-20251001", False, True, "disabled"),
        ("us.anthropic.claude-opus-4-7-v1:0", True, False, "omitted"),
        ("claude-fable-5-2", True, False, None),
        ("glm-4.7", False, True, "disabled"),
    ],
)
def test_names_tell_the_generation(name: str, adaptive: bool, sampling: bool, off: str | None) -> None:
    can = abilities_of(name)
    assert (can.adaptive, can.sampling, can.off) == (adaptive, sampling, off)
