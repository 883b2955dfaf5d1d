"""Any conversation, as chat messages and as contents, for the laws of their conversion."""

from __future__ import annotations

import base64
from typing import Any

from google.genai import types
from hypothesis import strategies as st

Json = dict[str, Any]

ODD_ARGUMENTS = (
    "",
    " ",
    "{}",
    "null",
    "[1, 2]",
    '"text"',
    '{"city": "Rome"}',
    '{"city":"Rome"}',
    '{"b": 1, "a": 2}',
    '{"x": 1.0}',
    '{"x": 1}',
    '{"x": 1, "x": 2}',
    '{"x": true}',
    '{"x": NaN, "y": -Infinity}',
    '{"x": 1e2, "y": -0.0, "z": 123456789012345678901234567890}',
    '{"city": "Ro',
    '{"$": "text"}',
    '{"half": "\\ud800"}',
    "not JSON at all",
    "{'city': 'Rome'}",
    '{"deep": ' + "[" * 400 + "]" * 400 + "}",
)
texts = st.text(max_size=12)
ids = st.text("abc", max_size=2)
names = st.sampled_from(["weather", "time"])
arguments = st.sampled_from(ODD_ARGUMENTS) | texts
data = st.binary(max_size=6)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _data_url(kind: str, value: bytes) -> str:
    return f"data:{kind};base64,{_base64(value)}"


urls = st.sampled_from(
    ["https://example.com/a.png", "https://example.com/a", "gs://b/film.mp4", "data:,a%20b", "data:image/png,%00", ""]
) | st.builds(_data_url, st.sampled_from(["image/png", "video/mp4", "text/plain;charset=utf-8", ""]), data)
text_items = st.fixed_dictionaries({"type": st.just("text"), "text": texts})


def _item(kind: str, **fields: Any) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"type": st.just(kind), kind: st.fixed_dictionaries(fields)})


items = st.one_of(
    text_items,
    st.fixed_dictionaries({"type": st.just("refusal"), "refusal": texts}),
    _item("image_url", url=urls),
    _item("image_url", url=urls, detail=st.sampled_from(["low", "high", "auto"])),
    _item("video_url", url=urls),
    _item("input_audio", data=st.builds(_base64, data), format=st.sampled_from(["wav", "mp3", "flac"])),
    _item("file", file_id=st.sampled_from(["file-1", "gs://b/x.pdf"])),
    _item("file", file_data=st.builds(_base64, data), filename=st.sampled_from(["a.pdf", "a"])),
    _item("file", file_data=urls.filter(lambda url: url.startswith("data:"))),
)
contents_of_message = st.none() | texts | st.lists(items, max_size=3)
tool_contents = contents_of_message | st.sampled_from(['{"a": 1}', "[1]", "21", '{"a": NaN}', '{"result": "x"}', '{"'])
functions = st.fixed_dictionaries({"name": names, "arguments": arguments})
calls = st.fixed_dictionaries({"id": ids, "type": st.just("function"), "function": functions})
extra: Json = {"name": st.none() | names, "weight": st.integers()}

messages = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["system", "developer", "user"]), "content": contents_of_message}, optional=extra
        ),
        st.fixed_dictionaries(
            {"role": st.just("assistant")},
            optional={
                **extra,
                "content": contents_of_message,
                "tool_calls": st.none() | st.lists(calls, max_size=3),
                "function_call": st.none() | functions,
                "refusal": st.none() | texts,
                "reasoning_content": st.none() | texts,
                "tool_call_id": st.none(),
            },
        ),
        st.fixed_dictionaries({"role": st.just("tool"), "content": tool_contents, "tool_call_id": ids}, optional=extra),
        st.fixed_dictionaries({"role": st.just("function"), "name": names, "content": tool_contents}),
    ),
    max_size=8,
)
"""Legal conversations, in every order, with what may be left out left out."""

json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts | st.just("$"), json_values, max_size=3)
signatures = st.none() | st.just(b"signed")
mime_types = st.sampled_from(["image/png", "audio/wav", "audio/L16;rate=1", "video/mp4", "application/pdf", "x"])
_call_ids = st.none() | ids
function_calls = st.builds(types.FunctionCall, id=_call_ids, name=names, args=st.none() | json_objects)
function_responses = st.builds(
    types.FunctionResponse,
    id=_call_ids,
    name=names,
    response=json_objects,
    parts=st.none()
    | st.lists(
        st.builds(
            types.FunctionResponsePart,
            inline_data=st.builds(types.FunctionResponseBlob, data=data, mime_type=mime_types),
        ),
        max_size=2,
    ),
)
_said = st.one_of(
    st.builds(types.Part, text=texts, thought=st.none() | st.booleans(), thought_signature=signatures),
    st.builds(
        types.Part, inline_data=st.builds(types.Blob, data=data, mime_type=mime_types, display_name=st.none() | texts)
    ),
    st.builds(
        types.Part,
        file_data=st.builds(
            types.FileData, file_uri=urls, mime_type=st.none() | mime_types, display_name=st.none() | texts
        ),
    ),
    st.builds(types.Part, executable_code=st.builds(types.ExecutableCode, code=texts, language=st.just("PYTHON"))),
    st.just(types.Part()),
)
_called = st.builds(types.Part, function_call=function_calls, thought_signature=signatures)
_answered = st.builds(types.Part, function_response=function_responses)


def _content(role: str | None, parts: st.SearchStrategy[types.Part]) -> st.SearchStrategy[types.Content]:
    return st.builds(types.Content, role=st.just(role), parts=st.none() | st.lists(parts, max_size=4))


contents = st.lists(
    st.one_of(
        _content("model", _said | _called | _answered),
        _content("user", _said | _answered),
        _content(None, _said | _answered),
        _content("system", _said),
    ),
    max_size=6,
)
"""Contents of all that messages can say, and of what rides along: thoughts, signatures, calls without ids."""
