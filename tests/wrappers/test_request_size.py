"""The tokens of a request by its looks: what counts, and how much."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import named_call, result, said, text, user
from wrapper_kit import ask

from flowloom import FunctionTool, LlmRequest
from flowloom.models.contents import SharedContents
from flowloom.wrappers.request_size import estimated_tokens


def size(*contents: types.Content, **config: Any) -> int:
    return estimated_tokens(LlmRequest(contents=list(contents), config=types.GenerateContentConfig(**config)))


def test_four_characters_are_a_token() -> None:
    assert size(user("a" * 40)) == 10
    assert size(user("a" * 41), said("b" * 3)) == 11


@pytest.mark.parametrize(
    "part",
    [
        types.Part.from_bytes(data=b"x" * 10**6, mime_type="image/png"),
        types.Part.from_uri(file_uri="gs://bucket/file.pdf", mime_type="application/pdf"),
    ],
)
def test_a_file_is_258_tokens_whatever_its_length(part: types.Part) -> None:
    assert size(user(part)) == 258


def test_instructions_calls_and_results_count() -> None:
    assert size(user("Hi"), system_instruction="s" * 400) > 100
    assert size(said(named_call("c1", "find", text="x" * 400))) > 100
    assert size(user(result("c1", "find", {"found": ["y" * 200, {"more": "z" * 200}]}))) > 100


def test_a_signature_does_not_count() -> None:
    assert size(said(text("Hello.", thought_signature=b"x" * 4000))) < 10


def test_declarations_count() -> None:
    """What a tool and its parameters are called, and what is said of them, in either form."""

    def find(place: str, count: int) -> str:
        """Find something."""
        return place

    request = ask("Hi")
    request.append_tools([FunctionTool(find)])
    assert estimated_tokens(request) > estimated_tokens(ask("Hi")) + 5
    schema = {"type": "object", "properties": {"place": {"type": "string", "description": "d" * 400}}}
    for given in ({"parameters_json_schema": schema}, {"parameters": types.Schema.model_validate(schema)}):
        declared = types.FunctionDeclaration(name="find", **given)  # type: ignore[arg-type]
        assert size(user("Hi"), tools=[types.Tool(function_declarations=[declared])]) > 100


def test_shared_contents_are_measured_and_not_copied() -> None:
    shared = SharedContents([user("a" * 40)])
    assert estimated_tokens(LlmRequest.model_construct(contents=shared, config=types.GenerateContentConfig())) == 10
    assert not shared.touched
