"""The fine print of code execution: which text is code, which failures count, and which data files the code gets."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
from google.genai import types
from processors.test_code_execution import (
    CODE,
    FAILED,
    OK,
    _code_part,
    _content,
    _context,
    _failing,
    _outcome,
    _respond,
    _response,
    _result_part,
    _Scripted,
)

from flowloom.context import Context, DirectEffects, InvocationContext
from flowloom.events import Event, LlmResponse
from flowloom.models.request import LlmRequest
from flowloom.models.server_parts import made_file
from flowloom.processors.code_execution import code_execution, find_code
from flowloom.processors.code_executors import BaseCodeExecutor, CodeExecutionInput, CodeExecutionResult, File

RUN = ("<run>", "</run>")
CALL = types.Part(function_call=types.FunctionCall(name="look", args={}))


@pytest.mark.parametrize(
    ("delimiters", "text", "code"),
    [
        ([RUN], "<run>1</run>", "1"),
        ([RUN], "</run><run>1</run><run>2</run>", "1"),
        ([RUN], "<run></run><run>2</run>", None),
        ([("", "</run>"), RUN], "x</run><run>1</run>", "1"),
        ([("<run>", ""), RUN], "<run>1</run>", "1"),
        ([("", "</run>")], "1</run>", None),
        ([RUN, ("<run>", "</")], "<run>1</run>", "1"),
        ([("<run>", "</"), RUN], "<run>1</run>", "1"),
        ([("<run>", "!"), RUN], "<run>1</run>!", "1</run>"),
        ([RUN, ("<", "!")], "<run>1</run>!", "1"),
        ([("<b>", "</b>"), RUN], "<run>1</run><b>2</b>", "1"),
        ([], "<run>1</run>", None),
    ],
)
def test_the_pair_of_delimiters_that_begins_first_marks_the_code(
    delimiters: list[tuple[str, str]], text: str, code: str | None
) -> None:
    """Of two that begin at one place the first in the list; half a pair marks nothing."""
    found = find_code([types.Part(text=text)], delimiters)
    assert (None if found is None else found[1]) == code


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ([_code_part("1")], 1),
        ([CALL, _code_part("1")], 0),
        (["a", _code_part("1"), CALL], 2),
        ([_code_part("1"), _result_part("1")], 0),
        ([_code_part("1"), _result_part("1"), _code_part("2")], 3),
        ([_code_part("1"), _code_part("2"), _result_part("2")], 1),
        ([_code_part("")], 0),
        ([CODE, _code_part("1")], 1),
    ],
)
def test_a_part_with_code_is_run_if_no_result_follows_it(parts: list[Any], kept: int) -> None:
    """All parts up to it are kept; a call before it comes first."""
    given = _content("model", *parts).parts or []
    found = find_code(given, [("```tool_code\n", "\n```")])
    assert (0 if found is None else len(found[0])) == kept


def test_text_is_searched_across_parts_and_what_is_kept_keeps_its_kind() -> None:
    """A thought between the pieces of a block is passed over; the block takes the place of the part it begins in."""
    thought = types.Part(text="hm", thought=True, thought_signature=b"t")
    parts = [types.Part(text="a"), types.Part(text="b<run>1"), thought, types.Part(text="2</run>c")]
    assert find_code(parts, [RUN], in_plans=True) == ([*parts[:1], types.Part(text="b"), _code_part("12")], "12")
    assert find_code([types.Part(text="a"), types.Part(text="<run>1</run>")], [RUN]) == (
        [types.Part(text="a"), _code_part("1")],
        "1",
    )


async def test_a_response_without_parts_is_left_as_it_is() -> None:
    for content in (None, types.Content(role="model"), types.Content(role="model", parts=[])):
        assert await _respond(_context(_Scripted()), LlmResponse(content=content)) == []


async def test_a_picture_beside_the_code_is_no_file_of_the_providers_tools() -> None:
    """The code is run as without it, and the picture stays before it."""
    picture = data(b"x", kind="image/png")
    code, _ = await _respond(_context(_Scripted()), _response(picture, CODE, picture))
    assert code.content == _content("model", picture, _code_part("print(1)"))


async def test_a_file_of_the_providers_tools_is_kept_also_if_nothing_stands_beside_it() -> None:
    (event,) = await _respond(_context(_Scripted()), _response(made_file("a.png", "code_execution", "image/png", b"x")))
    assert event.actions.artifact_delta == {"a.png": 0}


async def test_each_execution_of_a_step_has_a_number_of_its_own() -> None:
    """So that who records effects can tell them apart; they count with the step's tool calls."""
    seen: list[Any] = []

    class Noted(DirectEffects):
        async def call_tool(self, ctx: InvocationContext, tool: Any, args: dict[str, Any], context: Context) -> Any:
            seen.append((ctx is own, context.call_index))
            return await super().call_tool(ctx, tool, args, context)

    own = _context(_Scripted(), effects=Noted())
    for _ in range(3):
        await _respond(own, _response(CODE))
        own.count_effects("tool", 2)
    assert seen == [(True, 0), (True, 3), (True, 6)]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"error": "not allowed here"}, "not allowed here"),
        ("no", "no"),
        ({"a": 1}, "{'a': 1}"),
        ({}, "{}"),
        (None, "None"),
    ],
)
async def test_effects_that_refuse_an_execution_are_a_failure_that_the_model_sees(answer: Any, told: str) -> None:
    """Whatever they answer in the place of a result."""

    class Denied(DirectEffects):
        async def call_tool(self, ctx: InvocationContext, tool: Any, args: dict[str, Any], context: Context) -> Any:
            return answer

    executor = _Scripted()
    _, result = await _respond(_context(executor, effects=Denied()), _response(CODE))
    assert (_outcome(result).outcome, _outcome(result).output) == (FAILED, told)
    assert executor.asked == []


async def test_an_executor_that_is_not_async_may_give_an_awaitable() -> None:
    class Late(BaseCodeExecutor):
        def execute_code(
            self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
        ) -> Awaitable[CodeExecutionResult]:
            async def later() -> CodeExecutionResult:
                return CodeExecutionResult(stdout=f"{invocation_context.agent.name} {code_execution_input.code}")

            return later()

    _, result = await _respond(_context(Late()), _response(CODE))
    assert (_outcome(result).outcome, _outcome(result).output) == (OK, "coder print(1)")


SAVED = [File("a", b"1"), File("b", b"2")]
LOST = [File("a", "not base64"), File("b", "nor this")]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (CodeExecutionResult(stdout="\n  X\n\n", stderr=" XX\n"), "\n  X\n XX"),
        (CodeExecutionResult(stderr=" \n", exit_code=1), " \nThe code ended with exit status 1."),
        (CodeExecutionResult(stderr="\n", exit_code=1), "The code ended with exit status 1."),
        (CodeExecutionResult(stdout="1", stderr="\n"), "1"),
        (CodeExecutionResult(stderr="no", exit_code=1), "no"),
        (CodeExecutionResult(stdout="1", exit_code=2), "1\nThe code ended with exit status 2."),
        (CodeExecutionResult(timed_out=True, exit_code=1), "The code was stopped at the time limit."),
        (TimeoutError("too slow"), "too slow\nThe code was stopped at the time limit."),
        (CodeExecutionResult(output_files=SAVED), "Files saved as artifacts: `a`, `b`"),
        (CodeExecutionResult(output_files=LOST), "Files that could not be saved: `a`, `b`"),
        (
            CodeExecutionResult(stdout="1", output_files=[LOST[1], SAVED[0]]),
            "1\nFiles saved as artifacts: `a`\nFiles that could not be saved: `b`",
        ),
        (
            CodeExecutionResult(stdout="\ud800", output_files=[File("\ud800", b"")]),
            "\ufffd\nFiles saved as artifacts: `\ufffd`",
        ),
    ],
)
async def test_the_model_is_told_what_the_code_printed_how_it_ended_and_what_became_of_its_files(
    result: CodeExecutionResult | Exception, told: str
) -> None:
    """A line each, without the line ends at the end of what was printed, and as JSON can hold it."""
    _, event = await _respond(_context(_Scripted(result=result)), _response(CODE))
    assert _outcome(event).output == told


async def test_an_error_of_the_executor_is_logged_with_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    await _respond(_context(_Scripted(result=RuntimeError("no kernel"))), _response(CODE))
    (record,) = caplog.records
    assert record.getMessage() == "_Scripted of agent `coder` failed."
    assert record.exc_info


def event_of(*parts: Any, author: str = "coder", ctx: InvocationContext) -> Event:
    content = _content("model", *parts) if parts else None
    return Event(author=author, invocation_id=ctx.invocation_id, content=content)


@pytest.mark.parametrize(
    ("between", "runs"),
    [
        ((), False),
        ((_result_part("ok", OK),), True),
        ((_code_part("1"), _result_part("1", OK)), False),
        ((_result_part("1", OK), "So."), False),
        (("words",), False),
    ],
    ids=["no content", "a success", "code that the model ran itself", "its result and words", "words"],
)
async def test_what_comes_between_failures_ends_the_row_if_it_is_a_success(between: Any, runs: bool) -> None:
    """Nothing else does: no event without content, no words, no code that the model has run itself, no other agent."""
    ctx = _context(_failing(1))
    await _respond(ctx, _response(CODE))
    ctx.session.events.append(event_of(*between, ctx=ctx))
    ctx.session.events.append(event_of(_result_part("ok", OK), author="other", ctx=ctx))
    assert bool(await _respond(ctx, _response(CODE))) is runs


async def test_failures_of_code_that_the_model_ran_itself_do_not_count() -> None:
    ctx = _context(_failing(1))
    ctx.session.events.append(event_of(_code_part("1"), _result_part("1", FAILED), ctx=ctx))
    assert await _respond(ctx, _response(CODE))


def data(content: bytes | None, name: str | None = None, kind: str | None = "text/csv") -> types.Part:
    return types.Part(inline_data=types.Blob(data=content, mime_type=kind, display_name=name))


CSV, TSV = data(b"a,b"), data(b"a\tb", kind="text/tab-separated-values")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (data(b"x", "a.csv"), "a.csv"),
        (data(b"x", "d/a.csv"), "a.csv"),
        (data(b"x", "d\\a.csv"), "a.csv"),
        (data(b"x", ".."), "data_8cdc1683.csv"),
        (data(b"x", "a\0b.csv"), "data_8cdc1683.csv"),
        (data(b"x", "a\nb.csv"), "data_8cdc1683.csv"),
        (data(b"x", "é" * 127 + "x"), "é" * 127 + "x"),
        (data(b"x", "é" * 128), "data_8cdc1683.csv"),
        (data(b"x", "d/.."), "data_8cdc1683.csv"),
        (data(b"x", "/"), "data_8cdc1683.csv"),
        (data(b"x", ""), "data_8cdc1683.csv"),
        (data(b"x"), "data_8cdc1683.csv"),
        (data(b"y"), "data_fbdb2615.csv"),
        (data(b""), "data_00000000.csv"),
        (data(b"x", kind="text/tab-separated-values"), "data_8cdc1683.tsv"),
        (data(b"x", "a.png", "image/png"), None),
        (data(b"x", "a", None), None),
        (data(None, "a.csv"), None),
        (types.Part(text="a"), None),
    ],
)
async def test_data_files_have_a_name_of_their_own_or_one_that_tells_contents_apart(
    part: types.Part, name: str | None
) -> None:
    """The request names what the code finds in its directory, and nothing else is taken out of it."""
    executor = _Scripted(optimize_data_file=True)
    message = _content("user", part, CSV, types.Part(text="Sum."))
    ctx = _context(executor, user_content=message)
    await ctx.start()
    ctx.session.events.append(event_of(ctx=ctx))
    request = LlmRequest(contents=[message])
    code_execution(ctx, request)
    await _respond(ctx, _response(CODE))
    files = executor.asked[0].input_files
    assert [file.name for file in files][:-1] == ([] if name is None else [name])
    shown = request.contents[0].parts or []
    if name is None:
        assert shown[0] == part
    else:
        assert f"`{name}`" in (shown[0].text or "")
        assert files[0] == File(name, (part.inline_data and part.inline_data.data) or b"", files[0].mime_type)
        assert files[0].mime_type in ("text/csv", "text/tab-separated-values")
    assert f"`{files[-1].name}`" in (shown[1].text or "")
    assert shown[2].text == "Sum."


async def test_only_the_users_data_files_are_named_and_a_later_one_replaces_an_earlier_one() -> None:
    """Those of the messages that stand before the session are among them."""
    executor = _Scripted(optimize_data_file=True)
    theirs = _content("model", CSV)
    ctx = _context(executor, user_content=_content("user", data(b"new", "a.csv"), TSV))
    ctx.run_config.model_input_context = [_content("user", data(b"old", "a.csv"), data(b"x", "b.csv")), theirs]
    await ctx.start()
    request = LlmRequest(contents=[theirs])
    code_execution(ctx, request)
    assert request.contents == [_content("model", CSV)]
    await _respond(ctx, _response(CODE))
    assert [(file.name, file.data) for file in executor.asked[0].input_files][:2] == [
        ("a.csv", b"new"),
        ("b.csv", b"x"),
    ]


def test_code_that_is_shown_keeps_its_signature_and_without_delimiters_it_is_bare() -> None:
    """Code without text is shown empty; a result between other parts stays the model's."""
    signed = _code_part("1")
    signed.thought_signature = b"s"
    empty = types.Part(executable_code=types.ExecutableCode(language=types.Language.PYTHON))
    request = LlmRequest(contents=[_content("model", signed, empty), _content("model", _result_part("1"), "So.")])
    code_execution(_context(_Scripted(code_block_delimiters=[])), request)
    first, second = request.contents
    assert first.parts == [types.Part(text="1", thought_signature=b"s"), types.Part(text="")]
    assert second == _content("model", "```tool_output\n1\n```", "So.")


def test_an_agent_that_is_no_llm_agent_has_no_code_run() -> None:
    ctx = _context(_Scripted())
    ctx.llm_agent = None
    request = LlmRequest(contents=[_content("model", _code_part("1"))])
    code_execution(ctx, request)
    assert request.contents == [_content("model", _code_part("1"))]


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize("others", [(), (("<a>", "</a>"),), (("<a>\n", "</a>"), ("<b>", "</b>"))])
def test_the_model_is_told_of_each_form_and_of_what_stays(stateful: bool, others: tuple[tuple[str, str], ...]) -> None:
    told = _Scripted(stateful=stateful, code_block_delimiters=[RUN, *others]).code_instruction() or ""
    assert "\n<run>print(6 * 7)</run>\n" in told
    assert ("are still there" in told, "starts from nothing" in told) == (stateful, not stateful)
    forms = ", ".join(f"`{before.strip()}`" for before, _ in others)
    assert (f"begins with {forms} is run as well" in told) if others else ("as well" not in told)
