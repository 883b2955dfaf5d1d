"""`EventsView`: the events of a run in a form that two runs have in common."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from flowloom.events.event import Event
from flowloom.inspection.canonical import Data, Ordinals, canonical
from flowloom.inspection.sections import Section
from flowloom.inspection.text import write_sections
from flowloom.inspection.tree import Fields, fields_of
from flowloom.objects.given import events_given, of_kind

_VOLATILE = ("id", "timestamp", "error")
_BOOKKEEPING = "pending_calls"
"""What the engine keeps in `agent_state` about calls that the event shows: ids and hashes, which differ in each run."""


class EventsView:
    """What happened in a run, as data and as text, the same whenever the same happens.

    Event ids and times are left out; ids of invocations and calls are ordinals in order of appearance, in a streamed
    run too; bytes and signatures are shortened as in a `RequestView`; empty fields are left out.

    `events` are those of the run, in order. Raises `InputValidationError` for what is no list of them.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        given = events_given(events, "EventsView")
        self._trees = [_tree_of(of_kind(Event, each, "`EventsView` reads a list of events.")) for each in given]

    @cached_property
    def data(self) -> list[dict[str, Data]]:
        """JSON values, one dict for each event."""
        ordinals = Ordinals()
        for tree in self._trees:
            if "invocation_id" in tree:
                ordinals.add("invocation", tree["invocation_id"])
            if "content" in tree:
                ordinals.add_calls([tree["content"]])
        return [canonical(tree, ordinals) for tree in self._trees]

    @property
    def sections(self) -> list[Section]:
        """One section for each event, by its author."""
        return [
            Section(f"events[{index}]", {k: v for k, v in event.items() if k != "author"}, event.get("author"))
            for index, event in enumerate(self.data)
        ]

    @cached_property
    def text(self) -> str:
        """A line for each leaf, longer texts in blocks."""
        return write_sections(self.sections)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, EventsView) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.text)


def _tree_of(event: Event) -> Fields:
    tree = fields_of(event)
    for name in _VOLATILE:
        tree.pop(name, None)
    actions, state = tree.get("actions"), event.actions.agent_state
    if isinstance(actions, Fields) and state is not None:
        actions["agent_state"] = {name: value for name, value in state.items() if name != _BOOKKEEPING}
    return Fields(tree.cls, _compact(tree))


def _compact(fields: Fields) -> dict[str, Any]:
    """The fields that say something: no empty strings, lists, dicts and objects; content as it is."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Fields) and name != "content":
            value = Fields(value.cls, _compact(value))
        if value or (isinstance(value, bool | int | float) and name != "partial"):
            kept[name] = value
    return kept
