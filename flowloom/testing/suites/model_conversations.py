"""The conversations that models are given in `ModelSuite`: files, calls and results, turns of all kinds."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.genai import types

from flowloom.models import LlmRequest
from flowloom.models.signatures import ANTHROPIC, OPENAI, signed
from flowloom.testing.suites.model_answers import SIGNATURE, call, request, thought, weather
from flowloom.tools import FunctionTool

Needle = str | int | float


@dataclass(frozen=True)
class RequestKind:
    """A kind of request: how it is made, and what of it has to reach the backend."""

    make: Callable[[], LlmRequest]
    carried: tuple[Needle, ...] = ()
    """Texts (whole or within longer ones) and numbers that have to be in the body of the request."""
    optional: str | None = None
    """The field that not every provider knows: it may be refused by `UnsupportedFeatureError`, or left out with a
    warning. None for what every model has to take."""
    ordered: bool = False
    """Whether what is `carried` has to come in its order."""


# -- builders --------------------------------------------------------------------------------------


def user(*parts: types.Part | str) -> types.Content:
    """Something that the user says."""
    return types.Content(role="user", parts=list(map(_part, parts)))


def said(*parts: types.Part | str) -> types.Content:
    """Something that the model has said."""
    return types.Content(role="model", parts=list(map(_part, parts)))


def _part(given: types.Part | str) -> types.Part:
    return types.Part(text=given) if isinstance(given, str) else given


def result(call_id: str | None, name: str, response: dict[str, Any], **fields: Any) -> types.Part:
    """The result of a call."""
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response, **fields))


def tides(port: str, days: int = 1) -> str:
    """The tides of a port."""
    return f"{port}: {days}"


def asking(*contents: types.Content, with_tools: bool = False, **config: Any) -> LlmRequest:
    """A request, by default of a short question; `with_tools`, there are two to call."""
    own = [content.model_copy(deep=True) for content in contents] or [user("And in Rome?")]
    made = LlmRequest(contents=own, config=types.GenerateContentConfig(**config))
    if with_tools:
        made.append_tools([FunctionTool(weather), FunctionTool(tides)])
    return made


def _of(
    *contents: types.Content,
    carried: tuple[Needle, ...],
    optional: str | None = None,
    tools: bool = True,
    ordered: bool = True,
) -> RequestKind:
    """A conversation."""
    return RequestKind(lambda: asking(*contents, with_tools=tools), carried, optional, ordered)


# -- what is said ----------------------------------------------------------------------------------

_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_WAV = b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"
_PDF = b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(mime_type: str, data: bytes, name: str | None = None) -> types.Part:
    return types.Part(inline_data=types.Blob(mime_type=mime_type, data=data, display_name=name))


def _at(mime_type: str, uri: str) -> types.Part:
    return types.Part(file_data=types.FileData(mime_type=mime_type, file_uri=uri))


def _look(*parts: types.Part, carried: tuple[Needle, ...]) -> RequestKind:
    return _of(user("Look:", *parts, "What is it?"), carried=("Look:", *carried, "What is it?"), optional="contents")


_FILES: dict[str, RequestKind] = {
    "image_bytes": _look(_bytes("image/png", _PNG), carried=(_base64(_PNG),)),
    "image_uri": _look(_at("image/png", "https://pictures.example/cat.png"), carried=("pictures.example/cat.png",)),
    "audio_bytes": _look(_bytes("audio/wav", _WAV), carried=(_base64(_WAV),)),
    "audio_uri": _look(_at("audio/mp3", "https://sounds.example/cat.mp3"), carried=("sounds.example/cat.mp3",)),
    "pdf_bytes": _look(_bytes("application/pdf", _PDF, "cats.pdf"), carried=(_base64(_PDF),)),
    "pdf_uri": _look(_at("application/pdf", "https://papers.example/cat.pdf"), carried=("papers.example/cat.pdf",)),
    "video_uri": _look(_at("video/mp4", "https://films.example/cat.mp4"), carried=("films.example/cat.mp4",)),
    "uploaded_file": _look(_at("application/pdf", "file-123"), carried=("file-123",)),
    "bytes_of_an_unknown_kind": _look(_bytes("application/x-cat", b"\x00\xffcat"), carried=(_base64(b"\x00\xffcat"),)),
    "several_files": _look(
        _bytes("image/png", _PNG),
        types.Part(text="and"),
        _bytes("image/png", _PNG + b"2"),
        carried=(_base64(_PNG), "and", _base64(_PNG + b"2")),
    ),
    "only_a_file": _of(user(_bytes("image/png", _PNG)), carried=(_base64(_PNG),), optional="contents"),
    "file_in_a_result": _of(
        user("Draw Rome."),
        said(call("call-1", "weather", city="Rome")),
        user(
            result(
                "call-1",
                "weather",
                {"result": "Here."},
                parts=[
                    types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=_PNG))
                ],
            )
        ),
        carried=("Draw Rome.", "Rome", "Here.", _base64(_PNG)),
        optional="contents",
        ordered=False,
    ),
    "code_in_the_history": _of(
        user("Count to three."),
        said(
            types.Part(executable_code=types.ExecutableCode(language=types.Language.PYTHON, code="print(1, 2, 3)")),
            types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1 2")),
            "Done.",
        ),
        user("And on."),
        carried=("Count to three.", "print(1, 2, 3)", "1 2", "Done.", "And on."),
        optional="contents",
    ),
}


# -- calls and results -----------------------------------------------------------------------------

_ASKED = user("Rome and Oslo?")
_CALLS = said(call("call-1", "weather", city="Rome"), call("call-2", "weather", city="Oslo"))
_SUNNY = result("call-1", "weather", {"result": "It is sunny."})
_RAINY = result("call-2", "weather", {"result": "It rains."})
_AND = user("And tomorrow?")
_LONG_ID = "call-" + "0123456789" * 12


def _one_result(response: dict[str, Any], *carried: Needle, call_id: str | None = "call-1") -> RequestKind:
    contents = (user("Rome?"), said(call(call_id, "weather", city="Rome")), user(result(call_id, "weather", response)))
    return _of(*contents, carried=("Rome?", "weather", *carried))


_RESULTS: dict[str, RequestKind] = {
    "result": _one_result({"result": "It is sunny."}, "It is sunny."),
    "result_that_is_an_error": _one_result({"error": "No such city."}, "No such city."),
    "nested_result": _one_result(
        {"days": [{"sky": "clear", "degrees": [23.5, 25]}, None], "ok": True, "naïve": "ü 🧵"},
        "clear",
        23.5,
        25,
        "ü 🧵",
    ),
    "empty_result": _one_result({}),
    "result_of_odd_texts": _one_result({"result": '"quoted"\n\\ \u2028 </tool>'}, '"quoted"\n\\ \u2028 </tool>'),
    "several_results": _of(_ASKED, _CALLS, user(_SUNNY, _RAINY), carried=("Rome", "It is sunny.", "It rains.")),
    "results_one_by_one": _of(
        _ASKED, _CALLS, user(_SUNNY), user(_RAINY), carried=("Rome", "Oslo", "It is sunny.", "It rains.")
    ),
    "results_out_of_order": _of(_ASKED, _CALLS, user(_RAINY, _SUNNY), carried=("Rome", "Oslo", "It is sunny.")),
    "result_that_is_missing": _of(_ASKED, _CALLS, user(_SUNNY), carried=("Rome", "Oslo", "It is sunny.")),
    "no_results": _of(_ASKED, _CALLS, _AND, carried=("Rome", "Oslo", "And tomorrow?")),
    "results_without_ids": _of(
        _ASKED,
        said(call(None, "weather", city="Rome"), call(None, "weather", city="Oslo")),
        user(result(None, "weather", {"result": "It is sunny."}), result(None, "weather", {"result": "It rains."})),
        carried=("Rome", "Oslo", "It is sunny.", "It rains."),
    ),
    "result_of_no_call": _of(
        user("Rome?"), said("A moment."), user(_SUNNY), carried=("Rome?", "A moment.", "It is sunny.")
    ),
    "result_beside_text": _of(
        _ASKED, _CALLS, user(_SUNNY, _RAINY, "Be brief."), carried=("Rome", "It is sunny.", "It rains.", "Be brief.")
    ),
    "text_before_a_result": _of(
        user("Rome?"),
        said(call("call-1", "weather", city="Rome")),
        user("Be brief.", _SUNNY),
        carried=("Rome?", "weather", "It is sunny."),
    ),
    "text_beside_calls": _of(
        _ASKED,
        said("I look it up.", *(_CALLS.parts or ())),
        user(_SUNNY, _RAINY),
        carried=("I look it up.", "Rome", "Oslo"),
    ),
    "an_id_twice": _of(
        user("Rome?"),
        said(call("call-1", "weather", city="Rome")),
        user(_SUNNY),
        said("Sunny."),
        user("Oslo?"),
        said(call("call-1", "weather", city="Oslo")),
        user(result("call-1", "weather", {"result": "It rains."})),
        carried=("Rome?", "It is sunny.", "Sunny.", "Oslo?", "It rains."),
    ),
    "long_ids": _one_result({"result": "It is sunny."}, "It is sunny.", call_id=_LONG_ID),
    "odd_ids": _one_result({"result": "It is sunny."}, "It is sunny.", call_id="toolu:1/ü é"),
    "arguments_of_all_types": _of(
        user("Rome?"),
        said(call("call-1", "weather", city="Rome", options={"days": [1, 2.5, None], "on": True, "n": 2**53 + 1})),
        user(_SUNNY),
        carried=("Rome?", "Rome", 1, 2.5, 2**53 + 1, "It is sunny."),
    ),
    "calls_one_after_another": _of(
        _ASKED,
        said(call("call-1", "weather", city="Rome")),
        user(_SUNNY),
        said(call("call-2", "weather", city="Oslo")),
        user(_RAINY),
        carried=("Rome", "It is sunny.", "Oslo", "It rains."),
    ),
}


# -- conversations ---------------------------------------------------------------------------------

# What a session holds that went from one provider to the next; each takes its own signatures and no other's.
_OWN = "c2lnbmVkOiBieSBzb21lYm9keQ=="
_SIGNATURES = (
    signed(ANTHROPIC, _OWN),
    signed(OPENAI, f'{{"id": "rs_1", "encrypted_content": "{_OWN}"}}'),
    SIGNATURE,
)

_TURNS: dict[str, RequestKind] = {
    "one_question": _of(user("Rome?"), carried=("Rome?",), tools=False),
    "history": RequestKind(
        request,
        ("How is the weather in Oslo?", "weather", "It rains.", "It rains in Oslo.", "And in Rome?"),
    ),
    "long_history": _of(
        *(turn for n in range(30) for turn in (user(f"Question {n}?"), said(f"Answer {n}."))),
        user("Last?"),
        carried=(*(each for n in range(30) for each in (f"Question {n}?", f"Answer {n}.")), "Last?"),
    ),
    "several_parts": _of(user("One.", "Two.", "Three."), carried=("One.", "Two.", "Three.")),
    "end_on_a_models_turn": _of(user("Rome?"), said("It is sunny and"), carried=("Rome?", "It is sunny and")),
    "begin_with_a_models_turn": _of(said("How can I help?"), user("Rome?"), carried=("How can I help?", "Rome?")),
    "two_turns_of_the_user": _of(user("Rome?"), user("Oslo, I mean."), carried=("Rome?", "Oslo, I mean.")),
    "two_turns_of_the_model": _of(
        user("Rome?"),
        said("A moment."),
        said("It is sunny."),
        user("Thanks."),
        carried=("Rome?", "A moment.", "It is sunny.", "Thanks."),
    ),
    "empty_texts": _of(user("Rome?", ""), said("", "Sunny."), user("", "Oslo?"), carried=("Rome?", "Sunny.", "Oslo?")),
    "odd_texts": _of(user('data: [DONE]\n\n{"a": "\\"} \u2028 🧵\x00\x7f'), carried=("data: [DONE]\n\n", "\u2028 🧵")),
    "thoughts_without_signature": _of(
        user("Rome?"), said(thought("Rome is in Italy."), "Sunny."), user("Oslo?"), carried=("Rome?", "Sunny.", "Oslo?")
    ),
    "thoughts_of_other_providers": _of(
        user("Rome?"),
        said(*(thought("Rome is in Italy.", each) for each in _SIGNATURES), "Sunny."),
        user("Oslo?"),
        carried=("Rome?", "Sunny.", "Oslo?"),
    ),
    "hidden_thoughts_before_a_call": _of(
        user("Rome?"),
        said(*(thought("", each) for each in _SIGNATURES), call("call-1", "weather", city="Rome")),
        user(_SUNNY),
        carried=("Rome?", "weather", "It is sunny."),
    ),
}

CONVERSATIONS: dict[str, RequestKind] = {**_FILES, **_RESULTS, **_TURNS}
"""All conversations, by name."""
