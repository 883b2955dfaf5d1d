"""The code_execution processors: running the code that a model writes (spec §11c)."""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncGenerator, Sequence
from inspect import isawaitable, iscoroutinefunction
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.context.protocols import AnyLlmAgent
from flowloom.errors import ConfigurationError
from flowloom.events.event import Event
from flowloom.events.json_data import as_json
from flowloom.events.parts import content_of, parts_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.events.wire import replace
from flowloom.models.contents import own_content, special_contents
from flowloom.models.request import LlmRequest
from flowloom.models.server_parts import made_files
from flowloom.objects.notebook import named
from flowloom.objects.on_use import ModuleOnUse
from flowloom.processors.planning import rewrites_responses
from flowloom.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from flowloom.processors import code_executors as kinds
    from flowloom.processors import made_files as provider_files
    from flowloom.processors.code_executors import BaseCodeExecutor, CodeExecutionInput, CodeExecutionResult, File
else:
    kinds = ModuleOnUse("flowloom.processors.code_executors")  # few agents have an executor
    provider_files = ModuleOnUse("flowloom.processors.made_files")  # few answers have files

_log = logging.getLogger("flowloom.code_execution")

DATA_FILES = {"text/csv": ".csv", "text/tab-separated-values": ".tsv"}
"""MIME types of the files that `optimize_data_file` is about, and how their names end."""


def code_execution(ctx: InvocationContext, request: LlmRequest) -> None:
    """How the model can have code run; earlier code and results as it writes and reads them.

    Reads: code executor of the agent, `model`, `contents`.
    Writes: `config.tools` (the model runs code) or `config.system_instruction` and code, results and data files in
        `contents` (an executor does).
    Must come after: basic (model and config), instructions, contents.
    """
    agent = ctx.llm_agent
    executor = None if agent is None else _executor_of(agent)
    if executor is None:
        return
    if isinstance(executor, kinds.BuiltInCodeExecutor):
        executor.process_llm_request(request)
        return
    request.append_instructions(executor.code_instruction() or "")
    for index, content in special_contents(request.contents):
        if any(_is_code(part) for part in content.parts or ()):
            _code_as_text(own_content(request.contents, index), executor)
        if executor.optimize_data_file and content.role == "user" and any(map(_data_of, content.parts or ())):
            _data_as_names(own_content(request.contents, index))


def code_execution_response(
    ctx: InvocationContext, request: LlmRequest, response: LlmResponse
) -> AsyncGenerator[Event, None] | None:
    """Run the code in a complete response: one event with the code, one with its result.

    What follows the code in the response is dropped, because it was written without having seen the result. A
    response that calls a function first is left as it is, and so is every one after too many failures in a row.

    Files that the provider's own tools have made become artifacts, too; the response stays otherwise as it is.

    Reads: code executor and planner of the agent, `content`; the session's events, for earlier failures and data files.
    Writes: `content`: None, so that the model is called again and sees the result. Artifacts: the code's output files.
    Must come after: planning_response, which tells the text of the response apart.
    """
    agent, content = ctx.llm_agent, response.content
    if agent is None or content is None or not content.parts or response.partial:
        return None
    for part in content.parts:
        if part.inline_data is not None:  # as in few answers
            if made := made_files(content.parts):
                return provider_files.save_made(ctx, response, made)
            break
    executor = _executor_of(agent)
    if executor is None or response.error_code or response.interrupted:
        return None
    if isinstance(executor, kinds.BuiltInCodeExecutor):
        return None
    found = find_code(content.parts, executor.code_block_delimiters, in_plans=rewrites_responses(agent.planner))
    return None if found is None else _run_code(ctx, executor, response, *found)


async def _run_code(
    ctx: InvocationContext, executor: BaseCodeExecutor, response: LlmResponse, parts: list[types.Part], code: str
) -> AsyncGenerator[Event, None]:
    failures = _failures_in_a_row(ctx)
    if failures and failures >= executor.error_retry_attempts:
        _log.warning(
            "Agent `%s`: code failed %d times in a row; what the model wrote now is not run.", ctx.agent.name, failures
        )
        return
    yield ctx.response_event(response, {"content": content_of("model", parts)})
    # a tool call, so that whoever records, replays or denies effects has a say in this one too
    context = Context(ctx, call_index=ctx.count_effects("tool", 1))
    answer = _told(await ctx.effects.call_tool(ctx, _RunCode(executor), {"code": code}, context))
    response.content = None
    yield ctx.new_event(
        {
            "content": content_of("model", [types.Part(code_execution_result=answer)]),
            "actions": context.collect_actions(),
        }
    )


def _told(result: Any) -> types.CodeExecutionResult:
    """What came of an execution; what effects answer in the place of its result is a failure, in their words."""
    told = cast(dict[str, Any], result) if isinstance(result, dict) else {"error": result}
    outcome = types.Outcome(told.get("outcome", types.Outcome.OUTCOME_FAILED))
    return types.CodeExecutionResult(outcome=outcome, output=as_json(str(told.get("output", told.get("error", told)))))


def _executor_of(agent: AnyLlmAgent) -> BaseCodeExecutor | None:
    executor: Any = agent.code_executor
    if executor is None or isinstance(executor, kinds.BaseCodeExecutor):
        return executor
    raise ConfigurationError(
        f"The `code_executor` of agent `{agent.name}` is a {type(executor).__name__}, but must be a BaseCodeExecutor."
    )


# -- the request: what the model is shown ----------------------------------------------------------


def _is_code(part: types.Part) -> bool:
    return part.executable_code is not None or part.code_execution_result is not None


def _code_as_text(content: types.Content, executor: BaseCodeExecutor) -> None:
    """Put code and results between the executor's delimiters; a content of nothing but results is the user's."""
    parts = content.parts or []
    before_code, after_code = next(iter(executor.code_block_delimiters), ("", ""))
    before_result, after_result = executor.execution_result_delimiters
    if all(part.code_execution_result is not None for part in parts):
        content.role = "user"
    for index, part in enumerate(parts):
        code, result = part.executable_code, part.code_execution_result
        if code is not None:
            parts[index] = text_part(f"{before_code}{code.code or ''}{after_code}")
            parts[index].thought_signature = part.thought_signature
        elif result is not None:
            parts[index] = text_part(f"{before_result}{result.output or ''}{after_result}")


def _data_of(part: types.Part) -> types.Blob | None:
    blob = part.inline_data
    return blob if blob is not None and blob.mime_type in DATA_FILES and blob.data is not None else None


def _data_as_names(content: types.Content) -> None:
    parts = content.parts or []
    for index, part in enumerate(parts):
        if (data := _data_of(part)) is not None:
            name = _name_of(data)
            parts[index] = text_part(f"(The file `{name}` is in the working directory of code that you have run.)")


def _name_of(data: types.Blob) -> str:
    """The file name of a user's data; without one that a file can have, one that tells different contents apart."""
    name = PurePosixPath((data.display_name or "").replace("\\", "/")).name
    if name and name != ".." and name.isprintable() and len(name.encode()) < 256:
        return name
    return f"data_{zlib.crc32(data.data or b''):08x}{DATA_FILES.get(data.mime_type or '', '')}"


def _data_files(ctx: InvocationContext) -> list[File]:
    """The data files that a request of this session can name. A later one replaces an earlier one of its name."""
    contents = [*(ctx.run_config.model_input_context or ()), *(event.content for event in ctx.session.events)]
    files: dict[str, File] = {}
    for content in contents:
        for part in parts_of(content):
            if (data := _data_of(part)) is not None:
                files[_name_of(data)] = kinds.File(_name_of(data), data.data or b"", data.mime_type or "")
    return list(files.values())


# -- the response: finding code and running it -----------------------------------------------------


def find_code(
    parts: Sequence[types.Part], delimiters: Sequence[tuple[str, str]], *, in_plans: bool = False
) -> tuple[list[types.Part], str] | None:
    """The first code in a response: the parts up to it, the code itself included, and its text.

    Code is an `executable_code` part without a result, or text between one of the pairs of `delimiters`. Function
    calls end the search, because they come first. Thoughts are not searched, save for unsigned ones when `in_plans`
    says that a planner marked them.
    """
    text = ""
    starts: list[tuple[int, int]] = []
    given: tuple[int, types.ExecutableCode] | None = None
    for index, part in enumerate(parts):
        if part.function_call is not None:
            break
        if part.executable_code is not None:
            following = parts[index + 1] if index + 1 < len(parts) else None
            if following is None or following.code_execution_result is None:
                given = (index, part.executable_code)
                break
        elif part.text and (not part.thought or (in_plans and part.thought_signature is None)):
            starts.append((index, len(text)))
            text += part.text
    block = _first_block(text, delimiters)
    if block is None:
        return None if given is None or not given[1].code else (list(parts[: given[0] + 1]), given[1].code)
    start, code = block
    index, offset = next(found for found in reversed(starts) if found[1] <= start)
    kept, cut = list(parts[:index]), parts[index]
    if start > offset:
        kept.append(replace(cut, text=text[offset:start], thought_signature=None))
    own = types.ExecutableCode(code=code, language=types.Language.PYTHON)
    # the signature is of all of the part, so it goes to the last piece
    return [*kept, types.Part(executable_code=own, thought_signature=cut.thought_signature)], code


def _first_block(text: str, delimiters: Sequence[tuple[str, str]]) -> tuple[int, str] | None:
    """Where the first closed block of code begins, and its code; None if there is none, or it is empty."""
    first: tuple[int, str] | None = None
    for before, after in delimiters:
        start = text.find(before) if before else -1
        end = text.find(after, start + len(before)) if start >= 0 and after else -1
        if end >= 0 and (first is None or start < first[0]):
            first = (start, text[start + len(before) : end])
    return first if first is not None and first[1].strip() else None


def _failures_in_a_row(ctx: InvocationContext) -> int:
    """How many of this agent's latest executions in this invocation failed, as the session tells it."""
    failures = 0
    for event in reversed(ctx.session.events):
        if event.invocation_id != ctx.invocation_id or event.author != ctx.agent.name or event.branch != ctx.branch:
            continue
        parts = event.content.parts if event.content is not None else None
        if not parts or len(parts) > 1 or parts[0].code_execution_result is None:
            continue
        if parts[0].code_execution_result.outcome is types.Outcome.OUTCOME_OK:
            break
        failures += 1
    return failures


class _RunCode(BaseTool):
    """One execution, as an effect. Its result and its context's actions are all that is to be known of it."""

    def __init__(self, executor: BaseCodeExecutor) -> None:
        super().__init__(name="code_execution", description="Runs the code that the model wrote.")
        self._executor = executor

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> dict[str, str]:
        ctx, executor = tool_context.get_invocation_context(), self._executor
        task = kinds.CodeExecutionInput(
            code=args["code"],
            input_files=_data_files(ctx) if executor.optimize_data_file else [],
            execution_id=ctx.session.id if executor.stateful else None,
        )
        return await run_task(executor, task, tool_context)


async def run_task(executor: BaseCodeExecutor, task: CodeExecutionInput, tool_context: Context) -> dict[str, str]:
    """Have an `executor` run the `task` of a tool call, and keep the files that it writes as artifacts.

    The result is what a model is told: the `outcome`, and the `output` in words. What the executor raises is in it.
    """
    ctx = tool_context.get_invocation_context()
    try:
        result = await _execute(ctx, executor, task)
    except TimeoutError as error:
        result = kinds.CodeExecutionResult(stderr=str(error), timed_out=True)
    except Exception as error:
        kind = type(executor).__name__
        _log.warning("%s of agent `%s` failed.", kind, ctx.agent.name, exc_info=True)
        result = kinds.CodeExecutionResult(stderr=named(error))
    said = [result.stdout.rstrip("\n"), result.stderr.rstrip("\n"), _ending(result, executor)]
    said += await _save(result.output_files, tool_context)
    output = "\n".join(text for text in said if text) or "The code ran to its end and printed nothing."
    return {"outcome": _outcome(result).value, "output": as_json(output)}


async def _execute(ctx: InvocationContext, executor: BaseCodeExecutor, task: CodeExecutionInput) -> CodeExecutionResult:
    await ctx.run.check_lease()
    if iscoroutinefunction(executor.execute_code):
        return await executor.execute_code(ctx, task)
    result: Any = await ctx.run.threads.call("code_execution", cast(Any, executor.execute_code), ctx, task)
    return await result if isawaitable(result) else result


def _outcome(result: CodeExecutionResult) -> types.Outcome:
    if result.timed_out:
        return types.Outcome.OUTCOME_DEADLINE_EXCEEDED
    return types.Outcome.OUTCOME_FAILED if result.failed else types.Outcome.OUTCOME_OK


def _ending(result: CodeExecutionResult, executor: BaseCodeExecutor) -> str:
    """How the code ended, where its own words do not say it."""
    if result.timed_out:
        limit = executor.timeout_seconds
        allowed = "the time limit" if limit is None else f"its time limit of {limit:g} seconds"
        return f"The code was stopped at {allowed}."
    if result.failed and not result.stderr.strip():
        return f"The code ended with exit status {result.exit_code}."
    return ""


async def _save(files: Sequence[File], context: Context) -> list[str]:
    """Save files as artifacts, and tell the model what became of them."""
    saved: list[str] = []
    lost: list[str] = []
    for file in files:
        name = as_json(file.name.replace("/", "_"))  # artifacts have no directories, and what is told is JSON
        try:
            await context.save_artifact(name, types.Part.from_bytes(data=file.data, mime_type=file.mime_type))
            saved.append(f"`{name}`")
        except Exception as error:
            _log.warning("File `%s`, written by code, was not saved: %s", file.name, error)
            lost.append(f"`{name}`")
    told = [f"Files saved as artifacts: {', '.join(saved)}"] if saved else []
    return told + ([f"Files that could not be saved: {', '.join(lost)}"] if lost else [])
