"""`ServedCall`: one call of a client as a run of ours (protocols spec §2)."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from google.genai import types

from flowloom.context import RunConfig
from flowloom.errors import LimitExceededError, SessionBusyError
from flowloom.protocols.mcp.serving.artifacts import links_of
from flowloom.protocols.mcp.serving.callers import Caller, Request, failure
from flowloom.protocols.mcp.serving.conversations import Served, Where
from flowloom.protocols.mcp.serving.elicitation import Question, question_of, waiting_told
from flowloom.protocols.mcp.serving.sdk import INVALID_PARAMS, MCPError, mcp
from flowloom.run_stream import MessageCompleted, RunStreamEvent, ToolCallFinished, ToolCallProgress, ToolCallStarted
from flowloom.runner import RunResult, answers, pending_calls

_log = logging.getLogger("flowloom.mcp")
_MOST_QUESTIONS = 100
"""How often one call may ask a person, so that an answer that never fits is not asked for without end."""
CallResult = mcp.CallToolResult | mcp.InputRequiredResult
Told = Callable[[RunResult[Any]], Awaitable[mcp.CallToolResult]]


class ServedCall:
    """A call of `caller`, made by `request`, in the session at `where`; `told` makes its result.

    `exact` says that the call is that of a tool, whose own progress is told as it is; an agent's steps are counted.
    `followed` says that there may be progress.
    """

    def __init__(
        self,
        served: Served,
        caller: Caller,
        request: Request,
        where: Where,
        told: Told,
        *,
        exact: bool,
        followed: bool = True,
    ) -> None:
        self._served, self._caller, self._request = served, caller, request
        self._where, self._told = where, told
        self._exact, self._followed = exact, followed
        self._progress = -1.0

    async def answered(self, message: types.Content, config: RunConfig | None) -> CallResult:
        """What comes of a `message`, which is run with `config`: asks the person at the client where that is needed."""
        await self._served.open(self._where)
        return await self._played(message, config, ())

    async def resumed(self, state: Mapping[str, Any], given: Mapping[str, Any]) -> CallResult:
        """What comes of the answers `given`, by id, to the questions of an earlier result, whose `state` came back."""
        runner = self._served.runner
        session = await runner.session_service.get_session(app_name=runner.app_name, **self._where._asdict())
        pending = [] if session is None else pending_calls(session.events, state["invocation"])
        visited: list[str] = list(state["visited"])
        questions = [question_of(each, self._caller, visited) for each in pending]
        if not questions or None in questions:
            raise MCPError(INVALID_PARAMS, "What was asked is answered already, or its conversation is gone.")
        asked = cast(list[Question], questions)
        results = [given.get(each.pending.id) for each in asked]
        if not all(isinstance(each, mcp.ElicitResult) for each in results):
            return self._asks(asked, state["invocation"], visited)
        return await self._with(asked, cast(list[mcp.ElicitResult], results), state["invocation"], visited)

    # -- running ------------------------------------------------------------------------------------

    async def _played(self, message: types.Content, config: RunConfig | None, visited: Sequence[str]) -> CallResult:
        for _ in range(_MOST_QUESTIONS):
            result = await self._run(message, config)
            if not result.pending:
                return await self._ended(result)
            questions = [question_of(each, self._caller, visited) for each in result.pending]
            if None in questions:
                return failure(waiting_told(result.pending))
            asked = cast(list[Question], questions)
            if self._caller.modern:
                return self._asks(asked, result.invocation_id, visited)
            parts = await self._elicited(asked)
            if isinstance(parts, mcp.CallToolResult):
                return parts
            message, config = answers(*parts), None
        return failure("The call has asked for answers too often, and was given up.")

    async def _run(self, message: types.Content, config: RunConfig | None) -> RunResult[Any]:
        """Run it, and tell how far it is. A client that cancels the call cancels the run."""
        runner = self._served.runner
        started = runner.start(**self._where._asdict(), new_message=message, run_config=config)
        async with started as handle:
            if self._followed:
                async with aclosing(handle.stream()) as events:
                    async for event in events:
                        await self._tell(event)
            return await handle.result()

    async def _tell(self, event: RunStreamEvent) -> None:
        """Report progress, if the client has asked for it; it never falls."""
        done: float = max(self._progress + 1, 1)
        total = message = None
        match event:
            case ToolCallProgress():
                told = event.result
                message = told.get("message")
                if self._exact:
                    done, total = told.get("progress", done), told.get("total")
                elif not message:
                    message = f"{event.name} goes on"
            case ToolCallStarted() if not self._exact:
                message = f"{event.agent} calls {event.name}"
            case MessageCompleted() | ToolCallFinished() if not self._exact:
                pass
            case _:
                return
        if done > self._progress:
            self._progress = done
            await self._request.session.report_progress(done, total, message)

    async def _ended(self, result: RunResult[Any]) -> mcp.CallToolResult:
        served, where = self._served, self._where
        if result.status != "final":
            return failure(_failed(result, served.runner.agent.name))
        told = await self._told(result)
        links = await links_of(served, where, result.events)
        told.content.extend(links)
        if not links and (served.mode == "call" or (served.mode == "connection" and not self._caller.connection)):
            await served.forget(where)
        return told

    # -- asking -------------------------------------------------------------------------------------

    def _asks(self, asked: Sequence[Question], invocation_id: str, visited: Sequence[str]) -> mcp.InputRequiredResult:
        """The result by which a client of the newer era is asked; what it sends back leads here again."""
        state = {
            "user": self._where.user_id,
            "session": self._where.session_id,
            "invocation": invocation_id,
            "visited": list(visited),
        }
        requests: dict[str, Any] = {each.pending.id: mcp.ElicitRequest(params=each.params) for each in asked}
        return mcp.InputRequiredResult(input_requests=requests, request_state=json.dumps(state))

    async def _with(
        self, asked: Sequence[Question], given: Sequence[mcp.ElicitResult], invocation_id: str, visited: list[str]
    ) -> CallResult:
        parts: list[types.Part] = []
        later: list[Question] = []
        for question, result in zip(asked, given, strict=True):
            answer = question.answer(result)
            if isinstance(answer, str):
                return failure(waiting_told([question.pending], f"and its answer was {answer}"))
            if answer is None:
                visited.append(question.pending.id)
                later += filter(None, [question_of(question.pending, self._caller, visited)])
            else:
                parts.append(answer)
        if parts:
            return await self._played(answers(*parts), None, visited)
        return self._asks(later, invocation_id, visited)

    async def _elicited(self, asked: Sequence[Question]) -> list[types.Part] | mcp.CallToolResult:
        """The answers of the person at a client of an older era, one question after the other; or why there is none."""
        parts: list[types.Part] = []
        for each in asked:
            question: Question | None = each
            answer: Any = None
            while question is not None and answer is None:
                try:
                    answer = question.answer(await self._elicit(question))
                except MCPError as error:
                    return failure(waiting_told([question.pending], f"and the client cannot ask for it ({error})"))
                question = question_of(each.pending, self._caller, [each.pending.id])
            if not isinstance(answer, types.Part):
                return failure(waiting_told([each.pending], f"and its answer was {answer}"))
            parts.append(answer)
        return parts

    async def _elicit(self, question: Question) -> mcp.ElicitResult:
        session, number, params = self._request.session, self._request.request_id, question.params
        if isinstance(params, mcp.ElicitRequestURLParams):
            return await session.elicit_url(params.message, params.url, params.elicitation_id or "", number)
        return await session.elicit_form(params.message, params.requested_schema, number)


def _failed(result: RunResult[Any], name: str) -> str:
    """Why a run gave no answer: nothing of what an error says that may be a secret, which is logged."""
    error = result.error
    if isinstance(error, LimitExceededError | SessionBusyError):
        return f"The run ended without an answer: {error}"
    if error is not None:
        _log.warning("A run of `%s` for a client failed.", name, exc_info=error)
    return f"The run of `{name}` ended without an answer: {result.status}" + (
        f" ({type(error).__name__})" if error else ""
    )
