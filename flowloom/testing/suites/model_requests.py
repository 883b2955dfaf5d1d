"""What models are asked in `ModelSuite`: a kind of request for each thing that a request may hold."""

from __future__ import annotations

from typing import Any

from google.genai import types
from pydantic import BaseModel

from flowloom.models import LlmRequest
from flowloom.testing.suites.model_answers import call, weather
from flowloom.testing.suites.model_conversations import CONVERSATIONS, Needle, RequestKind, asking, result, said, user
from flowloom.tools import FunctionTool


class Forecast(BaseModel):
    """What the weather will be."""

    sky: str
    degrees: list[int]


_JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "forecast",
    "properties": {"sky": {"type": "string"}, "degrees": {"type": "array", "items": {"type": "integer"}}},
    "required": ["sky", "degrees"],
    "additionalProperties": False,
}
_SCHEMA = types.Schema(
    type=types.Type.OBJECT,
    properties={
        "sky": types.Schema(type=types.Type.STRING, enum=["clear", "grey"]),
        "degrees": types.Schema(type=types.Type.INTEGER, nullable=True),
    },
    required=["sky"],
)
_AS_JSON: dict[str, Any] = {"response_mime_type": "application/json", "system_instruction": "Answer in JSON."}


def _plain(*carried: Needle, **config: Any) -> RequestKind:
    """A setting that every model has to take."""
    return RequestKind(lambda: asking(**config), carried)


def _setting(name: str, value: Any, *carried: Needle, tools: bool = False, **more: Any) -> RequestKind:
    """A setting that not every provider knows."""
    return RequestKind(lambda: asking(with_tools=tools, **{name: value}, **more), carried, optional=f"config.{name}")


def _calling(mode: str, *names: str) -> RequestKind:
    calling = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode(mode), allowed_function_names=list(names) or None
    )
    config = types.ToolConfig(function_calling_config=calling)
    return _setting("tool_config", config, *(names or ("weather", "tides")), tools=True)


def _declared(**fields: Any) -> RequestKind:
    """A tool that is declared only: with a schema of a certain kind, or without."""
    declared = types.FunctionDeclaration(name="sky", description="What the sky is like.", **fields)
    tool = types.Tool(function_declarations=[declared])
    return _plain("sky", *(("place",) if fields else ()), tools=[tool])


def _schema(schema: Any, *, tools: bool = False) -> RequestKind:
    return _setting("response_schema", schema, "sky", "degrees", tools=tools, **_AS_JSON)


def _after_its_tools() -> LlmRequest:
    """A conversation with calls that goes on without tools."""
    rome = {"city": "Rome"}
    return asking(
        user("Rome?"), said(call("c-1", "weather", **rome)), user(result("c-1", "weather", {"result": "Sunny."}))
    )


def _thinking_amid_calls() -> LlmRequest:
    made = _after_its_tools()
    made.append_tools([FunctionTool(weather)])
    made.config.thinking_config = types.ThinkingConfig(thinking_budget=2048)
    return made


def _many_tools() -> LlmRequest:
    made = asking()
    made.append_tools([FunctionTool(weather, name=f"weather_{n}") for n in range(20)])
    return made


_INSTRUCTIONS: dict[str, RequestKind] = {
    "system_text": _plain("You tell\nthe weather.", system_instruction="You tell\nthe weather."),
    "system_content": _plain("You tell", "the weather.", system_instruction=user("You tell", "the weather.")),
    "system_list": _plain("You tell", "the weather.", system_instruction=["You tell", "the weather."]),
    "system_part": _plain("You tell the weather.", system_instruction=types.Part(text="You tell the weather.")),
    "empty_system_text": _plain("And in Rome?", system_instruction=""),
}
_PLACE = {
    "type": "object",
    "properties": {"place": {"type": "string", "enum": ["Rome", "Oslo"]}},
    "required": ["place"],
}
_TOOLS: dict[str, RequestKind] = {
    "tool_with_a_schema": _declared(
        parameters=types.Schema(type=types.Type.OBJECT, properties={"place": types.Schema(type=types.Type.STRING)})
    ),
    "tool_with_a_json_schema": _declared(parameters_json_schema=_PLACE),
    "tool_without_parameters": _declared(),
    "many_tools": RequestKind(_many_tools, ("weather_0", "weather_19")),
    "tools_that_are_gone": RequestKind(_after_its_tools, ("Rome?", "weather", "Sunny.")),
    "calls_as_the_model_likes": _calling("AUTO"),
    "calls_that_are_a_must": _calling("ANY"),
    "no_calls": _calling("NONE"),
    "a_call_of_this": _calling("ANY", "tides"),
    "a_call_of_these": _calling("ANY", "weather", "tides"),
}
_SCHEMAS: dict[str, RequestKind] = {
    "schema_of_a_class": _schema(Forecast),
    "schema_as_json": _schema(_JSON_SCHEMA),
    "schema_as_google_has_it": _schema(_SCHEMA),
    "schema_of_a_list": _schema(list[Forecast]),
    "schema_beside_tools": _schema(Forecast, tools=True),
    "json_schema": _setting("response_json_schema", _JSON_SCHEMA, "sky", "degrees", **_AS_JSON),
    "json_of_any_form": RequestKind(
        lambda: asking(user("Rome, as JSON?"), response_mime_type="application/json"),
        ("Rome, as JSON?",),
        optional="config.response_mime_type",
    ),
    "plain_text": _plain("And in Rome?", response_mime_type="text/plain"),
}
_SAMPLING: dict[str, RequestKind] = {
    "temperature": _setting("temperature", 0.125, 0.125),
    "top_p": _setting("top_p", 0.625, 0.625),
    "top_k": _setting("top_k", 17, 17),
    "temperature_and_top_p": RequestKind(
        lambda: asking(temperature=0.125, top_p=0.625), (0.125, 0.625), optional="config."
    ),
    "max_output_tokens": _setting("max_output_tokens", 4321, 4321),
    "stop_sequences": _setting("stop_sequences", ["END", "###"], "END", "###"),
    "seed": _setting("seed", 4711, 4711),
    "presence_penalty": _setting("presence_penalty", 0.375, 0.375),
    "frequency_penalty": _setting("frequency_penalty", -0.375, -0.375),
    "one_candidate": _plain("And in Rome?", candidate_count=1),
    "candidates": _setting("candidate_count", 3, 3),
    "logprobs": _setting("response_logprobs", True, 2, logprobs=2),
}
_FURTHER: dict[str, RequestKind] = {
    "thoughts": _setting("thinking_config", types.ThinkingConfig(include_thoughts=True)),
    "thinking_budget": _setting("thinking_config", types.ThinkingConfig(thinking_budget=2048, include_thoughts=True)),
    "no_thinking": _setting("thinking_config", types.ThinkingConfig(thinking_budget=0)),
    "thinking_as_the_model_likes": _setting("thinking_config", types.ThinkingConfig(thinking_budget=-1)),
    "thinking_level": _setting("thinking_config", types.ThinkingConfig(thinking_level=types.ThinkingLevel.LOW)),
    "thinking_amid_calls": RequestKind(_thinking_amid_calls, ("Rome?", "Sunny."), optional="config.thinking_config"),
    "safety_settings": _setting(
        "safety_settings",
        [
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                threshold=types.HarmBlockThreshold.BLOCK_ONLY_HIGH,
            )
        ],
        "BLOCK_ONLY_HIGH",
    ),
    "labels": _setting("labels", {"team": "weather-team"}, "weather-team"),
    "text_as_modality": _plain("And in Rome?", response_modalities=["TEXT"]),
    "speech_as_modality": _setting("response_modalities", ["AUDIO"], "AUDIO"),
    "media_resolution": _setting("media_resolution", types.MediaResolution.MEDIA_RESOLUTION_LOW),
    "cached_content": _setting("cached_content", "cachedContents/abc", "cachedContents/abc"),
    "service_tier": _setting("service_tier", types.ServiceTier.STANDARD),
    "search": _setting("tools", [types.Tool(google_search=types.GoogleSearch())], "earch"),
    "headers": _plain("And in Rome?", http_options=types.HttpOptions(headers={"x-weather": "sunny"})),
}

REQUESTS: dict[str, RequestKind] = {**CONVERSATIONS, **_INSTRUCTIONS, **_TOOLS, **_SCHEMAS, **_SAMPLING, **_FURTHER}
"""All kinds of requests, by name."""
