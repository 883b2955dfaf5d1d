"""The history projection: from a session's event log to the contents one agent is shown (spec §9).

`project` builds the contents of a whole log. `History` keeps, per viewer, what was built so far and extends it by
the new events only; a property test holds that both give the same list. Plain events append to a view, and so does
a function response that directly follows its call. Whatever reorders (late responses, merges, rewinds, summaries)
rebuilds the view, because it is rare; from what counts of the log (`EffectiveLog`), which summaries keep short.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from google.genai import types

from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.parts import content_of, parts_of, text_part
from flowloom.log.current_turn import CurrentTurn
from flowloom.log.effective_log import EffectiveLog
from flowloom.log.item import HistoryItem, for_model, foreign_content, shown_of, transcription_of
from flowloom.log.ledger import CallLedger
from flowloom.log.rearrange import rearrange
from flowloom.models.contents import is_special, is_words

_log = logging.getLogger("flowloom.history")
_NONE = frozenset[str]()


class Viewer(NamedTuple):
    """Which agent is shown a history, and how. Equal viewers share one projection."""

    agent: str
    branch: str | None = None
    isolation_scope: str | None = None
    current_turn_only: bool = False
    """Whether only what came since the latest input is shown (`include_contents="none"`)."""
    keeps_call_ids: bool = False
    """Whether call ids that were minted here stay in the contents."""
    foreign_thoughts: bool = False
    """Whether the thoughts of other agents are shown (as context)."""


Visible = Callable[[Event, Viewer], bool]


def visible(event: Event, viewer: Viewer) -> bool:
    """Whether `viewer` may see `event`: the rule of branches and isolation scopes (spec §9.2b, c).

    A branch is a dotted path. An event is seen from its own branch and from branches below it, and everywhere if
    it has none; a viewer without a branch sees all branches. The isolation scopes must be equal. A pure function;
    `Contents(visible=...)` takes another one.
    """
    if event.isolation_scope != viewer.isolation_scope and (event.isolation_scope or viewer.isolation_scope):
        return False
    ours = viewer.branch
    return not ours or not (theirs := event.branch) or theirs == ours or ours.startswith(theirs + ".")


class History:
    """The projections of one session's log, by viewer. It belongs to a session and dies with it."""

    MAX_VIEWS = 64

    def __init__(self) -> None:
        self.log = EffectiveLog()
        """What counts of the session's log."""
        self._claimed: set[str] = set()  # ids of calls that are about to be in the log
        self._views: dict[tuple[Viewer, Visible], _View] = {}
        self._reported: set[str] = set()
        self._ledger: CallLedger | None = None

    def kept(self, events: Sequence[Event]) -> Sequence[Event]:
        """The log `events` without what was rewound."""
        self.log.read(events)
        return self.log.kept

    def ledger(self, events: Sequence[Event]) -> CallLedger:
        """In what state each call of `events` is; work is proportional to the events not yet seen."""
        if self._ledger is None:
            self._ledger = CallLedger(self.log)
        return self._ledger.read(events)

    def claim_call_id(self, events: Sequence[Event], call_id: str) -> bool:
        """Give the id `call_id` to a new call. False if a call of `events` has it, rewound or not, or one that is about
        to come.

        Models are free to give an id twice. What is shown, decided about and answered goes by ids, so each call needs
        one of its own.
        """
        if call_id in self._claimed or self.ledger(events).ever(call_id) is not None:
            return False
        self._claimed.add(call_id)
        return True

    def contents(self, events: Sequence[Event], viewer: Viewer, rule: Visible = visible) -> Projection:
        """What `viewer` is shown of `events`, those that `rule` lets it see; work is proportional to the events not yet
        seen.

        The result's list belongs to the history: copy it before changing it.
        """
        self.log.read(events)
        key = (viewer, rule)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= self.MAX_VIEWS:
                del self._views[next(iter(self._views))]
            view = self._views[key] = _View(viewer, rule)
        view.advance(events, self.log)
        for orphan in view.projection.orphans:
            if orphan not in self._reported:
                self._reported.add(orphan)
                _log.warning(
                    "The function response `%s` answers no call that agent `%s` made; it is left out of the request.",
                    orphan,
                    viewer.agent,
                )
        return view.projection


@dataclass(slots=True, eq=False, repr=False)
class Projection:
    """The `contents` in the order a model is given them; its lists only grow."""

    contents: list[types.Content] = field(default_factory=list[types.Content])
    special: list[int] = field(default_factory=list[int])
    """Indices of the contents that hold more than words, calls and results (see `is_special`)."""
    orphans: list[str] = field(default_factory=list[str])
    """Ids of function responses that answer no call."""


def project(events: Sequence[Event], viewer: Viewer, rule: Visible = visible) -> Projection:
    """The contents of a whole log, `events`, for `viewer`, from scratch: of what `rule` lets it see."""
    view, log = _View(viewer, rule), EffectiveLog()
    log.read(events)
    view.rebuild(events, log)
    return view.projection


class _View:
    """One viewer's projection and where it stands in the log."""

    def __init__(self, viewer: Viewer, rule: Visible) -> None:
        self._viewer = viewer
        self._rule = rule
        self._reset()

    def _reset(self) -> None:
        self.projection = Projection()
        self._consumed = 0
        self._foreign_calls: set[str] = set()  # ids of other agents' calls
        self._open_calls: list[str] = []  # ids of the calls in the latest item
        self._unanswered = _NONE  # ids of those among them that are to be answered by what comes next
        self._rebuild_next = False
        self._changes = 0  # how many of the log's are taken into account
        self._turn = 0  # where the current turn starts in the log, what was rewound not counted

    def advance(self, events: Sequence[Event], log: EffectiveLog) -> None:
        """Bring the projection up to date with `events`, which `log` has read."""
        new, changes = events[self._consumed :], len(log.changes)
        if (self._changes != changes and self._is_changed(log)) or (new and self._rebuild_next):
            return self.rebuild(events, log)
        self._changes = changes
        for position, event in enumerate(new, len(log.kept) - len(new)):
            if not self._append_words(event) and not self._append(event, position):
                return self.rebuild(events, log)
        self._consumed = len(events)
        return self.rebuild(events, log) if self._unanswered else None

    def _is_changed(self, log: EffectiveLog) -> bool:
        """Whether what was added to the log since is not all that is new to this view."""
        return not self._viewer.current_turn_only or log.changed_since(self._changes, self._turn)

    def _append_words(self, event: Event) -> bool:
        """Extend the view by words: most events are that. False for others."""
        viewer, content = self._viewer, event.content
        if self._unanswered or viewer.current_turn_only:
            return False
        if content is None or not content.role or not is_words(content) or not self._rule(event, viewer):
            return False
        author = event.author
        shown = content if author == "user" or author == viewer.agent else self._told(event, content)
        if shown is not None:
            self._open_calls = []
            self.projection.contents.append(shown)
        return True

    def _append(self, event: Event, position: int) -> bool:
        """Extend the view by one event. False if only a rebuild can tell what the view is now."""
        item = None if event.actions.compaction is not None else self._item_of(event)
        if item is None:
            return True  # what is shown here did not change by it
        if item.transcription is not None or (item.calls and item.responses):
            return False
        if self._viewer.current_turn_only and _starts_turn(item, event):
            self.projection = Projection()
            self._open_calls, self._unanswered, self._turn = [], _NONE, position
        answers = item.responses
        if (answers or self._unanswered) and (answers != self._open_calls or len(set(answers)) < len(answers)):
            return False
        self._open_calls, self._unanswered = item.calls, item.unanswered
        self._emit(item.content)
        return True

    def _emit(self, content: types.Content) -> None:
        """Show a content, perhaps in another form."""
        shown = for_model(content, self._viewer.keeps_call_ids)
        if shown is None:
            return
        if is_special(shown):
            self.projection.special.append(len(self.projection.contents))
        self.projection.contents.append(shown)

    def rebuild(self, events: Sequence[Event], log: EffectiveLog) -> None:
        """Build the view from the whole log, which `log` has read."""
        self._reset()
        self._changes = len(log.changes)
        items = self._items_of_turn(log) if self._viewer.current_turn_only else self._items_of(log.shown())
        halves = [half for item in _merge_transcriptions(items) for half in item.halves()]
        arranged = rearrange(_with_answers(halves))
        for content in arranged.contents:
            self._emit(content)
        self.projection.orphans.extend(arranged.orphans)
        self._rebuild_next = arranged.drops_between
        self._consumed = len(events)

    def _items_of(self, events: Sequence[Event]) -> list[HistoryItem]:
        return [item for item in map(self._item_of, events) if item is not None]

    def _items_of_turn(self, log: EffectiveLog) -> list[HistoryItem]:
        """The current turn. A summary that tells of earlier turns is none of it."""
        turn = CurrentTurn()
        for position, event in enumerate(log.kept):
            item = None if event.actions.compaction is not None else self._item_of(event)
            if event.author == "user" and self._rule(event, self._viewer):
                turn.answer()
            if item is None:
                continue
            if _starts_turn(item, event):
                turn.begin(position)
            turn.take(item)
        self._turn = turn.now.start
        shown = log.shown_since(self._turn)
        if shown is None:
            return turn.now.items
        self._foreign_calls.clear()
        self._items_of(log.kept[: self._turn])  # for the calls of other agents
        return self._items_of(shown)

    def _item_of(self, event: Event) -> HistoryItem | None:
        """What one event contributes, or None if it is not shown."""
        if not self._rule(event, self._viewer):
            return None
        content = event.content
        if content is None or not content.role or not content.parts:
            return transcription_of(event)
        author, own = event.author, event.author == self._viewer.agent
        shown, calls, responses = shown_of(content, event, own)
        if shown is None:
            return None
        if own:
            self._foreign_calls.difference_update(calls)  # an answer from here on is to these
            unanswered = frozenset(calls).difference(event.long_running_tool_ids or (), ("",))
            return HistoryItem(shown, calls, responses, unanswered)
        if author == "user" and not (responses and self._foreign_calls.issuperset(responses)):
            item = HistoryItem(shown, calls, responses, beside_answer=shown is not content)
            return item.without_calls(frozenset(calls))  # a user's, which nothing answers
        self._foreign_calls.update(filter(None, calls))
        told = self._told(event, shown)
        return None if told is None else HistoryItem(told, [], [], foreign=True)

    def _told(self, event: Event, content: types.Content) -> types.Content | None:
        """What is told of another agent's event, or of the answer to one of its calls; None for nothing."""
        unfit = event.custom_metadata and UNFIT_OUTPUT in event.custom_metadata  # others are told the answer that fits
        return None if unfit else foreign_content(event.author, content, self._viewer.foreign_thoughts)


def _with_answers(items: list[HistoryItem]) -> list[HistoryItem]:
    """The items without the calls that no later response answers; of one id used twice, the later call has it."""
    kept: list[HistoryItem] = []
    answered: set[str] = set()
    for item in reversed(items):
        shown = item.without_calls(item.unanswered - answered)
        answered.difference_update(item.calls)
        answered.update(item.responses)
        if shown is not None:
            kept.append(shown)
    kept.reverse()
    return kept


def _merge_transcriptions(items: list[HistoryItem]) -> list[HistoryItem]:
    """Neighbouring transcriptions of one speaker become one text (spec §9.5)."""
    merged: list[HistoryItem] = []
    for speaker, said in groupby(items, attrgetter("transcription")):
        if speaker is None:
            merged.extend(said)
        else:
            texts = [part.text or "" for item in said for part in parts_of(item.content)]
            merged.append(HistoryItem(content_of(speaker, [text_part("".join(texts))]), [], []))
    return merged


def _starts_turn(item: HistoryItem, event: Event) -> bool:
    """Whether a turn begins here: input from the user or another agent (spec §9.9).

    A message of nothing but function responses goes on with the turn that called.
    """
    if item.foreign:
        return not _hands_over(event)
    if event.author != "user" or item.content.role != "user":
        return False
    return len(item.responses) < len(parts_of(item.content))


def _hands_over(event: Event) -> bool:
    """Whether an event of another agent hands the conversation over: the question is still that of the turn before."""
    handing = (call.name == "transfer_to_agent" for call in event.get_function_calls())
    return bool(event.actions.transfer_to_agent) or any(handing)
