"""`RunExecutor`: a task of the protocol as a run of ours (protocols spec §4, Task ⇄ run)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from google.genai import types

from flowloom.context import RunConfig, StreamingMode
from flowloom.protocols.a2a.replies import content_of_message, reply_of
from flowloom.protocols.a2a.sdk import (
    CANCELED,
    COMPLETED,
    SUBMITTED,
    WAITS,
    WORKING,
    InvalidParamsError,
    Task,
    TaskStatus,
)
from flowloom.protocols.a2a.server_sdk import (
    AgentExecutor,
    EventQueue,
    RequestContext,
)
from flowloom.protocols.a2a.telling import Telling, saved_file
from flowloom.run_stream import StateChanged
from flowloom.runner import PendingCall, RunHandle, Runner, RunResult, pending_calls

SERVED_TASK: Final = "a2a:served_task"
"""The key of an event's `custom_metadata` that names the task whose run it belongs to."""


class RunExecutor(AgentExecutor):
    """Has `runner` do what tasks ask for; `calls` says whether thoughts, calls and results are told."""

    def __init__(self, runner: Runner[Any], *, calls: bool) -> None:
        self._runner, self._calls = runner, calls
        self._runs: dict[str, RunHandle[Any]] = {}
        self._cancelled: set[str] = set()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run the agent on the message of `context`, and tell in `event_queue` what comes of it."""
        message, task_id, context_id = context.message, context.task_id or "", context.context_id or ""
        if message is None or not message.parts:
            raise InvalidParamsError("The message has no parts.")
        where = self._where(context)
        telling = Telling(task_id, context_id, calls=self._calls)
        known = context.current_task
        waits = known is not None and known.status.state in WAITS
        waiting = await self._waiting(where, task_id) if waits else ()
        content = reply_of(message, waiting) or content_of_message(message)
        if content is None:
            raise InvalidParamsError("The message says nothing: it has no text, file or data that can be read.")
        if known is None:
            status = TaskStatus(state=SUBMITTED)
            await event_queue.enqueue_event(Task(id=task_id, context_id=context_id, status=status, history=[message]))
        await event_queue.enqueue_event(telling.status(WORKING))
        result = await self._run(where, task_id, content, telling, event_queue)
        if task_id in self._cancelled:
            self._cancelled.discard(task_id)
            return
        await self._tell_end(result, await self._waiting(where, task_id), telling, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the task's run, if one is under way."""
        task_id = context.task_id or ""
        handle = self._runs.get(task_id)
        if handle is not None:
            self._cancelled.add(task_id)
            handle.cancel()
            await handle.result()
        await event_queue.enqueue_event(Telling(task_id, context.context_id or "", calls=False).status(CANCELED))

    def _where(self, context: RequestContext) -> dict[str, Any]:
        """Whose session it is, and which: a context is a session of the user who is known, or else of its own."""
        context_id = context.context_id or ""
        user = context.call_context.user.user_name or f"a2a_user_{context_id}"
        return {"user_id": user, "session_id": f"a2a:{context_id}"}

    async def _run(
        self,
        where: dict[str, Any],
        task_id: str,
        content: types.Content,
        telling: Telling,
        event_queue: EventQueue,
    ) -> RunResult[Any]:
        runner = self._runner
        await runner.session_service.get_or_create_session(app_name=runner.app_name, **where)
        config = RunConfig(streaming_mode=StreamingMode.SSE, custom_metadata={SERVED_TASK: task_id})
        saved: dict[str, int] = {}
        async with runner.start(**where, new_message=content, run_config=config) as handle:
            self._runs[task_id] = handle
            try:
                async with aclosing(handle.stream()) as events:
                    async for event in events:
                        if isinstance(event, StateChanged):
                            saved.update(event.artifacts)
                        for told in telling.take(event):
                            await event_queue.enqueue_event(told)
                result = await handle.result()
            finally:
                del self._runs[task_id]
        if result.status not in ("failed", "cancelled"):
            for told in telling.answer(result):
                await event_queue.enqueue_event(told)
            await self._tell_saved(where, saved, telling, event_queue)
        return result

    async def _tell_saved(
        self, where: dict[str, Any], saved: dict[str, int], telling: Telling, event_queue: EventQueue
    ) -> None:
        """The files that the run has saved, as artifacts."""
        service, app_name = self._runner.artifact_service, self._runner.app_name
        if service is None:
            return
        for name, version in saved.items():
            part = await service.load_artifact(app_name=app_name, filename=name, version=version, **where)
            file = None if part is None else saved_file(name.removeprefix("user:"), part)
            if file is not None:
                await event_queue.enqueue_event(telling.file(file.filename, file))

    async def _waiting(self, where: dict[str, Any], task_id: str) -> Sequence[PendingCall]:
        """What the runs of a task wait for, as the session tells."""
        runner = self._runner
        session = await runner.session_service.get_session(app_name=runner.app_name, **where)
        if session is None:
            return ()
        own = {e.invocation_id for e in session.events if (e.custom_metadata or {}).get(SERVED_TASK) == task_id}
        return [each for each in pending_calls(session.events) if each.invocation_id in own]

    async def _tell_end(
        self, result: RunResult[Any], waiting: Sequence[PendingCall], telling: Telling, event_queue: EventQueue
    ) -> None:
        if result.status == "cancelled":
            await event_queue.enqueue_event(telling.status(CANCELED))
        elif result.status in ("failed", "limit"):
            await event_queue.enqueue_event(telling.failure(result.error))
        elif waiting:
            await event_queue.enqueue_event(telling.waiting(waiting))
        else:
            await event_queue.enqueue_event(telling.status(COMPLETED))
