"""The canonical view of a request."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types
from kit import event, named_call, result, said, text, user
from pydantic import BaseModel

from flowloom import LlmRequest
from flowloom.inspection import EventsView, RequestView

ID = "adk-6f1c1f0e-3c1a-4f5e-9a53-7b1c0a6d8e21"
RUN = "e-6f1c1f0e-3c1a-4f5e-9a53-7b1c0a6d8e21"


def request(*contents: types.Content, **config: Any) -> LlmRequest:
    return LlmRequest(model="m", contents=list(contents), config=types.GenerateContentConfig(**config))


def test_fields_have_one_order_and_what_the_user_gave_keeps_its_own() -> None:
    view = RequestView(request(said(named_call("1", "add", b=1, a=2)), temperature=0, seed=1))
    assert view.json == (
        '{"model":"m","config":{"seed":1,"temperature":0.0},"contents":[{"parts":[{"function_call":'
        '{"args":{"b":1,"a":2},"id":"call_1","name":"add"}}],"role":"model"}]}'
    )


def test_ids_are_ordinals_in_the_order_in_which_they_come_up() -> None:
    """In calls, in their responses, and in other fields for ids; generated ids in texts, too."""
    contents = [
        said(named_call("zz", "add"), named_call("aa", "add", of_id="zz", of="zz")),
        user(result("aa", "add", {}), result("zz", "add", {"of": f"{ID} in {RUN}"})),
    ]
    first, second = RequestView(request(*contents)).data["contents"]
    assert [part["function_call"]["id"] for part in first["parts"]] == ["call_1", "call_2"]
    assert first["parts"][1]["function_call"]["args"] == {"of_id": "call_1", "of": "zz"}
    assert [part["function_response"]["id"] for part in second["parts"]] == ["call_2", "call_1"]
    assert second["parts"][1]["function_response"]["response"] == {"of": "call_3 in invocation_1"}


def test_two_runs_of_one_conversation_look_the_same() -> None:
    one, other = (
        RequestView(request(said(named_call(name, "add")), user(result(name, "add", {})))) for name in ("x", "y")
    )
    assert one == other
    assert (one.digest, one.text) == (other.digest, other.text)


def test_bytes_are_a_digest_and_signatures_are_short() -> None:
    blob = types.Part(inline_data=types.Blob(data=b"1234", mime_type="image/png"))
    view = RequestView(request(user(blob), said(text("x", thought_signature=b"long"))))
    picture, word = (content["parts"][0] for content in view.data["contents"])
    assert picture["inline_data"]["data"] == "sha256:03ac674216f3e15c… (4 bytes)"
    assert word["thought_signature"].startswith("signature:")
    assert word["thought_signature"].endswith("… (4 bytes)")


def test_headers_show_their_names_only() -> None:
    options = types.HttpOptions(headers={"x-goog-api-key": "hush"}, timeout=5)
    view = RequestView(request(http_options=options))
    assert view.data["config"]["http_options"] == {"headers": {"x-goog-api-key": "(hidden)"}, "timeout": 5}
    assert "hush" not in view.text


def test_what_a_model_does_not_get_is_left_out() -> None:
    asked = request(user("hi"))
    asked.tools_dict["add"] = object()
    asked.dynamic_instructions.append("Now.")
    assert set(RequestView(asked).data) == {"model", "config", "contents"}


class Person(BaseModel):
    """Somebody."""

    name: str


def test_a_response_schema_is_shown_as_a_schema() -> None:
    """A type is what its fields are, so that a changed field is seen."""
    asked = request()
    asked.set_output_schema(Person)
    shown = RequestView(asked).data["config"]["response_schema"]
    assert shown["properties"]["name"]["type"] == "string"
    assert "config.response_schema" in RequestView(asked).text


def test_looking_at_a_request_does_not_change_it() -> None:
    asked = request(user("hi"), system_instruction="Be kind.")
    before = asked.model_dump_json()
    view = RequestView(asked)
    asked.contents.append(user("more"))
    assert "more" not in view.text
    asked.contents.pop()
    assert asked.model_dump_json() == before


def test_data_is_json() -> None:
    nested = {"deep": [{"x": float("nan")}, b"1", {"s": {1}}]}
    view = RequestView(request(user(result("1", "add", nested)), labels={"a": "b"}))
    assert json.loads(view.json) == view.data


def test_a_request_with_half_a_character_has_a_name() -> None:
    view = RequestView(LlmRequest(contents=[user("half \ud83d")]))
    assert view.digest in repr(view)
    assert view.digest != RequestView(LlmRequest(contents=[user("half \ud83e")])).digest


def test_events_are_the_same_whenever_the_same_happens() -> None:
    """Ids and times are left out; calls and runs are ordinals."""
    first, second = (
        [
            event("root", named_call(name, "add", a=1), invocation_id=f"e-{name}", long_running_tool_ids=[name]),
            event("root", result(name, "add", {"sum": 1}), invocation_id=f"e-{name}"),
        ]
        for name in ("x", "y")
    )
    assert EventsView(first) == EventsView(second)
    assert EventsView(first).data[0]["long_running_tool_ids"] == ["call_1"]
    assert EventsView(first).data[1]["invocation_id"] == "invocation_1"
    assert EventsView(first) != EventsView(first[:1])
