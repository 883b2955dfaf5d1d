"""`AgentTool`: an agent as a tool (decision 32)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.genai import types

from flowloom.context import Context, InvocationContext, Run
from flowloom.context.hooks import NO_HOOKS, first_answer, notify
from flowloom.context.progress import Progress
from flowloom.context.protocols import AnyAgent, as_llm_agent
from flowloom.errors import ConfigurationError, ToolError
from flowloom.events.event import Event
from flowloom.events.parts import content_of, parts_of, text_part
from flowloom.events.wire import replace
from flowloom.log.marks import AGENT_TOOL_CALL, AGENT_TOOL_PARTIAL, is_from_agent_tool
from flowloom.sessions.in_memory import InMemorySessionService
from flowloom.sessions.session import Session
from flowloom.sessions.state import State
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.calls import Suspended
from flowloom.tools.delegation import call_declaration, failure_told, input_schema_of
from flowloom.tools.output import OutputSchema, validated_arguments


class AgentTool(BaseTool):
    """Lets a model call another agent like a function, and get its final answer as the result.

    The agent has a history of its own, and shares state and artifacts with the caller. Its usage counts into the
    caller's run; its events reach the caller's stream, marked, if `RunConfig.forward_agent_tool_events` is set.

    `skip_summarization` shows the answer to the user as it is, as a text beside the result. `include_plugins` lets the
    caller's plugins see the agent's run. `propagate_grounding_metadata` leaves the grounding of the answer in
    the state, under `temp:grounding_metadata`. `timeout` (seconds) and `retries` are those of `BaseTool`.
    """

    def __init__(
        self,
        agent: AnyAgent,
        skip_summarization: bool = False,
        *,
        include_plugins: bool = True,
        propagate_grounding_metadata: bool = False,
        timeout: float | None = None,
        retries: int = 0,
    ) -> None:
        if not hasattr(agent, "sub_agents"):
            raise ConfigurationError(f"`AgentTool` takes an agent, not a {type(agent).__name__}.")
        super().__init__(
            name=agent.name,
            description=agent.description.strip(),
            timeout=timeout,
            retries=retries,
            idempotent=_is_idempotent(agent),
        )
        self.agent = agent
        self.skip_summarization = skip_summarization
        self.include_plugins = include_plugins
        self.propagate_grounding_metadata = propagate_grounding_metadata
        source = input_schema_of(agent)
        self._input = None if source is None else OutputSchema(source)

    def _get_declaration(self) -> types.FunctionDeclaration:
        return call_declaration(self.agent, self._input)

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Run the agent on the arguments; its answer, as data if it has an output schema."""
        if self.skip_summarization:
            tool_context.actions.skip_summarization = True
        call_id = tool_context.function_call_id or ""
        run = tool_context.invocation_context.run
        # only a run that resumes an invocation may have begun it before
        kept = kept_events(run.ledger.events_of(run.invocation_id), call_id) if run.progress is not None else []
        ctx = self._context(self._message(args), tool_context, kept)
        hooks = ctx.run.hooks
        content = None
        if not kept:
            replaced = await first_answer(hooks.on_user_message, invocation_context=ctx, user_message=ctx.user_content)
            if replaced is not None:
                ctx.run.user_content = replaced
            await ctx.start()
            content = await first_answer(hooks.before_run, invocation_context=ctx)
        if content is not None:
            last: Event | None = await ctx.run.record(ctx, ctx.new_event({"content": content}))
        else:
            last = await self._run(ctx, tool_context)
        await notify(hooks.after_run, invocation_context=ctx)
        if ctx.run.waiting_calls:
            raise Suspended([event_to_keep(event, call_id) for event in ctx.session.events[len(kept) :]])
        result = self._result(last, tool_context)
        tool_context.display = self.skip_summarization
        return result

    async def _run(self, ctx: InvocationContext, tool_context: Context) -> Event | None:
        """Run the agent; returns the last event that says something."""
        last: Event | None = None
        llm_agent = as_llm_agent(self.agent)
        structured = llm_agent is not None and llm_agent.output_schema is not None
        events = self.agent.run_async(ctx)
        try:
            async for event in events:
                await self._share(event, tool_context)
                added = structured and event.actions.end_of_agent  # by a callback, to an answer that fits the schema
                if not event.partial and not added and _is_answer(event):
                    last = event
        finally:
            await events.aclose()
        return last

    def _message(self, args: dict[str, Any]) -> types.Content:
        if self._input is None:
            text = args.get("request")
            text = text if isinstance(text, str) else json.dumps(args, ensure_ascii=False)
        else:
            text = json.dumps(validated_arguments(self._input, args), ensure_ascii=False)
        return content_of("user", [text_part(text)])

    def _context(self, message: types.Content, tool_context: Context, kept: Sequence[Event]) -> InvocationContext:
        """A run of its own: history apart, everything else shared with the caller's; it resumes what was kept."""
        caller = tool_context.invocation_context
        outer = caller.run
        # the same app, user and id, so that artifacts are the caller's; the same state object
        session = Session(id=caller.session.id, app_name=caller.app_name, user_id=caller.user_id, events=list(kept))
        service = InMemorySessionService()
        service.adopt(session)
        session.state = caller.session.state
        session.guard(caller.session.fence)
        run = Run(
            invocation_id=outer.invocation_id,
            session=session,
            session_service=service,
            artifact_service=outer.artifact_service,
            memory_service=outer.memory_service,
            credential_service=outer.credential_service,
            config=outer.config,
            user_content=message,
            hooks=outer.hooks if self.include_plugins else NO_HOOKS,
            effects=outer.effects,
            observers=outer.observers,
            caller=outer,
        )
        ctx = InvocationContext(agent=self.agent, run=run, lineage=())
        if kept:
            run.progress = Progress(run.ledger, run.invocation_id)
            above, call_id = outer.progress, tool_context.function_call_id
            run.progress.fresh = above is not None and above.fresh and call_id in above.answered
            ctx.resumed = True
        ctx.path_prefix = tool_context.inside.path_prefix
        ctx.agent_span = caller.agent_span
        ctx.outbox = caller.outbox
        return ctx

    async def _share(self, event: Event, tool_context: Context) -> None:
        """Let the caller have what the agent changed, and see what it said: the agent goes on when that is taken."""
        delta = {k: v for k, v in event.actions.state_delta.items() if not k.startswith(State.TEMP_PREFIX)}
        if not event.partial:
            if delta:
                tool_context.state.update(delta)
            tool_context.actions.artifact_delta.update(event.actions.artifact_delta)
            if self.propagate_grounding_metadata and event.grounding_metadata is not None:
                tool_context.state["temp:grounding_metadata"] = event.grounding_metadata
        outbox = tool_context.invocation_context.outbox
        if outbox is not None:
            shown = replace(event)
            own: dict[str, Any] = {
                AGENT_TOOL_CALL: tool_context.function_call_id,
                AGENT_TOOL_PARTIAL: bool(event.partial),
            }
            shown.custom_metadata = own | (event.custom_metadata or {})
            shown.partial = True
            taken = asyncio.Event()
            outbox.put_nowait((shown, taken))
            await taken.wait()

    def _result(self, last: Event | None, tool_context: Context) -> Any:
        if last is None:
            return ""
        if last.error_code and last.content is None:
            raise ToolError(failure_told(self.agent, last))
        llm_agent = as_llm_agent(self.agent)
        if (answer := answer_in(last)) and not isinstance(answer, str):
            return answer
        if llm_agent is None or llm_agent.output_schema is None or not last.text:
            return "\n".join(p.text for p in parts_of(last.content) if p.text and not p.thought)
        return llm_agent.derive("output_schema", lambda: OutputSchema(llm_agent.output_schema)).parse(last.text)


def answer_in(event: Event) -> Any:
    """What an agent answers by an event: its text, else the results that are shown as they are: of several a list."""
    if event.text.strip():
        return event.text
    if not event.actions.skip_summarization:
        return None
    found = [result.response for result in event.get_function_responses() if result.response]
    return found[0] if len(found) == 1 else found


def _is_answer(event: Event) -> bool:
    """Whether an event may be an agent's answer: not one that only calls tools, or only has their results."""
    if event.error_code or answer_in(event):
        return True
    return event.content is not None and not event.get_function_calls() and not event.get_function_responses()


def _is_idempotent(agent: AnyAgent) -> bool:
    """Whether the agent may be run again from its beginning: none of the tools below it says otherwise."""
    llm_agent = as_llm_agent(agent)
    tools = () if llm_agent is None else llm_agent.tools
    return all(not isinstance(tool, BaseTool) or tool.__options__.idempotent for tool in tools) and all(
        map(_is_idempotent, agent.sub_agents)
    )


def event_to_keep(event: Event, call_id: str) -> Event:
    """An event of an agent that waits, as the caller's log keeps it: in the call's scope, where no model sees it."""
    return replace(
        event,
        isolation_scope=event.isolation_scope or call_id,
        custom_metadata={AGENT_TOOL_CALL: call_id, **(event.custom_metadata or {})},
    )


def kept_events(events: Sequence[Event], call_id: str) -> list[Event]:
    """What the log keeps of the agent behind a call, as that agent's own log, with the answers to its questions."""
    kept: list[Event] = []
    places: dict[str, Event] = {}  # where each of its calls was made
    scopes = {call_id}
    for event in events:
        if is_from_agent_tool(event) and event.isolation_scope in scopes:
            metadata = dict(event.custom_metadata or {})
            if metadata.get(AGENT_TOOL_CALL) == call_id:
                del metadata[AGENT_TOOL_CALL]
            scope = None if event.isolation_scope == call_id else event.isolation_scope
            own = replace(event, isolation_scope=scope, custom_metadata=metadata or None)
            places.update((call.id, own) for call in event.get_function_calls() if call.id)
            scopes.update(places)
            kept.append(own)
        elif kept and event.author == "user":
            kept += _answers_for(event, places)
    return kept


def _answers_for(message: Event, places: Mapping[str, Event]) -> list[Event]:
    """What a message of the user answers of an agent's calls, where those were made: an event for each place."""
    found: dict[tuple[str | None, str | None], list[types.Part]] = {}
    for part in parts_of(message.content):
        answer = part.function_response
        if answer is not None and answer.id in places:
            call = places[answer.id or ""]
            found.setdefault((call.branch, call.isolation_scope), []).append(part)
    answers: list[Event] = []
    for number, ((branch, scope), parts) in enumerate(found.items()):
        event_id = f"{message.id}/{number}" if number else message.id
        content = content_of("user", parts)
        answers.append(replace(message, id=event_id, branch=branch, isolation_scope=scope, content=content))
    return answers
