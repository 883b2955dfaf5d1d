"""A call of an `McpTool` from its start to its result: connection, what the server asks meanwhile, errors, result.

Whoever imports this module loads the SDK; `tool.py` does so when the first call is made.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import mcp_types as mcp

from flowloom.context import Context
from flowloom.errors import ConfirmationRequiredError, InputRequiredError, ToolError, ToolTimeoutError, closest_first
from flowloom.errors import quoted_list as quoted
from flowloom.protocols.mcp.asked import has_server_asked
from flowloom.protocols.mcp.calls import OpenCall
from flowloom.protocols.mcp.connection import CALL_RESULT, Connection
from flowloom.protocols.mcp.content import error_of, result_of
from flowloom.protocols.mcp.errors import McpProtocolError, McpToolError, McpTransportError
from flowloom.protocols.mcp.pool import Entry
from flowloom.protocols.mcp.progress import ProgressReports
from flowloom.protocols.mcp.questions import Answers
from flowloom.protocols.mcp.tool import McpTool
from flowloom.protocols.results import within_limit
from flowloom.protocols.spans import protocol_span
from flowloom.protocols.words import cleaned

_log = logging.getLogger("flowloom.mcp")
UNKNOWN_TOOL = -32602
HEADER_MISMATCH = mcp.HEADER_MISMATCH
MAX_WAIT_SECONDS = 5.0
"""For how long `Retry-After` is heeded; a server that asks for more has failed."""
MAX_ROUNDS = 10
"""How often a server of the newer era may ask within one call."""


async def called(tool: McpTool, args: dict[str, Any], context: Context) -> Any:
    """The result of a call, for the model. Raises what `McpTool.run_async` raises."""
    toolset = tool.toolset
    headers = await toolset.headers(context)
    entry = toolset.pool.entry(headers)
    attributes = {"mcp.method": "tools/call", "mcp.tool": tool.raw_mcp_tool.name, "server.address": toolset.address}
    with protocol_span(f"tools/call {tool.name}", attributes) as span:
        attempts = _Attempts(tool, args, context, headers, entry, span)
        answer = await attempts.answer()
        if answer.is_error:
            made, words = attempts.entry.connection, error_of(answer)
            words = cleaned(words if made is None else made.hidden(words))
            told = await within_limit(words, toolset.max_result_bytes, context, tool.name)
            raise McpToolError(told if isinstance(told, str) else told["result"])
        if tool.output_schema is not None:
            tool.output_schema.check_result(answer.structured_content, tool.name)
        return await result_of(answer, context, tool.name, toolset.max_result_bytes)


class _Attempts:
    """The tries of one call: a further one is made only if the one before was certainly not carried out."""

    def __init__(
        self, tool: McpTool, args: dict[str, Any], context: Context, headers: dict[str, str], entry: Entry, span: Any
    ) -> None:
        self.tool, self.args, self.context, self.headers, self.entry = tool, args, context, headers, entry
        self.toolset = tool.toolset
        self._span = span

    async def answer(self) -> mcp.CallToolResult:
        parked = self.entry.parked.pop(self.toolset.place_of(self.context), None)
        if parked is not None and not parked.done:
            return await self._told(parked)
        self._check_repeatable()
        asking = parked if parked is not None and parked.asks else None
        repeated = False
        while True:
            try:
                return await self._told(asking)
            except McpTransportError as error:
                if repeated or not await self._may_repeat(error):
                    raise self._explained(error) from error
            except McpProtocolError as error:
                if asking is not None:  # the server has forgotten what it asked: the call begins anew
                    asking = None
                    continue
                if error.code == HEADER_MISMATCH and not repeated:
                    self.entry.stale.add("tools")
                    await self.toolset.listed(self.headers)
                elif error.code == UNKNOWN_TOOL:
                    raise await self._unknown(error) from error
                else:
                    raise self._refused(error) from error
            repeated = True

    def _check_repeatable(self) -> None:
        """A call whose server was kept waiting for a person, and which is gone, is made again only if that is safe."""
        made = self.entry.connection
        modern = self.toolset.pool.era_is_modern or (made is not None and made.is_open and made.is_modern)
        if not self.tool.idempotent and not modern and has_server_asked(self.context):
            raise ToolError(
                f"The answer came too late for `{self.tool.name}`: its server no longer waits for it, and may have "
                f"done part of the work. Call the tool again if it is to be done once more."
            )

    async def _may_repeat(self, error: McpTransportError) -> bool:
        """Whether the call was certainly not carried out, and another try may succeed."""
        if error.status == 404:  # the server no longer knows the session
            await self.toolset.pool.drop(self.entry)
            return True
        if error.status in (401, 403):
            if not await self.toolset.authorized(self.context, error.refusal, self.headers):
                return False
            self.headers = await self.toolset.headers(self.context)
            self.entry = self.toolset.pool.entry(self.headers)
            return True
        if error.status in (429, 503):
            after = error.refusal.retry_after if error.refusal is not None else None
            if after is None or after > MAX_WAIT_SECONDS or not (self.tool.idempotent or error.status == 429):
                return False
            await asyncio.sleep(after)
            return True
        return not error.sent and error.status is None

    async def _told(self, parked: OpenCall | None) -> mcp.CallToolResult:
        """One try, with what the server asks in it; it goes on with a call that was `parked`."""
        answers = Answers(self.toolset, self.context, parked)
        call = parked
        if call is None:
            connection = await self.toolset.pool.connection(self.headers)
            call = self._begun(connection, None, None)
        result = await self._followed(call, answers)
        for _ in range(MAX_ROUNDS):
            if isinstance(result, mcp.CallToolResult):
                return result
            await self._asked(call, result, answers)
            if not call.given:
                await asyncio.sleep(0.05)
            connection = await self.toolset.pool.connection(self.headers)
            before, call = call, self._begun(connection, call.given, result.request_state)
            call.asked, call.prompts = before.asked, before.prompts
            result = await self._followed(call, answers)
        raise McpProtocolError(f"it asked more than {MAX_ROUNDS} times within one call")

    async def _asked(self, call: OpenCall, result: mcp.InputRequiredResult, answers: Answers) -> None:
        """Answer what the result of a call asks. What a person has to answer pauses the run, and it is kept."""
        try:
            for key, each in (result.input_requests or {}).items():
                if key not in call.given:
                    call.given[key] = await answers.to_request(each, call)
        except (InputRequiredError, ConfirmationRequiredError):
            call.asks = True
            self._park(call)
            raise

    def _begun(self, connection: Connection, given: Any, state: str | None) -> OpenCall:
        if self._span is not None:
            self._span.set_attributes(connection.described)
        call = OpenCall(*self.toolset.place_of(self.context))
        params = mcp.CallToolRequestParams(
            name=self.tool.raw_mcp_tool.name, arguments=self.args, input_responses=given, request_state=state
        )

        async def progress(done: float, total: float | None, message: str | None) -> None:
            if call.on_progress is not None:
                await call.on_progress(done, total, message)

        async def work(_: OpenCall) -> Any:
            return await connection.request(mcp.CallToolRequest(params=params), CALL_RESULT, progress)

        connection.calls[call] = None
        call.begin(work)
        call.when_done(lambda: connection.calls.pop(call, None))
        return call

    async def _followed(self, call: OpenCall, answers: Answers) -> mcp.CallToolResult | mcp.InputRequiredResult:
        """The result of a call. What a person has to answer pauses the run, and the call waits."""
        reports = ProgressReports(self.tool, self.context)
        loop, timeout = asyncio.get_running_loop(), self.tool.timeout or 0.0
        limit = asyncio.timeout(timeout)

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            if self.toolset.reset_timeout_on_progress and limit.when() is not None and not limit.expired():
                limit.reschedule(loop.time() + timeout)
            await reports.report(done, total, message)

        call.on_progress = on_progress
        try:
            async with limit:
                while (question := await call.next_question()) is not None:
                    limit.reschedule(None)
                    answer = await answers.to(question, call)
                    if not question.answer.done():
                        question.answer.set_result(answer)
                    limit.reschedule(loop.time() + timeout)
            return call.result()
        except (InputRequiredError, ConfirmationRequiredError):
            self._park(call)
            raise
        except TimeoutError as error:
            if not limit.expired():
                raise
            await call.ended()
            raise ToolTimeoutError(f"Tool `{self.tool.name}` gave no result within {timeout:g} seconds.") from error
        except BaseException:
            await call.ended()
            raise
        finally:
            call.on_progress = None
            reports.end()

    def _park(self, call: OpenCall) -> None:
        """Keep a call open while its run is paused, for as long as the toolset says."""
        parked, place = self.entry.parked, self.toolset.place_of(self.context)
        parked[place] = call

        def give_up() -> None:
            if parked.get(place) is call:
                del parked[place]
                call.cancel()

        handle = asyncio.get_running_loop().call_later(self.toolset.elicitation_wait, give_up)
        if not call.done:
            call.when_done(handle.cancel)

    # -- errors -----------------------------------------------------------------------------------

    def _explained(self, error: McpTransportError) -> McpTransportError:
        done = " It may have been carried out in part; it was not repeated." if error.sent else ""
        told = McpTransportError(
            f"The call of `{self.tool.name}` to {self.toolset.address} failed: {str(error).rstrip('.')}.{done}",
            status=error.status,
            sent=error.sent,
        )
        told.refusal = error.refusal
        return told

    def _refused(self, error: McpProtocolError) -> McpProtocolError:
        told = f"The server at {self.toolset.address} did not take the call of `{self.tool.name}`: {error}."
        return McpProtocolError(told, code=error.code)

    async def _unknown(self, error: McpProtocolError) -> ToolError:
        """A server that knows the tool no more is asked for its list once."""
        self.entry.stale.add("tools")
        try:
            tools = await self.toolset.listed(self.headers)
        except ToolError:
            return self._refused(error)
        names = [tool.name for tool in tools]
        if any(tool.raw_mcp_tool.name == self.tool.raw_mcp_tool.name for tool in tools):
            self.entry.stale.add("tools")  # what changed is declared before the next step
            return self._refused(error)
        self.entry.stale.add("tools")
        return McpProtocolError(
            f"The server at {self.toolset.address} has no tool `{self.tool.name}` any more. Its tools: "
            f"{quoted(closest_first(self.tool.name, names))}.",
            code=error.code,
        )
