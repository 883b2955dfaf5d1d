"""What messages become as contents, and contents as messages."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from google.genai import types
from kit import named_call, result, said, text, user

from flowloom import Event, LlmRequest
from flowloom.errors import ChatMessageError, UnsupportedFeatureError
from flowloom.interop import ChatMessage, contents_to_messages, messages_to_contents
from flowloom.models.contents import SharedContents


def asked(*calls: tuple[str, str, str]) -> ChatMessage:
    """A message with calls: id, function, arguments."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }


def answered(call_id: str, content: Any) -> ChatMessage:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def only(*messages: Any) -> types.Content:
    """The last content of these messages."""
    return messages_to_contents(messages)[-1]


def response(*messages: Any) -> types.FunctionResponse:
    [part] = only(*messages).parts or ()
    assert part.function_response is not None
    return part.function_response


class TestToContents:
    def test_each_message_becomes_one_content_in_its_place(self) -> None:
        given: list[Any] = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "One."},
            {"role": "user", "content": "Two."},
            {"role": "assistant", "content": "Three."},
            {"role": "developer", "content": "Be briefer."},
            {"role": "assistant", "content": "Four."},
        ]
        assert [(each.role, (each.parts or [])[0].text) for each in messages_to_contents(given)] == [
            ("system", "Be brief."),
            ("user", "One."),
            ("user", "Two."),
            ("model", "Three."),
            ("developer", "Be briefer."),
            ("model", "Four."),
        ]

    def test_null_has_no_parts_and_empty_text_has_one(self) -> None:
        assert only({"role": "assistant", "content": None}).parts == []
        assert only({"role": "assistant", "content": ""}).parts == [text("")]

    def test_calls_stand_behind_the_text_in_their_order(self) -> None:
        message = {**asked(("a", "weather", '{"city": "Rome"}'), ("b", "time", "{}")), "content": "I look."}
        assert only(message) == said("I look.", named_call("a", "weather", city="Rome"), named_call("b", "time"))

    @pytest.mark.parametrize("arguments", ['{"city": "Ro', "[1]", "Rome", "null"])
    def test_arguments_that_are_no_object_are_kept_as_text(self, arguments: str) -> None:
        assert only(asked(("a", "weather", arguments))) == said(named_call("a", "weather", **{"$": arguments}))

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("It rains.", {"result": "It rains."}),
            ('{"sky": "blue"}', {"sky": "blue"}),
            ("[1, 2]", {"result": [1, 2]}),
            ("21", {"result": "21"}),
            ('{"sky": ', {"result": '{"sky": '}),
            ('{"sky": NaN}', {"result": '{"sky": NaN}'}),
            ("", {"result": ""}),
            (None, {"result": None}),
            ([{"type": "text", "text": "It "}, {"type": "text", "text": "rains."}], {"result": "It rains."}),
        ],
    )
    def test_a_tool_result_is_read_as_json_or_kept_as_text(self, content: Any, expected: dict[str, Any]) -> None:
        assert response(answered("a", content)).response == expected

    def test_files_of_a_tool_result_stand_beside_it(self) -> None:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        found = response(answered("a", [{"type": "text", "text": '{"n": 1}'}, image]))
        assert found.response == {"n": 1}
        [part] = found.parts or ()
        assert part.inline_data == types.FunctionResponseBlob(mime_type="image/png", data=b"\0\0\0")

    def test_a_result_has_the_name_of_the_latest_call_of_its_id(self) -> None:
        calls = [asked(("a", name, "{}")) for name in ("weather", "time", "map")]
        found = messages_to_contents([*calls[:2], answered("a", "1"), calls[2]])
        assert found[2] == user(result("a", "time", {"result": "1"}))

    def test_a_result_before_its_call_has_its_name_too(self) -> None:
        [found, _] = messages_to_contents([answered("a", "1"), asked(("a", "weather", "{}"))])
        assert found == user(result("a", "weather", {"result": "1"}))

    def test_a_result_that_no_call_asked_for_is_of_an_unknown_function(self) -> None:
        assert response(asked(("a", "weather", "{}")), answered("b", "1")).name == "unknown_function"

    def test_the_older_form_of_calls_has_no_ids(self) -> None:
        call = {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}}
        answer = {"role": "function", "name": "weather", "content": "21"}
        assert messages_to_contents([call, answer]) == [  # type: ignore[list-item]
            said(types.Part(function_call=types.FunctionCall(name="weather", args={}))),
            user(result(None, "weather", {"result": "21"})),
        ]

    def test_thoughts_and_refusals_are_read(self) -> None:
        message = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "refusal": "No."}
        assert only(message) == said(text("Hm.", thought=True), "No.")

    @pytest.mark.parametrize(
        ("item", "part"),
        [
            (
                {"type": "image_url", "image_url": {"url": "https://example.com/a.webp?size=1"}},
                types.Part.from_uri(file_uri="https://example.com/a.webp?size=1", mime_type="image/webp"),
            ),
            (
                {"type": "image_url", "image_url": {"url": "https://example.com/picture"}},
                types.Part.from_uri(file_uri="https://example.com/picture", mime_type="image/jpeg"),
            ),
            (
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                types.Part.from_bytes(data=b"hi", mime_type="image/png"),
            ),
            (
                {"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}},
                types.Part.from_bytes(data=b"<svg/>", mime_type="image/svg+xml"),
            ),
            (
                {"type": "video_url", "video_url": {"url": "gs://bucket/film"}},
                types.Part.from_uri(file_uri="gs://bucket/film", mime_type="video/mp4"),
            ),
            (
                {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
                types.Part.from_bytes(data=b"hi", mime_type="audio/wav"),
            ),
            (
                {"type": "file", "file": {"file_data": "aGk", "filename": "a.pdf"}},
                types.Part(inline_data=types.Blob(data=b"hi", mime_type="application/pdf", display_name="a.pdf")),
            ),
            (
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk="}},
                types.Part.from_bytes(data=b"hi", mime_type="application/pdf"),
            ),
            (
                {"type": "file", "file": {"file_id": "gs://bucket/a", "format": "application/pdf"}},
                types.Part.from_uri(file_uri="gs://bucket/a", mime_type="application/pdf"),
            ),
            (
                {"type": "file", "file": {"file_id": "file-1"}},
                types.Part(file_data=types.FileData(file_uri="file-1")),
            ),
        ],
    )
    def test_parts_of_a_message_become_parts(self, item: Any, part: types.Part) -> None:
        assert only({"role": "user", "content": [item]}) == user(part)

    @pytest.mark.parametrize(
        "item",
        [
            {"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64"}},
        ],
    )
    def test_data_that_cannot_be_read_is_an_error_that_names_the_message(self, item: Any) -> None:
        with pytest.raises(
            ChatMessageError, match=r"`messages\[1\]` is not usable: its content cannot be read"
        ) as caught:
            messages_to_contents([{"role": "user", "content": "Hello."}, {"role": "user", "content": [item]}])
        assert caught.value.index == 1

    def test_an_unknown_role_is_refused_by_its_place(self) -> None:
        with pytest.raises(ChatMessageError, match=r"`messages\[1\]`.*`critic` is no role") as caught:
            messages_to_contents([{"role": "user", "content": ""}, {"role": "critic", "content": ""}])  # type: ignore[typeddict-item]
        assert caught.value.index == 1


class TestToMessages:
    def test_roles_and_texts(self) -> None:
        contents = [types.Content(role="system", parts=[text("Be brief.")]), user("Hello."), said("Hi."), user()]
        assert contents_to_messages(contents) == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": None},
        ]

    def test_several_texts_stay_apart(self) -> None:
        assert contents_to_messages([said("One.", "Two.")]) == [
            {"role": "assistant", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}
        ]

    def test_results_are_messages_of_their_own_in_the_order_of_the_parts(self) -> None:
        content = user("Before.", result("a", "weather", {"sky": "blue"}), "Between.", result("b", "time", {}))
        assert contents_to_messages([content]) == [
            {"role": "user", "content": "Before."},
            {"role": "tool", "tool_call_id": "a", "content": '{"sky":"blue"}'},
            {"role": "user", "content": "Between."},
            {"role": "tool", "tool_call_id": "b", "content": "{}"},
        ]

    def test_arguments_that_could_not_be_read_are_given_back_as_text(self) -> None:
        [message] = contents_to_messages([said(named_call("a", "weather", **{"$": '{"city": "Ro'}))])
        assert message == asked(("a", "weather", '{"city": "Ro'))

    def test_calls_without_ids_and_their_results_get_the_same_ones(self) -> None:
        call = types.Part(function_call=types.FunctionCall(name="weather", args={}))
        first, second, answer, other = contents_to_messages(
            [said(call), said(call), user(result(None, "weather", {}), result(None, "time", {}))]
        )
        ids = [each["id"] for message in (first, second) for each in message.get("tool_calls") or ()]
        assert len(set(ids)) == 2
        assert answer.get("tool_call_id") == ids[1]
        assert other == {"role": "function", "name": "time", "content": "{}"}

    def test_thoughts_and_signatures_are_not_in_the_message(self) -> None:
        content = said(text("Hm.", thought=True), text("Hi.", thought_signature=b"x"), text("", thought_signature=b"y"))
        assert contents_to_messages([content]) == [{"role": "assistant", "content": "Hi."}]

    def test_files_by_address_keep_their_type(self) -> None:
        image = types.Part.from_uri(file_uri="gs://bucket/a", mime_type="image/png")
        image.media_resolution = types.PartMediaResolution(level=types.PartMediaResolutionLevel.MEDIA_RESOLUTION_LOW)
        report = types.Part.from_uri(file_uri="gs://bucket/b", mime_type="application/pdf")
        assert contents_to_messages([user(image, report)])[0].get("content") == [
            {"type": "image_url", "image_url": {"url": "gs://bucket/a", "detail": "low"}},
            {"type": "file", "file": {"file_id": "gs://bucket/b", "format": "application/pdf"}},
        ]

    def test_code_that_the_model_ran_is_text(self) -> None:
        code = types.Part(executable_code=types.ExecutableCode(code="1 + 1", language=types.Language.PYTHON))
        assert contents_to_messages([said(code)]) == [{"role": "assistant", "content": "```python\n1 + 1\n```\n"}]

    def test_arguments_of_any_depth_are_written_or_refused(self) -> None:
        def nested(depth: int) -> types.Content:
            value: list[Any] = []
            for _ in range(depth):
                value = [value]
            called = types.FunctionCall.model_construct(id="a", name="weather", args={"x": value})
            return said(types.Part.model_construct(function_call=called))

        [message] = contents_to_messages([nested(600)])
        assert message == asked(("a", "weather", '{"x": ' + "[" * 601 + "]" * 601 + "}"))
        with pytest.raises(UnsupportedFeatureError, match="is nested too deep") as caught:
            contents_to_messages([nested(20_000)])
        assert caught.value.field == "contents[0].parts[0].function_call.args"

    @pytest.mark.parametrize(
        ("contents", "field"),
        [
            ([user("Hi."), types.Content(role="critic", parts=[])], "contents[1].role"),
            ([user("Hi.", named_call("a", "weather"))], "contents[0].parts[1].function_call"),
            ([said(types.Part(tool_call=types.ToolCall(id="a")))], "contents[0].parts[0].tool_call"),
        ],
    )
    def test_what_messages_have_no_words_for_is_refused_by_its_place(
        self, contents: list[types.Content], field: str
    ) -> None:
        with pytest.raises(UnsupportedFeatureError) as caught:
            contents_to_messages(contents)
        assert caught.value.field == field
        assert f"`{field}`" in str(caught.value)

    def test_the_view_of_a_history_is_read_without_copies(self) -> None:
        shared = SharedContents([user("Hello.")])
        assert contents_to_messages(shared) == [{"role": "user", "content": "Hello."}]
        assert not shared.touched


SPELLED = '{"b": 1.0,  "a": 1, "a": 2}'


class TestMemory:
    """What is made remembers what it was made of, as long as that is still what it says."""

    @pytest.mark.parametrize(
        ("before", "after", "written"),
        [
            ('{"n":  1}', {"n": True}, '{"n":true}'),
            ('{"n":  1}', {"n": 1.0}, '{"n":1.0}'),
            ('{"n":  0.0}', {"n": -0.0}, '{"n":-0.0}'),
            ('{"n":  1, "m": 1}', {"m": 1, "n": 1}, '{"m":1,"n":1}'),
            ('{"n":  [1]}', {"n": [1, 2]}, '{"n":[1,2]}'),
        ],
    )
    def test_a_changed_content_says_what_it_was_changed_to(self, before: str, after: Any, written: str) -> None:
        [content] = messages_to_contents([asked(("a", "weather", before))])
        [part] = content.parts or ()
        assert part.function_call is not None
        part.function_call.args = after
        assert contents_to_messages([content]) == [asked(("a", "weather", written))]

    def test_a_content_with_another_role_is_of_that_role(self) -> None:
        [content] = messages_to_contents([{"role": "user", "content": "Hello.", "name": "ann"}])
        content.role = "model"
        assert contents_to_messages([content]) == [{"role": "assistant", "content": "Hello."}]

    def test_changing_what_came_back_does_not_change_what_comes_back_next(self) -> None:
        contents = messages_to_contents([asked(("a", "weather", SPELLED))])
        contents_to_messages(contents)[0]["content"] = "changed"
        assert contents_to_messages(contents) == [asked(("a", "weather", SPELLED))]
        thought = said(text("Hm.", thought=True), named_call("a", "weather", city="Rome"))
        messages = contents_to_messages([thought])
        messages_to_contents(messages)[0].parts = []
        [again] = messages_to_contents(messages)
        assert again == thought
        assert again.parts is not None
        again.parts.clear()
        assert messages_to_contents(messages) == [thought]

    def test_messages_of_different_contents_are_not_put_together(self) -> None:
        """Though they say the same, they may remember different things."""
        answers = (result("a", "weather", {}), result("b", "time", {}))
        one = contents_to_messages([user(*answers, text("One.", thought=True))])
        other = contents_to_messages([user(*answers, text("Two.", thought=True))])
        assert one == other
        assert messages_to_contents([one[0], other[1]]) == [
            user(each) for each in (result("a", "unknown_function", {}), result("b", "unknown_function", {}))
        ]

    def test_a_changed_message_says_what_it_was_changed_to(self) -> None:
        [message] = contents_to_messages([said(text("Hm.", thought=True), "Hi.")])
        message["content"] = "Bye."
        assert messages_to_contents([message]) == [said("Bye.")]

    def test_messages_of_one_content_that_were_torn_apart_are_contents_of_their_own(self) -> None:
        both = user(result("a", "weather", {}), result("b", "time", {}))
        one, other = contents_to_messages([both])
        assert len(messages_to_contents([one, other])) == 1
        assert len(messages_to_contents([other, one])) == 2
        assert len(messages_to_contents([one, {"role": "user", "content": ""}, other])) == 3

    def test_changing_the_original_changes_nothing_that_was_made_of_it(self) -> None:
        message = asked(("a", "weather", SPELLED))
        contents = messages_to_contents([message])
        message["content"] = "changed"
        assert contents_to_messages(contents) == [asked(("a", "weather", SPELLED))]
        content = said(text("Hm.", thought=True), named_call("a", "weather", city="Rome"))
        before = content.model_copy(deep=True)
        messages = contents_to_messages([content])
        assert content.parts is not None
        assert content.parts[1].function_call is not None
        assert content.parts[1].function_call.args is not None
        content.parts[1].function_call.args["city"] = "Oslo"
        assert messages_to_contents(messages) == [before]

    def test_copies_remember(self) -> None:
        given = [asked(("a", "weather", SPELLED))]
        contents = messages_to_contents(given)
        assert contents_to_messages(copy.deepcopy(contents)) == given
        assert contents_to_messages([contents[0].model_copy()]) == given
        thought = [said(text("Hm.", thought=True), "Hi.")]
        assert messages_to_contents(copy.deepcopy(contents_to_messages(thought))) == thought

    def test_an_event_and_a_request_take_contents_that_remember(self) -> None:
        given = [asked(("a", "weather", SPELLED))]
        event = Event(author="helper", content=messages_to_contents(given)[0])
        request = LlmRequest(contents=messages_to_contents(given))
        assert event.content is not None
        assert contents_to_messages([event.content]) == contents_to_messages(request.contents) == given

    def test_nothing_of_what_is_remembered_is_in_the_json(self) -> None:
        [content] = messages_to_contents([asked(("a", "weather", SPELLED))])
        plain = said(named_call("a", "weather", b=1.0, a=2))
        assert content.model_dump() == plain.model_dump()
        assert json.loads(content.model_dump_json()) == json.loads(plain.model_dump_json())
        assert content == plain
        assert plain == content
        [message] = contents_to_messages([said(text("Hm.", thought=True), "Hi.")])
        assert json.dumps(message) == '{"role": "assistant", "content": "Hi."}'
