"""The code_execution processors."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from google.genai import types
from pydantic import Field

from flowloom.context import Context, DirectEffects, InvocationContext
from flowloom.context.hooks import NO_CALLBACKS
from flowloom.errors import ConfigurationError
from flowloom.events import Event, LlmResponse
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest
from flowloom.processors.code_execution import code_execution, code_execution_response, find_code
from flowloom.processors.code_executors import (
    BaseCodeExecutor,
    BuiltInCodeExecutor,
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from flowloom.processors.local_code_executor import LocalCodeExecutor
from flowloom.processors.planners import PlanReActPlanner

CODE = "```tool_code\nprint(1)\n```"
OK = types.Outcome.OUTCOME_OK
FAILED = types.Outcome.OUTCOME_FAILED
DEADLINE = types.Outcome.OUTCOME_DEADLINE_EXCEEDED


class _Flow:
    callbacks = NO_CALLBACKS


class _Agent:
    """As much of an LLM agent as these processors look at."""

    name = "coder"
    description = ""
    sub_agents = ()
    is_llm_agent = True
    flow = _Flow()

    def __init__(self, executor: Any = None, planner: Any = None) -> None:
        self.code_executor = executor
        self.planner = planner


class _Scripted(BaseCodeExecutor):
    """Answers with what it was told to, and remembers what it was asked."""

    result: CodeExecutionResult | Exception = CodeExecutionResult(stdout="1\n", exit_code=0)
    asked: list[CodeExecutionInput] = Field(default_factory=list)

    async def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        self.asked.append(code_execution_input)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def _context(executor: Any = None, planner: Any = None, **arguments: Any) -> InvocationContext:
    return InvocationContext(agent=_Agent(executor, planner), **arguments)  # type: ignore[arg-type]


def _response(*parts: types.Part | str, **fields: Any) -> LlmResponse:
    return LlmResponse(content=_content("model", *parts), **fields)


def _content(role: str, *parts: types.Part | str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=part) if isinstance(part, str) else part for part in parts])


def _code_part(code: str) -> types.Part:
    return types.Part(executable_code=types.ExecutableCode(code=code, language=types.Language.PYTHON))


def _result_part(output: str | None = "1", outcome: types.Outcome = OK) -> types.Part:
    return types.Part(code_execution_result=types.CodeExecutionResult(outcome=outcome, output=output))


async def _respond(ctx: InvocationContext, response: LlmResponse) -> list[Event]:
    """The events of the response processor, recorded as a flow records them."""
    produced = code_execution_response(ctx, LlmRequest(), response)
    return [] if produced is None else [await ctx.run.record(ctx, event) async for event in produced]


def _outcome(event: Event) -> types.CodeExecutionResult:
    assert event.content is not None
    assert event.content.parts is not None
    result = event.content.parts[-1].code_execution_result
    assert result is not None
    return result


class TestRequest:
    def test_an_agent_without_an_executor_leaves_the_request_alone(self) -> None:
        request = LlmRequest(contents=[_content("model", _code_part("1"))])
        before = request.model_copy(deep=True)
        code_execution(_context(None), request)
        assert request == before

    def test_what_is_no_executor_is_an_error_that_names_the_agent(self) -> None:
        with pytest.raises(ConfigurationError, match=r"`coder` is a str"):
            code_execution(_context("python"), LlmRequest())

    def test_the_model_is_told_in_which_form_to_write_code(self) -> None:
        request = LlmRequest()
        code_execution(_context(_Scripted(code_block_delimiters=[("<run>", "</run>")])), request)
        text = request.config.system_instruction
        assert isinstance(text, str)
        assert "<run>print(6 * 7)</run>" in text

    def test_an_executor_may_leave_telling_the_model_to_the_agents_instruction(self) -> None:
        class Silent(_Scripted):
            def code_instruction(self) -> str | None:
                return None

        request = LlmRequest()
        code_execution(_context(Silent()), request)
        assert request.config.system_instruction is None

    def test_earlier_code_is_shown_between_the_first_pair_of_delimiters(self) -> None:
        request = LlmRequest(contents=[_content("model", "Look:", _code_part("print(1)"))])
        code_execution(_context(_Scripted()), request)
        assert request.contents == [_content("model", "Look:", CODE)]

    def test_earlier_results_are_shown_between_their_delimiters_as_the_users(self) -> None:
        request = LlmRequest(contents=[_content("model", _result_part("1"))])
        code_execution(_context(_Scripted()), request)
        assert request.contents == [_content("user", "```tool_output\n1\n```")]

    def test_a_result_without_output_is_shown_empty(self) -> None:
        request = LlmRequest(contents=[_content("model", _result_part(None))])
        code_execution(_context(_Scripted()), request)
        assert request.contents == [_content("user", "```tool_output\n\n```")]

    def test_code_that_the_model_ran_itself_stays_the_models(self) -> None:
        request = LlmRequest(contents=[_content("model", _code_part("print(1)"), _result_part("1"), "So 1.")])
        code_execution(_context(_Scripted()), request)
        assert request.contents == [_content("model", CODE, "```tool_output\n1\n```", "So 1.")]

    @pytest.mark.parametrize("shared", [True, False], ids=["shared", "plain list"])
    def test_showing_code_as_text_leaves_the_history_as_it_is(self, shared: bool) -> None:
        stored = _content("model", _code_part("print(1)"))
        request = LlmRequest.empty("m")
        request.contents = SharedContents([stored]) if shared else [stored]
        code_execution(_context(_Scripted()), request)
        assert stored == _content("model", _code_part("print(1)"))
        assert request.contents[0] == _content("model", CODE)

    def test_contents_without_code_are_not_copied(self) -> None:
        plain = _content("user", "hello")
        contents = SharedContents([plain])
        request = LlmRequest.empty("m")
        request.contents = contents
        code_execution(_context(_Scripted()), request)
        assert contents.plain()[0] is plain
        assert not contents.touched


class TestBuiltInExecutor:
    @pytest.mark.parametrize(
        "model",
        [
            "gemini-2.0-flash",
            "gemini-3.5-flash",
            "gemini-10-pro",
            "gemini-flash-latest",
            "models/gemini-2.5-pro",
            "projects/p/locations/l/publishers/google/models/gemini-2.5-pro",
        ],
    )
    def test_a_gemini_model_from_version_2_on_gets_the_tool(self, model: str) -> None:
        request = LlmRequest(model=model)
        code_execution(_context(BuiltInCodeExecutor()), request)
        assert request.config.tools == [types.Tool(code_execution=types.ToolCodeExecution())]

    def test_the_tool_is_put_beside_those_that_are_there_and_only_once(self) -> None:
        search = types.Tool(google_search=types.GoogleSearch())
        request = LlmRequest(model="gemini-2.5-flash")
        request.config.tools = tools = [search]
        code_execution(_context(BuiltInCodeExecutor()), request)
        code_execution(_context(BuiltInCodeExecutor()), request)
        assert request.config.tools == [search, types.Tool(code_execution=types.ToolCodeExecution())]
        assert tools == [search]

    def test_it_adds_no_instruction_and_leaves_code_in_the_history_alone(self) -> None:
        contents = [_content("model", _code_part("1"), _result_part("1"))]
        request = LlmRequest(model="gemini-2.5-flash", contents=contents)
        code_execution(_context(BuiltInCodeExecutor()), request)
        assert request.config.system_instruction is None
        assert request.contents == [_content("model", _code_part("1"), _result_part("1"))]

    async def test_it_leaves_responses_alone(self) -> None:
        response = _response(_code_part("1"), CODE)
        assert await _respond(_context(BuiltInCodeExecutor()), response) == []
        assert response.content is not None


class TestFindingCode:
    def find(self, *parts: types.Part | str, **options: Any) -> tuple[list[types.Part], str] | None:
        return find_code(_content("model", *parts).parts or [], _Scripted().code_block_delimiters, **options)

    def test_text_up_to_the_block_is_kept_and_what_follows_is_dropped(self) -> None:
        assert self.find(f"Let me see:\n{CODE}\nIt is 7.") == (
            [types.Part(text="Let me see:\n"), _code_part("print(1)")],
            "print(1)",
        )

    def test_the_block_that_begins_first_is_run(self) -> None:
        found = self.find("```python\na\n```\n```tool_code\nb\n```")
        assert found is not None
        assert found[1] == "a"

    def test_a_block_may_go_on_in_the_next_part(self) -> None:
        assert self.find("Now ```tool_code\npri", "nt(1)\n``` ok") == (
            [types.Part(text="Now "), _code_part("print(1)")],
            "print(1)",
        )

    def test_parts_before_the_block_are_kept(self) -> None:
        thought = types.Part(text="hm", thought=True)
        found = self.find(thought, "Look.", CODE)
        assert found is not None
        assert found[0] == [thought, types.Part(text="Look."), _code_part("print(1)")]

    @pytest.mark.parametrize(
        "text",
        ["```tool_code\nprint(1)", "```js\nalert(1)\n```", "```tool_code\n \n```"],
        ids=["not closed", "of another language", "empty"],
    )
    def test_a_block_is_no_code_when_it_is(self, text: str) -> None:
        assert self.find(text) is None

    def test_an_executable_code_part_is_code(self) -> None:
        assert self.find("Look:", _code_part("1"), "and") == ([types.Part(text="Look:"), _code_part("1")], "1")

    def test_an_executable_code_part_that_has_its_result_is_done(self) -> None:
        assert self.find(_code_part("1"), _result_part("1"), "So.") is None

    def test_a_function_call_before_the_code_comes_first(self) -> None:
        call = types.Part(function_call=types.FunctionCall(name="look", args={}))
        assert self.find(call, CODE) is None

    def test_code_before_a_function_call_comes_first(self) -> None:
        call = types.Part(function_call=types.FunctionCall(name="look", args={}))
        assert self.find(CODE, call) == ([_code_part("print(1)")], "print(1)")

    def test_code_in_thoughts_is_not_run(self) -> None:
        assert self.find(types.Part(text=CODE, thought=True)) is None

    def test_code_in_a_plan_is_run(self) -> None:
        plan = types.Part(text=f"First {CODE}", thought=True)
        assert self.find(plan, in_plans=True) == (
            [types.Part(text="First ", thought=True), _code_part("print(1)")],
            "print(1)",
        )

    def test_code_in_a_thought_that_the_model_signed_is_not_run_even_in_plans(self) -> None:
        assert self.find(types.Part(text=CODE, thought=True, thought_signature=b"s"), in_plans=True) is None

    def test_a_signature_of_the_text_goes_to_the_code(self) -> None:
        found = self.find(types.Part(text=f"Look {CODE}", thought_signature=b"s"))
        assert found is not None
        assert [part.thought_signature for part in found[0]] == [None, b"s"]


class TestResponse:
    async def test_code_gives_an_event_with_the_code_and_one_with_its_result(self) -> None:
        code, result = await _respond(_context(_Scripted()), _response(f"Look:\n{CODE}"))
        assert code.content == _content("model", "Look:\n", _code_part("print(1)"))
        assert result.content == _content("model", _result_part("1", OK))
        assert [code.author, result.author] == ["coder", "coder"]

    async def test_the_responses_content_is_taken_so_that_the_model_is_called_again(self) -> None:
        response = _response(CODE)
        content = response.content
        _, result = await _respond(_context(_Scripted()), response)
        assert response.content is None
        assert content == _content("model", CODE)
        assert not result.is_final_response()

    async def test_the_event_with_the_code_carries_the_rest_of_the_response(self) -> None:
        usage = types.GenerateContentResponseUsageMetadata(total_token_count=7)
        code, result = await _respond(_context(_Scripted()), _response(CODE, usage_metadata=usage, model_version="m-1"))
        assert (code.usage_metadata, code.model_version) == (usage, "m-1")
        assert result.usage_metadata is None

    async def test_a_response_without_code_stays(self) -> None:
        response = _response("It is 42.")
        assert await _respond(_context(_Scripted()), response) == []
        assert response.content == _content("model", "It is 42.")

    @pytest.mark.parametrize("fields", [{"partial": True}, {"error_code": "MAX_TOKENS"}, {"interrupted": True}])
    async def test_code_in_an_incomplete_response_is_not_run(self, fields: dict[str, Any]) -> None:
        response = _response(CODE, **fields)
        assert await _respond(_context(_Scripted()), response) == []
        assert response.content is not None

    async def test_an_agent_without_an_executor_runs_nothing(self) -> None:
        assert await _respond(_context(None), _response(CODE)) == []

    async def test_code_that_a_planner_marked_as_action_is_run(self) -> None:
        ctx = _context(_Scripted(), planner=PlanReActPlanner())
        events = await _respond(ctx, _response(types.Part(text=CODE, thought=True)))
        assert len(events) == 2

    async def test_code_in_a_thought_of_the_models_own_is_not_run(self) -> None:
        """Without a planner nobody else has marked it."""
        assert await _respond(_context(_Scripted()), _response(types.Part(text=CODE, thought=True))) == []

    async def test_a_sync_executor_runs_in_a_thread(self) -> None:
        class Blocking(BaseCodeExecutor):
            def execute_code(
                self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
            ) -> CodeExecutionResult:
                return CodeExecutionResult(stdout=threading.current_thread().name)

        _, result = await _respond(_context(Blocking()), _response(CODE))
        assert _outcome(result).output == "flowloom:code_execution"

    async def test_code_runs_through_the_effects(self) -> None:
        class Replay(DirectEffects):
            async def call_tool(self, ctx: InvocationContext, tool: Any, args: dict[str, Any], context: Context) -> Any:
                assert (tool.name, args) == ("code_execution", {"code": "print(1)"})
                return {"outcome": "OUTCOME_OK", "output": "from the record"}

        executor = _Scripted()
        _, result = await _respond(_context(executor, effects=Replay()), _response(CODE))
        assert _outcome(result).output == "from the record"
        assert executor.asked == []

    @pytest.mark.parametrize("stateful", [True, False])
    async def test_only_a_stateful_executor_is_told_whose_state_to_use(self, stateful: bool) -> None:
        executor = _Scripted(stateful=stateful)
        ctx = _context(executor)
        await _respond(ctx, _response(CODE))
        assert executor.asked[0].execution_id == (ctx.session.id if stateful else None)


class TestResult:
    async def result(self, result: CodeExecutionResult | Exception, **options: Any) -> types.CodeExecutionResult:
        _, event = await _respond(_context(_Scripted(result=result, **options)), _response(CODE))
        return _outcome(event)

    async def test_what_the_code_printed_is_the_output(self) -> None:
        result = await self.result(CodeExecutionResult(stdout="a\nb\n", exit_code=0))
        assert (result.outcome, result.output) == (OK, "a\nb")

    async def test_code_that_printed_nothing_says_so(self) -> None:
        assert "printed nothing" in ((await self.result(CodeExecutionResult(exit_code=0))).output or "")

    async def test_warnings_of_code_that_ran_to_its_end_are_no_failure(self) -> None:
        result = await self.result(CodeExecutionResult(stdout="1\n", stderr="careful\n", exit_code=0))
        assert result == types.CodeExecutionResult(outcome=OK, output="1\ncareful")

    async def test_code_that_failed_shows_what_it_printed_and_its_error(self) -> None:
        result = await self.result(CodeExecutionResult(stdout="1\n", stderr="NameError\n", exit_code=1))
        assert result == types.CodeExecutionResult(outcome=FAILED, output="1\nNameError")

    async def test_an_error_text_is_a_failure_where_there_is_no_exit_code(self) -> None:
        assert (await self.result(CodeExecutionResult(stderr="NameError"))).outcome is FAILED

    async def test_code_that_failed_without_a_word_shows_its_exit_status(self) -> None:
        result = await self.result(CodeExecutionResult(exit_code=3))
        assert (result.outcome, result.output) == (FAILED, "The code ended with exit status 3.")

    async def test_a_time_limit_reached_is_told_with_what_was_printed_before(self) -> None:
        result = await self.result(CodeExecutionResult(stdout="1\n", timed_out=True), timeout_seconds=2)
        assert result.outcome is DEADLINE
        assert result.output == "1\nThe code was stopped at its time limit of 2 seconds."

    async def test_an_executor_that_raises_is_a_failure_that_the_model_sees(self) -> None:
        result = await self.result(RuntimeError("no kernel"))
        assert (result.outcome, result.output) == (FAILED, "RuntimeError: no kernel")

    async def test_an_executor_that_raises_a_timeout_has_reached_its_time_limit(self) -> None:
        assert (await self.result(TimeoutError())).outcome is DEADLINE


class TestFiles:
    async def test_output_files_become_artifacts_of_the_result_event(self) -> None:
        made = CodeExecutionResult(output_files=[File("a.csv", b"x,y", "text/csv")], exit_code=0)
        ctx = _context(_Scripted(result=made))
        _, event = await _respond(ctx, _response(CODE))
        assert event.actions.artifact_delta == {"a.csv": 0}
        saved = await Context(ctx).load_artifact("a.csv")
        assert saved is not None
        assert saved.inline_data == types.Blob(data=b"x,y", mime_type="text/csv")
        assert "`a.csv`" in (_outcome(event).output or "")

    async def test_a_file_in_a_directory_becomes_an_artifact_with_the_path_in_its_name(self) -> None:
        made = CodeExecutionResult(output_files=[File("plots/a.png", b"x", "image/png")], exit_code=0)
        _, event = await _respond(_context(_Scripted(result=made)), _response(CODE))
        assert event.actions.artifact_delta == {"plots_a.png": 0}

    async def test_without_an_artifact_service_the_model_is_told_that_files_are_lost(self) -> None:
        made = CodeExecutionResult(stdout="1", output_files=[File("a.csv", b"x")], exit_code=0)
        _, event = await _respond(_context(_Scripted(result=made), artifact_service=None), _response(CODE))
        assert _outcome(event).output == "1\nFiles that could not be saved: `a.csv`"

    def data(self, content: bytes, name: str | None = None) -> types.Part:
        return types.Part(inline_data=types.Blob(data=content, mime_type="text/csv", display_name=name))

    async def test_optimized_data_files_are_named_in_the_request_and_given_to_the_code(self) -> None:
        message = _content("user", "Sum it.", self.data(b"x\n1", "sum.csv"), self.data(b"y\n2"))
        executor = _Scripted(optimize_data_file=True)
        ctx = _context(executor, user_content=message)
        await ctx.start()
        request = LlmRequest.empty("m")
        request.contents = SharedContents([message])
        code_execution(ctx, request)
        await _respond(ctx, _response(CODE))
        files = executor.asked[0].input_files
        assert [(file.data, file.mime_type) for file in files] == [(b"x\n1", "text/csv"), (b"y\n2", "text/csv")]
        assert files[0].name == "sum.csv"
        shown = request.contents[0].parts or []
        assert shown[0].text == "Sum it."
        for part, file in zip(shown[1:], files, strict=True):
            assert f"`{file.name}`" in (part.text or "")
        assert (message.parts or [])[1].inline_data is not None

    async def test_without_optimization_data_files_go_to_the_model_only(self) -> None:
        message = _content("user", self.data(b"x\n1"))
        executor = _Scripted()
        ctx = _context(executor, user_content=message)
        await ctx.start()
        request = LlmRequest(contents=[message])
        code_execution(ctx, request)
        await _respond(ctx, _response(CODE))
        assert request.contents == [message]
        assert executor.asked[0].input_files == []

    async def test_the_name_of_a_data_file_cannot_lead_out_of_the_working_directory(self) -> None:
        executor = _Scripted(optimize_data_file=True)
        ctx = _context(executor, user_content=_content("user", self.data(b"x", "../../etc\\pass.csv")))
        await ctx.start()
        await _respond(ctx, _response(CODE))
        assert [file.name for file in executor.asked[0].input_files] == ["pass.csv"]


def _failing(attempts: int) -> _Scripted:
    return _Scripted(result=CodeExecutionResult(exit_code=1), error_retry_attempts=attempts)


class TestRetries:
    async def _fail(self, ctx: InvocationContext, times: int) -> list[bool]:
        """Whether each of `times` responses with code was run."""
        return [bool(await _respond(ctx, _response(CODE))) for _ in range(times)]

    @pytest.mark.parametrize(("attempts", "runs"), [(0, 1), (1, 1), (2, 2), (3, 3)])
    async def test_after_so_many_failures_in_a_row_code_is_left_unrun(self, attempts: int, runs: int) -> None:
        ctx = _context(_failing(attempts))
        assert await self._fail(ctx, runs + 1) == [True] * runs + [False]

    async def test_a_response_that_is_not_run_keeps_its_content(self) -> None:
        ctx = _context(_failing(1))
        await self._fail(ctx, 1)
        response = _response(CODE)
        assert await _respond(ctx, response) == []
        assert response.content == _content("model", CODE)

    async def test_a_success_starts_the_count_again(self) -> None:
        executor = _Scripted(result=CodeExecutionResult(exit_code=1))
        ctx = _context(executor)
        await self._fail(ctx, 1)
        executor.result = CodeExecutionResult(exit_code=0)
        await self._fail(ctx, 1)
        executor.result = CodeExecutionResult(exit_code=1)
        assert await self._fail(ctx, 3) == [True, True, False]

    async def test_failures_of_another_invocation_do_not_count(self) -> None:
        executor = _failing(1)
        first = _context(executor)
        await self._fail(first, 1)
        second = _context(executor, session=first.session)
        assert await self._fail(second, 1) == [True]

    async def test_failures_on_another_branch_do_not_count(self) -> None:
        executor = _failing(1)
        ctx = _context(executor, branch="p.a")
        await self._fail(ctx, 1)
        assert await self._fail(ctx.model_copy(update={"branch": "p.b"}), 1) == [True]


class TestWithALocalExecutor:
    async def test_the_model_sees_a_time_limit_as_deadline_exceeded(self) -> None:
        ctx = _context(LocalCodeExecutor(timeout_seconds=0.05))
        _, event = await _respond(ctx, _response("```python\nimport time; time.sleep(60)\n```"))
        assert _outcome(event).outcome is DEADLINE

    async def test_files_that_code_writes_become_artifacts(self) -> None:
        ctx = _context(LocalCodeExecutor())
        _, event = await _respond(ctx, _response("```python\nopen('a.txt', 'w').write('hi')\n```"))
        assert event.actions.artifact_delta == {"a.txt": 0}
        assert _outcome(event).outcome is OK
