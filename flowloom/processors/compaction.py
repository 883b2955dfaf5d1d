"""The compaction processor: a summary in the middle of a run, before the prompt gets too long."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable

from flowloom.compaction.config import EventsCompactionConfig
from flowloom.compaction.plan import Asker, Plan, plan_of
from flowloom.compaction.session import summarizer_of, summary_of
from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.wire import replace
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of


class Compaction:
    """Summarises what is old before the request is built, once a threshold of `config` is passed.

    Reads: the session's events, and what the model counted; `include_contents`.
    Writes: an event with the summary.
    Must come after: auth and confirmation, which append events; before contents, which shows the summary.

    `token_threshold`, `event_threshold` and `max_age_seconds` are looked at here; turns are counted when a run is
    over. The latest input stays as it is; what came before it is summarised first. If the summary fails, it is not
    tried again in the same run.
    """

    name = "compaction"

    def __init__(self, config: EventsCompactionConfig) -> None:
        self.config = config
        self._given_up: deque[str] = deque(maxlen=64)  # ids of runs
        self._busy: set[tuple[str, str, str, str | None, str | None]] = set()

    def __repr__(self) -> str:
        return "Compaction(...)"

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> Awaitable[Event | None] | None:
        agent, run, config = ctx.llm_agent, ctx.run, self.config
        looks = config.within_runs or config.max_age_seconds is not None
        if agent is None or not looks or run.rehearsal or run.invocation_id in self._given_up:
            return None
        session, here = run.session, ctx.place
        sees_turn_only = agent.include_contents == "none" or agent.mode == "single_turn"
        asker = Asker(here.author, (here.branch, here.scope), sees_turn_only)
        plan = plan_of(session.events, session.history.log, config, now=ctx.effects.now(ctx), asker=asker)
        if plan is None:
            return None
        key = (session.app_name, session.user_id, session.id, *plan.location)
        return None if key in self._busy else self._summarise(ctx, plan, key)

    async def _summarise(
        self, ctx: InvocationContext, plan: Plan, key: tuple[str, str, str, str | None, str | None]
    ) -> Event | None:
        self._busy.add(key)
        try:
            event = await summary_of(plan, summarizer_of(self.config, model_of(ctx)), ctx.session.id)
        finally:
            self._busy.discard(key)
        if event is None:
            self._given_up.append(ctx.invocation_id)
            return None
        return replace(
            event, id=ctx.effects.new_id(ctx), timestamp=ctx.effects.now(ctx), invocation_id=ctx.invocation_id
        )
