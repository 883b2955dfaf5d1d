"""Summaries, rewinds and what comes in between, in any order: nothing is lost, doubled, or told to the wrong one."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import event, examples, named_call, result, said

from compaction.logs import Tally, shown_words
from flowloom import Event, EventActions, EventsCompactionConfig, InMemorySessionService, Session
from flowloom.compaction import compact_session
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.history import History, project

PLACES = st.sampled_from([(None, None), (None, None), ("both.left", None), ("both.right", None), (None, "task")])
VIEWERS = [
    Viewer("root", keeps_call_ids=True),
    Viewer("left", "both.left", keeps_call_ids=True),
    Viewer("helper", None, "task", keeps_call_ids=True),
    Viewer("root", current_turn_only=True, keeps_call_ids=True),
]
CONFIGS = st.builds(
    EventsCompactionConfig,
    event_threshold=st.integers(1, 6),
    event_retention_size=st.integers(0, 3),
    compaction_interval=st.sampled_from([None, 1, 2]),
)


@dataclass
class Log:
    """A log that grows; each word in it is there once."""

    events: list[Event] = field(default_factory=list[Event])
    words: int = 0
    turn: int = 0
    time: float = 100.0

    def new(self, author: str, *parts: Any, **fields: Any) -> Event:
        return event(author, *parts, timestamp=self.time, invocation_id=f"i{self.turn}", **fields)

    def word(self) -> str:
        self.words += 1
        return f"w{self.words}"


@st.composite
def additions(draw: st.DrawFn, log: Log, rewinds: bool = True, calls: str = "answered") -> list[Event]:
    """What is appended next: words, a call and its result, or a step back."""
    log.time += draw(st.sampled_from([0.0, 1.0, 1.0, -2.0]))
    kind = draw(st.integers(0, 9))
    branch, scope = draw(PLACES)
    where = {"branch": branch, "isolation_scope": scope}
    if kind == 0 and rewinds:
        return [log.new("user", actions={"rewind_before_invocation_id": f"i{draw(st.integers(0, log.turn))}"})]
    if kind < 4:
        log.turn += 1
        return [log.new("user", log.word(), **where)]
    if kind < 7 or calls == "none":
        return [log.new(draw(st.sampled_from(["root", "left", "helper"])), log.word(), **where)]
    author, call_id = draw(st.sampled_from(["root", "left", "helper"])), log.word()
    if calls == "reused":
        call_id = draw(st.sampled_from([call_id, "c1", "c2"]))
    waits = calls != "answered" and draw(st.booleans())
    call_event = log.new(
        author, named_call(call_id, "look"), **where, **({"long_running_tool_ids": [call_id]} if waits else {})
    )
    made = [call_event]
    if not waits or draw(st.booleans()):
        made.append(log.new(author, result(call_id, "look", {}), **where))
    if waits and draw(st.booleans()):
        made.append(log.new("user", result(call_id, "look", {}), **where))
    if calls != "answered" and draw(st.integers(0, 4)) == 0:
        made.insert(1, log.new(author, log.word(), **where))
    return made


@st.composite
def several(draw: st.DrawFn, log: Log, calls: str) -> list[Event]:
    """What is appended while a summary is written."""
    return [each for _ in range(draw(st.integers(0, 2))) for each in draw(additions(log, calls=calls))]


class Interrupted(Tally):
    """Something is appended while it writes."""

    def __init__(self, session: Session, service: InMemorySessionService, meanwhile: list[Event]) -> None:
        super().__init__()
        self._session, self._service, self._meanwhile = session, service, meanwhile

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        for each in self._meanwhile:
            await self._service.append_event(self._session, each)
        return await super().maybe_summarize_events(events=events)


def told(contents: list[Any]) -> list[str]:
    """All words that a model is shown, those in summaries included."""
    return re.findall(r"w\d+", " ".join(shown_words(contents)))


@settings(max_examples=examples(250), deadline=None)
@given(data=st.data())
def test_a_model_is_told_of_everything_once_and_of_nothing_else(data: st.DataObject) -> None:
    """Whatever was summarised, rewound or appended meanwhile: in words, all is as if nothing had been summarised."""
    asyncio.run(_tell(data))


async def _tell(data: st.DataObject) -> None:
    log, service = Log(), InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="ann")
    for _ in range(data.draw(st.integers(1, 14))):
        if data.draw(st.integers(0, 3)):
            for each in data.draw(additions(log, calls="none")):
                await service.append_event(session, each)
        else:
            meanwhile = [
                e for _ in range(data.draw(st.integers(0, 2))) for e in data.draw(additions(log, calls="none"))
            ]
            config = data.draw(CONFIGS)
            config.summarizer = Interrupted(session, service, meanwhile)
            await compact_session(session, service, config, force=data.draw(st.booleans()))
        plain = [each for each in session.events if each.actions.compaction is None]
        for viewer in VIEWERS:
            shown = told(session.history.contents(session.events, viewer).contents)
            assert sorted(shown) == sorted(told(project(plain, viewer).contents)), viewer


@settings(max_examples=examples(250), deadline=None)
@given(data=st.data())
def test_the_history_as_it_grows_is_the_one_built_at_once(data: st.DataObject) -> None:
    """With calls that wait, summaries made here and elsewhere, and rewinds; each call is answered right behind it."""
    asyncio.run(_grow(data))


async def _grow(data: st.DataObject) -> None:
    log, service = Log(), InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="ann")
    history = History()
    for _ in range(data.draw(st.integers(1, 14))):
        kind = data.draw(st.integers(0, 7))
        if kind > 2:
            for each in data.draw(additions(log, calls="reused")):
                await service.append_event(session, each)
        elif kind == 2:
            await service.append_event(session, _made_elsewhere(data, log))
        else:
            config = data.draw(CONFIGS)
            meanwhile = data.draw(several(log, calls="reused"))
            config.summarizer = Interrupted(session, service, meanwhile)
            await compact_session(session, service, config, force=data.draw(st.booleans()))
        if data.draw(st.booleans()):
            _check(history, session)
    _check(history, session)


def _made_elsewhere(data: st.DataObject, log: Log) -> Event:
    first = data.draw(st.floats(-5, log.time, allow_nan=False))
    last = data.draw(st.floats(first, max(first, log.time), allow_nan=False))
    compaction = EventCompaction(start_timestamp=first, end_timestamp=last, compacted_content=said("in short"))
    return Event(author="user", actions=EventActions(compaction=compaction), invocation_id="other", timestamp=log.time)


def _check(history: History, session: Session) -> None:
    waiting = {call_id for each in session.events for call_id in each.long_running_tool_ids or ()}
    for viewer in VIEWERS:
        grown, whole = history.contents(session.events, viewer), project(session.events, viewer)
        assert grown.contents == whole.contents, viewer
        assert grown.special == whole.special
        assert grown.orphans == whole.orphans
        called: set[str] = set()
        for content in grown.contents:
            parts = content.parts or []
            answers = {part.function_response.id or "" for part in parts if part.function_response is not None}
            assert answers <= called
            assert called - answers <= waiting
            called = {part.function_call.id or "" for part in parts if part.function_call is not None}


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_a_summary_never_makes_an_orphan(data: st.DataObject) -> None:
    """No result that has a call without summaries has none with them."""
    asyncio.run(_orphans(data))


async def _orphans(data: st.DataObject) -> None:
    log, service = Log(), InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="ann")
    for _ in range(data.draw(st.integers(1, 12))):
        for each in data.draw(additions(log, rewinds=False, calls="any")):
            await service.append_event(session, each)
        config = data.draw(CONFIGS)
        config.summarizer = Tally()
        await compact_session(session, service, config, force=data.draw(st.booleans()))
        waiting = [call_id for each in session.events for call_id in each.long_running_tool_ids or ()]
        if waiting and data.draw(st.booleans()):
            late = log.new("user", result(data.draw(st.sampled_from(waiting)), "look", {"again": 1}))
            await service.append_event(session, late)
    plain = [each for each in session.events if each.actions.compaction is None]
    assert set(project(session.events, VIEWERS[0]).orphans) <= set(project(plain, VIEWERS[0]).orphans)
