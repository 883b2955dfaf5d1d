"""The model's name and a config of the request's own (cases area 15: basic, clone)."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from google.genai import types
from kit import Chat, agent, call, context, model, requests_of
from pydantic import BaseModel

from flowloom import BaseAgent, LlmAgent, LlmRequest, RunConfig
from flowloom.errors import ModelNotConfiguredError
from flowloom.processors import basic


class Weather(BaseModel):
    city: str


def built(asked: Any, **fields: Any) -> LlmRequest:
    request = LlmRequest()
    assert basic(context(asked, **fields), request) is None
    return request


def test_an_agent_that_is_no_llm_agent_changes_nothing() -> None:
    assert built(BaseAgent(name="plain")) == LlmRequest()


def test_the_model_is_the_agents() -> None:
    assert built(LlmAgent(name="a", model=model(model="m1"))).model == "m1"


def test_the_model_is_that_of_the_nearest_agent_above_which_has_one() -> None:
    leaf = LlmAgent(name="leaf")
    middle = LlmAgent(name="middle", sub_agents=[leaf], model=model(model="m2"))
    LlmAgent(name="root", sub_agents=[middle], model=model(model="m1"))
    assert built(leaf).model == "m2"


def test_without_any_model_the_error_names_the_agent_and_the_remedy() -> None:
    with pytest.raises(ModelNotConfiguredError, match=r"`lost`.*`model`"):
        built(LlmAgent(name="lost"))


def test_without_a_config_the_request_has_an_empty_one() -> None:
    assert built(agent("a")).config == types.GenerateContentConfig()


def test_the_agents_config_is_the_requests() -> None:
    config = types.GenerateContentConfig(temperature=0.1, stop_sequences=["x"], labels={"a": "b"})
    assert built(agent("a", generate_content_config=config)).config == config


@pytest.mark.parametrize(("mode", "wanted"), [("task", False), ("single_turn", True), ("chat", True), (None, True)])
def test_a_schema_is_asked_for_unless_a_task_reports_it(
    mode: Literal["chat", "task", "single_turn"] | None, wanted: bool
) -> None:
    """Task / single_turn / chat with schema | not set / set + JSON mime / set + JSON mime."""
    config = built(agent("a", output_schema=Weather, mode=mode)).config
    assert (config.response_schema is Weather) is wanted
    assert config.response_mime_type == ("application/json" if wanted else None)


def nested_config() -> types.GenerateContentConfig:
    return types.GenerateContentConfig(
        temperature=0.5,
        stop_sequences=["end"],
        labels={"team": "a"},
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold=types.HarmBlockThreshold.OFF
            )
        ],
        thinking_config=types.ThinkingConfig(thinking_budget=10),
        http_options=types.HttpOptions(headers={"x": "1"}),
    )


def test_the_config_is_a_deep_and_independent_copy() -> None:
    """Clone | nested struct / list / map / pointers | deep and independent."""
    asked = agent("a", generate_content_config=nested_config())
    for _ in range(2):
        config = built(asked).config
        assert config == nested_config()
        assert config.stop_sequences is not None
        config.stop_sequences.append("more")
        assert config.labels is not None
        config.labels["team"] = "b"
        assert config.safety_settings is not None
        config.safety_settings[0].threshold = types.HarmBlockThreshold.BLOCK_NONE
        assert config.thinking_config is not None
        config.thinking_config.thinking_budget = 0
        assert config.http_options is not None
        assert config.http_options.headers is not None
        config.http_options.headers["x"] = "2"
        config.temperature = 1.0
    assert asked.generate_content_config == nested_config()


def test_a_config_that_is_set_anew_is_the_one_that_counts() -> None:
    asked = agent("a", generate_content_config=types.GenerateContentConfig(temperature=0.1))
    built(asked)
    asked.generate_content_config = types.GenerateContentConfig(stop_sequences=["x"])
    assert built(asked).config == types.GenerateContentConfig(stop_sequences=["x"])


async def test_what_a_callback_writes_to_a_request_lasts_for_that_request_only() -> None:
    async def louder(callback_context: Any, llm_request: LlmRequest) -> None:
        assert llm_request.config.labels is not None
        llm_request.config.labels["n"] = str(len(llm_request.config.labels))

    asked = agent(
        "a",
        call("nothing"),
        "done",
        tools=[nothing],
        generate_content_config=types.GenerateContentConfig(labels={"x": "y"}),
        before_model_callback=louder,
    )
    await Chat(asked).say("hi")
    assert [request.config.labels for request in requests_of(asked)] == [{"x": "y", "n": "1"}] * 2


def nothing() -> None:
    """Do nothing."""


def test_labels_and_http_options_of_the_run_are_added() -> None:
    asked = agent("a", generate_content_config=types.GenerateContentConfig(labels={"x": "agent", "y": "agent"}))
    options = types.HttpOptions(timeout=5)
    request = built(asked, run_config=RunConfig(labels={"x": "run"}, http_options=options))
    assert request.config.labels == {"x": "run", "y": "agent"}
    assert request.config.http_options == options
    assert request.config.http_options is not options


def test_the_service_tier_of_the_run_is_asked_for() -> None:
    assert built(agent("a"), run_config=RunConfig(service_tier="flex")).service_tier == "flex"


def test_what_a_request_does_to_its_http_options_does_not_reach_the_runs() -> None:
    """Headers, say."""
    config = RunConfig(http_options=types.HttpOptions(headers={"x": "1"}))
    options = built(agent("a"), run_config=config).config.http_options
    assert options is not None
    assert options.headers == {"x": "1"}
    options.headers["y"] = "2"
    assert config.http_options is not None
    assert config.http_options.headers == {"x": "1"}
