"""`Round`: what a runner does with one message, or with an invocation that it resumes, until its agents are done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from google.genai import types

from flowloom.agents import BaseAgent
from flowloom.context import InvocationContext, RunConfig
from flowloom.context.hooks import content_answered, first_answer, notify
from flowloom.context.progress import Progress
from flowloom.errors import AlreadyAnsweredError, FlowloomError
from flowloom.events import Event, EventActions
from flowloom.events.json_data import keep_json_actions
from flowloom.events.parts import answers_calls, content_of, parts_of, text_part
from flowloom.events.wire import make
from flowloom.flow.ending import finish_failed_run, finish_run, record_cancellation
from flowloom.objects.notebook import count
from flowloom.sessions import BaseSessionService, Session
from flowloom.sessions.admission import admitted_message, check_message

if TYPE_CHECKING:
    from flowloom.runner.pending import Confirm


class RunCancelledError(FlowloomError):
    """A run was cancelled through its handle. It is told by an event, and not raised."""


class Host(Protocol):
    """What the rounds of a run need of its runner."""

    app_name: str
    agent: BaseAgent
    concurrency: Literal["queue", "reject", "allow"]
    lease_seconds: float
    confirm: Confirm | None
    session_service: BaseSessionService
    tasks: frozenset[str]
    takes_words: bool

    async def open_session(self, user_id: str, session_id: str, run_config: RunConfig | None) -> Session: ...
    def make_context(
        self,
        session: Session,
        message: types.Content | None,
        run_config: RunConfig | None,
        invocation_id: str | None,
        answered: Event | None,
        progress: Progress | None,
    ) -> InvocationContext: ...
    def after_run(self, ctx: InvocationContext) -> None: ...


@dataclass(eq=False, repr=False)
class Round:
    """One round of a run. As a context it settles what the round leaves, however it ends: the store has all events, the
    history is legal, and no task, thread or stream stays behind. `closing` are the events of that, `error` is what
    ended the round. The message belongs to the branch and scope of the call in `answered`, if it answers one.
    """

    host: Host
    ctx: InvocationContext
    message: types.Content | None
    state_delta: dict[str, Any] | None
    answered: Event | None
    shows_message: bool
    message_id = ""
    """The id of the event of the message, once it is made."""
    aborted = False
    """Whether the caller's signal has ended it."""
    preempted = False
    """Whether another run has stored its answer first: there is nothing to do."""
    error: BaseException | None = None
    last: Event | None = None
    """The latest complete event of its agents."""
    closing: Sequence[Event] = ()
    _settled = False
    _cancellation_recorded = False

    def __post_init__(self) -> None:
        self.run = self.ctx.run
        self.events = _nothing()
        """Those of the agents, not recorded yet; none if a plugin has answered in their place."""

    async def begin(self) -> Sequence[Event]:
        """Store the user's message, and ask the before-run plugins behind it, which may answer in the agents' place;
        the events of that to be seen."""
        events = await self._take_message()
        if self.preempted:
            return ()
        if self.run.hooks.before_run:
            content = await first_answer(self.run.hooks.before_run, invocation_context=self.ctx)
            if content is not None:
                content = content_answered(content, "before_run", self.ctx)
                return [*events, await self.run.record(self.ctx, self.ctx.new_event({"content": content}))]
        self.events = self.ctx.agent.run_async(self.ctx)
        return events

    async def _take_message(self) -> Sequence[Event]:
        """Store the user's message (spec §18.4); the event, if the caller wants to see it.

        One that answers a call belongs to that call's branch. If another run has decided meanwhile what it decides,
        nothing of it is stored, and there is nothing to do.
        """
        ctx, run, message = self.ctx, self.run, self.message
        if message is None and not self.state_delta:
            return ()
        if message is not None:
            if self.run.hooks.on_user_message or run.config.save_input_blobs_as_artifacts:
                message = await self._prepared(message)
            run.user_content = message
        branch, scope = (None, None) if self.answered is None else (self.answered.branch, self.answered.isolation_scope)
        if scope is None and self.host.tasks:
            scope = run.ledger.open_task(self.host.tasks)
        values: dict[str, Any] = {"author": "user", "branch": branch, "content": message, "isolation_scope": scope}
        if self.state_delta:
            actions = make(EventActions, state_delta=dict(self.state_delta))
            keep_json_actions(actions)
            values["actions"] = actions
        event, answers = ctx.new_event(values), answers_calls(message)
        self.message_id = event.id
        try:  # a tool may run because of an answer, so that has to be kept before
            event = await run.record(ctx, event, hooks=(), durable=answers or self.shows_message, answers=answers)
        except AlreadyAnsweredError:
            self.preempted = self._settled = True
            return ()
        if run.progress is None and not answers:
            run.message_seen = len(run.session.events), None
        return (event,) if self.shows_message else ()

    async def _prepared(self, message: types.Content) -> types.Content:
        """The message as plugins want it, with its files saved as artifacts if the config says so."""
        ctx, run = self.ctx, self.run
        if self.run.hooks.on_user_message:
            replaced = await first_answer(self.run.hooks.on_user_message, invocation_context=ctx, user_message=message)
            if replaced is not None:
                check_message(replaced := content_answered(replaced, "on_user_message", ctx))
                message = run.keyring.receive(admitted_message(replaced, run.ledger), run.session.events)
        if run.config.save_input_blobs_as_artifacts and run.artifact_service is not None:
            parts = [await self._saved(*each) for each in enumerate(parts_of(message))]
            message = content_of(message.role or "user", parts)
        return message

    async def _saved(self, index: int, part: types.Part) -> types.Part:
        """A part of the message; if it is a file, that is saved as an artifact, and a text that names it."""
        ctx, service = self.ctx, self.run.artifact_service
        if part.inline_data is None or service is None:
            return part
        name = f"artifact_{ctx.invocation_id}_{index}"
        await service.save_artifact(
            app_name=ctx.app_name, user_id=ctx.user_id, session_id=ctx.session.id, filename=name, artifact=part
        )
        return text_part(f"The user uploaded a file. It is saved as the artifact `{name}`.")

    async def __aenter__(self) -> Round:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        try:
            try:
                if error is not None:
                    raise error
                if not self._settled:
                    await self._end()
            except Exception as failure:
                self.error = failure
                self.closing = await finish_failed_run(self.ctx, failure)
            except asyncio.CancelledError:
                self.closing = await self.cut_off()
            finally:
                if not self._settled:
                    await finish_run(self.ctx, self.events)
                if self.run.hooks.after_run and not self.preempted:
                    await notify(self.run.hooks.after_run, invocation_context=self.ctx)
        except asyncio.CancelledError:  # while plugins are told that it is over
            self.closing = [*self.closing, *await self.cut_off()]
        return True

    async def _end(self) -> None:
        """The agents are done, or stopped: what closes the round stands behind their last event."""
        closing = await finish_run(self.ctx, self.events, whole=not self.aborted)
        self._settled = True
        if not self.aborted:
            self.closing = closing
        if self.run.stopped == "cancelled":
            self.closing = [*self.closing, *await self._record_cancellation()]

    async def cut_off(self) -> list[Event]:
        """The last events of a run that is cancelled at once, in the round or after it. To be called where the
        cancellation is handled, which is raised again if the caller did not request it, or if another run has the
        message; raises what the round failed with."""
        if self.run.stop != "cancelled" or self.preempted:
            raise
        if self.error is not None:
            raise self.error
        self.run.stopped = "cancelled"
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()  # it is taken care of here
        closing = await finish_run(self.ctx, self.events, whole=True)
        if not self._cancellation_recorded:
            closing += await self._record_cancellation()
        return closing

    async def _record_cancellation(self) -> list[Event]:
        self._cancellation_recorded = True
        totals = self.run.totals
        error = RunCancelledError(
            f"The run was cancelled after {count(totals.model_calls, 'model call')} and "
            f"{count(totals.tool_calls, 'tool call')}. What had a result by then is in the history."
        )
        return await record_cancellation(self.ctx, error)


async def _nothing() -> AsyncGenerator[Event, None]:
    return
    yield  # pyright: ignore[reportUnreachable] - makes this an async generator
