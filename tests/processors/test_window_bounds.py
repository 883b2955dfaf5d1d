"""What windows count with, and where exactly they begin."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from google.genai import types
from kit import agent, context, event, named_call, result, said, shown, text, user
from window_logs import request_of, round_of

from flowloom import Event, EventActions, Flow, InvocationContext, LlmRequest
from flowloom.processors import DropToolPayloads, KeepTurns, TokenWindow
from flowloom.processors.token_count import Calibration, content_tokens
from flowloom.processors.window import shortened


def ten(_: types.Content) -> int:
    """Ten tokens for each content."""
    return 10


def talk(turns: int) -> list[Event]:
    """Turns of two contents: m0, a0, m1, a1 and so on, the last one without an answer."""
    return [event(("user", "root")[at % 2], f"{'ma'[at % 2]}{at // 2}") for at in range(2 * turns - 1)]


# -- estimates -------------------------------------------------------------------------------------

PART = types.Part
CALL = types.FunctionCall(name="look", args={"n": "é"})  # {"n": "é"} has eleven bytes
ANSWER = types.FunctionResponse(name="look", response={"n": 1})
PICTURE = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(data=b"x", mime_type="image/png"))
LINK = types.FunctionResponsePart(file_data=types.FunctionResponseFileData(file_uri="gs://a", mime_type="image/png"))
EMPTY = types.FunctionResponsePart()
CODE = types.ExecutableCode(code="1 + 1 + 1", language=types.Language.PYTHON)
RAN = types.CodeExecutionResult(output="the sum: 3", outcome=types.Outcome.OUTCOME_OK)


@pytest.mark.parametrize(
    ("parts", "tokens"),
    [
        ([], 0),
        ([text("four"), text("five.")], 3),
        ([text("ééé")], 2),
        ([text("12"), PART(function_call=CALL)], 5),
        ([PART(function_call=types.FunctionCall(args={}))], 1),
        ([PART(function_call=types.FunctionCall(name="look"))], 1),
        ([text("1234"), PART(function_response=ANSWER)], 4),
        ([PART(function_response=types.FunctionResponse(name="look"))], 1),
        ([PART(function_response=types.FunctionResponse(response={"n": 1}))], 2),
        ([PART(function_call=types.FunctionCall(args={"n": "\ud800"}))], 3),  # what is no letter has a byte
        ([PART(function_response=ANSWER.model_copy(update={"parts": [PICTURE, LINK]})), text("1")], 258 + 1000 + 4),
        ([text("1234"), PART(function_response=ANSWER.model_copy(update={"parts": [EMPTY]}))], 4),
        ([text("1234"), PART(executable_code=CODE), PART(code_execution_result=RAN)], 6),
        ([PART(executable_code=types.ExecutableCode()), PART(code_execution_result=types.CodeExecutionResult())], 0),
        ([PART(inline_data=types.Blob(data=b"x" * 9, mime_type="text/plain"))], 2),
        ([PART(inline_data=types.Blob(data=b"x" * 150_999))], 301),
        ([PART(inline_data=types.Blob(data=b"x" * 150_999, mime_type="image/png"))], 258),
        ([PART(inline_data=types.Blob(mime_type="audio/mp3"))], 258),
        ([PART(thought_signature=b"x" * 99)], 0),
    ],
)
def test_what_a_content_costs_is_estimated_by_its_letters_and_files(parts: list[types.Part], tokens: int) -> None:
    """A token for four bytes of all of it together, and four for the content itself."""
    found = content_tokens(types.Content(role="user", parts=parts))
    assert (found, type(found)) == (4 + tokens, int)


@pytest.mark.parametrize(
    ("steps", "grown", "ratio"),
    [
        (5, 300, 3.0),
        (4, 300, 1.0),
        (10, 20, 0.5),
        (10, 600, 4.0),
        (10, 601, 1.0),
        (10, 19, 1.0),
    ],
    ids=["more", "too few yet", "as little as is likely", "as much as is likely", "too much", "too little"],
)
def test_an_estimate_is_corrected_once_enough_is_known_by_what_is_likely(steps: int, grown: int, ratio: float) -> None:
    """By half at least, and by four times at most; steps that look like no growth do not count."""
    found = Calibration()
    for step in range(steps + 1):
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=10_000 + grown * step)
        found.see(event("root", usage_metadata=usage), own=True)
        found.see(event("user", "x" * 4 * 96), own=False)  # a hundred tokens with the content itself
    assert found.ratio == ratio


def test_steps_of_less_than_fifty_tokens_say_nothing() -> None:
    """Their likeness to growth is chance."""
    for size, ratio in ((46, 2.0), (45, 1.0)):
        found = Calibration()
        for step in range(20):
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1_000 + 2 * (size + 4) * step)
            found.see(event("root", usage_metadata=usage), own=True)
            found.see(event("user", "x" * 4 * size), own=False)
        assert found.ratio == ratio


def test_an_answer_without_a_count_of_its_prompt_says_nothing() -> None:
    """What was said before it counts for the next answer that has one."""
    found = Calibration()
    for step in range(6):
        for counted in (types.GenerateContentResponseUsageMetadata(prompt_token_count=1_000 + 600 * step), None):
            usage = counted or types.GenerateContentResponseUsageMetadata(total_token_count=5)
            found.see(event("root", usage_metadata=usage), own=True)
            found.see(event("user", "x" * 4 * 96), own=False)
    assert found.ratio == 3.0


def test_only_answers_of_the_agent_itself_are_measured() -> None:
    """Those of others are of other prompts."""
    found = Calibration()
    for step in range(6):
        for own, prompt in ((True, 1_000 + 600 * step), (False, 1_000 + 500 * step)):
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=prompt)
            found.see(event("root", usage_metadata=usage), own=own)
            found.see(event("user", "x" * 4 * 96), own=False)
    assert found.ratio == 3.0


@pytest.mark.parametrize(
    ("here", "elsewhere"),
    [
        ({"branch": "root.a"}, {"branch": "root.b"}),
        ({"branch": "root.a"}, {"branch": "root.a", "isolation_scope": "t1"}),
        ({"isolation_scope": "t1"}, {"isolation_scope": None}),
    ],
)
async def test_estimates_are_corrected_by_what_is_said_at_the_agents_place(
    here: dict[str, Any], elsewhere: dict[str, Any]
) -> None:
    """The provider counts three tokens for each that is estimated; those of answers elsewhere do not matter."""
    log: list[Event] = []
    for number in range(12):
        for place, grown in ((here, 612), (elsewhere, 205)):
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1000 + grown * number)
            log += [
                event("user", "x" * 392, **place),
                event("root", "yes." * 98, usage_metadata=usage, **place),  # 102 tokens by estimate, as the message has
            ]
    log.append(event("user", "x", **here))
    flow = Flow().with_processor(TokenWindow(2000), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow), *log, **here))).request
    assert len(request.contents) in range(5, 8)


async def test_an_answer_is_measured_once_however_often_is_asked() -> None:
    """What is not enough to say anything is none the more when the history grows, and is not lost."""
    log: list[Event] = []
    window, found = TokenWindow(1500), list[int]()
    for number in range(7):
        log.append(event("user", "x" * 392))  # 102 tokens by estimate, as the answer has
        found += [len((await request_of(log, window)).contents) for _ in range(2)]
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1000 + 612 * number)
        log.append(event("root", "yes." * 98, usage_metadata=usage))
    assert found == [1, 1, 3, 3, 5, 5, 7, 7, 3, 3, 3, 3, 3, 3]


# -- bounds ----------------------------------------------------------------------------------------


def everything(_: types.Content) -> bool:
    return True


@pytest.mark.parametrize(
    "window",
    [
        KeepTurns(2, step=1, pinned=everything),
        TokenWindow(20, count=ten, pinned=everything),
        DropToolPayloads(keep_last=1, max_chars=0, pinned=everything),
    ],
)
async def test_where_everything_is_pinned_everything_is_shown_once(window: Any) -> None:
    """Also where the window begins."""
    log = [*talk(3), *round_of(1, 30), *round_of(2, 30), *talk(2)]
    assert shown(await request_of(log, window)) == shown(await request_of(log))


async def test_what_an_agent_said_before_the_first_message_is_part_of_a_short_history() -> None:
    """Nothing is left out while there are not too many turns."""
    log = [event("root", "hello"), *talk(2)]
    assert shown(await request_of(log, KeepTurns(2))) == ["model: hello", "user: m0", "model: a0", "user: m1"]


@pytest.mark.parametrize("window", [KeepTurns(1), TokenWindow(20), DropToolPayloads(keep_last=1)])
async def test_a_window_on_no_history_shows_none(window: Any) -> None:
    assert shown(await request_of([], window)) == []


async def test_a_window_that_is_just_full_is_not_over_its_budget(caplog: pytest.LogCaptureFixture) -> None:
    """Nor is one that is cut."""
    with caplog.at_level(logging.WARNING, "flowloom.window"):
        request = await request_of([event("user", "m"), *round_of(1, 3)], TokenWindow(30, count=ten))
    assert len(request.contents) == 3
    assert caplog.records == []


def test_the_largest_arguments_of_an_old_call_are_left_out_until_the_rest_is_small_enough() -> None:
    """One stays where a marker would be longer than it; lengths are those of the JSON."""
    args = {"a": "x" * 298, "b": "x" * 198, "c": "x" * 188, "d": "x" * 8}
    short = shortened(said(named_call("c1", "look", **args)), 200)
    assert short.parts is not None
    assert short.parts[0].function_call is not None
    assert short.parts[0].function_call.args == {
        "a": "[300 characters, left out of an old call of `look`]",
        "b": "[200 characters, left out of an old call of `look`]",
        "c": args["c"],
        "d": args["d"],
    }
    several = shortened(said(named_call("c1", "look", a="x" * 78, b="x" * 88, c="x" * 98)), 150)
    assert several.parts is not None
    assert several.parts[0].function_call is not None
    left_out = [str(value).startswith("[") for value in (several.parts[0].function_call.args or {}).values()]
    assert left_out == [False, True, True]
    marker = "[50 characters, left out of an old call of `look`]"
    assert len(marker) == 50
    for length, stays in ((48, True), (49, False)):
        content = said(named_call("c1", "look", a="x" * length))
        assert (shortened(content, 0) == content) is stays


def test_payloads_of_just_the_size_that_may_stay_do() -> None:
    """Results and arguments, by the length of their JSON; even of none."""
    size = len('{"n": "xx"}')
    for part in (named_call("c1", "look", n="xx"), result("c1", "look", {"n": "xx"})):
        content = said(part)
        assert shortened(content, size) is content
    assert shortened(said(result("c1", "look", {"n": "xx"})), size - 1) != said(result("c1", "look", {"n": "xx"}))
    assert repr(DropToolPayloads(max_chars=0)) == "DropToolPayloads(keep_last=5, max_chars=0)"


async def test_what_was_spoken_stays_pinned_where_what_stood_between_is_rewound() -> None:
    """The history tells it as one text."""
    log = [Event(author="user", input_transcription=types.Transcription(text=words)) for words in ("no ", "nuts")]
    log[0].custom_metadata = {"pinned": True}
    back = Event(author="user", actions=EventActions(rewind_before_invocation_id="i2"))
    log[1:1] = [event("user", "aside", invocation_id="i2"), back]
    log += [event("root", "ok"), event("user", "now")]
    window = KeepTurns(1)
    for seen in (2, 3, 6):
        contents = shown(await request_of(log[:seen], window))
    assert contents == ["user: no nuts", "user: now"]


# -- contents of the application's own -------------------------------------------------------------

INSTRUCTED = {"static_instruction": "Be kind.", "instruction": "It is Monday."}
MONDAY = user("It is Monday.")
FOUND = user(result("c1", "look", {"n": 1}))


def told(content: types.Content) -> bool:
    """Whether a result is in it."""
    return any(part.function_response is not None for part in content.parts or ())


async def window_on(given: list[types.Content], window: Any, **fields: Any) -> list[types.Content]:
    """What a window shows of contents that a processor before it has put in the place of the history."""

    def replace(ctx: InvocationContext, request: LlmRequest) -> None:
        request.contents = [*given]

    flow = Flow().with_processor(replace, after="contents").with_processor(window, after="replace")
    return [*(await flow.assemble(context(agent("root", flow=flow, **fields), *talk(1)))).request.contents]


@pytest.mark.parametrize("odd", [types.Content(role="user"), user(result("c9", "look", {})), FOUND])
async def test_a_message_of_nothing_and_a_result_of_no_call_begin_no_turn(odd: types.Content) -> None:
    """Wherever they stand; a result where the history begins is pinned alone."""
    given = [odd, user("m0"), said("a0"), odd, user("m1"), odd, said("a1")]
    assert await window_on(given, KeepTurns(2)) == given
    kept = [odd] if told(odd) else []
    assert (await window_on(given, KeepTurns(1, pinned=told)))[: len(kept)] == kept
    assert await window_on(given, KeepTurns(1)) == given[4:]


async def test_what_calls_and_answers_at_once_stays_with_the_call_before_it_and_the_result_behind() -> None:
    """They are one round of calls, of which all or nothing is shown."""
    asked = said("I look.", named_call("c1", "look", where="x" * 99))
    both = said(result("c1", "look", {"n": 1}), named_call("c2", "look"))
    given = [user("m0"), asked, both, user(result("c2", "look", {"n": 2}), "There."), user("m1")]
    assert await window_on(given, KeepTurns(1, pinned=lambda content: told(content) and content != both)) == given
    drop = DropToolPayloads(keep_last=1, max_chars=0)
    assert await window_on(given, drop) == given
    more = [*given, said("And.", named_call("c3", "look")), user(result("c3", "look", {"n": 3}))]
    changed = [old != new for old, new in zip(more, await window_on(more, drop), strict=True)]
    assert changed == [False, True, True, True, False, False, False]


async def test_only_the_instructions_themselves_are_no_turn() -> None:
    """Not a message that begins with their words, one from before the latest answer, or an empty one if there are
    none."""
    given = [user("m0"), said("a0"), MONDAY, user("It is Monday.", "Is it?"), types.Content(role="user"), user("m1")]
    assert await window_on(given, KeepTurns(1), **INSTRUCTED) == [MONDAY, given[-1]]
    given = [MONDAY, said("Yes."), user("m1"), said("a1"), user("m2")]
    assert await window_on(given, KeepTurns(1), **INSTRUCTED) == given[-1:]
    given = [user("m0"), said("a0"), user("")]
    assert await window_on(given, KeepTurns(1)) == given[-1:]
