"""The current turn of a log: what an agent with `include_contents="none"` is shown (spec §9.9)."""

from __future__ import annotations

from dataclasses import dataclass

from flowloom.log.item import HistoryItem


@dataclass(slots=True, eq=False, repr=False)
class _Turn:
    start: int
    """Where in the log it starts."""
    items: list[HistoryItem]


class CurrentTurn:
    """What came since the latest input. A late answer goes on with the turn that opened its call, which is shown with
    it: a long-running tool may report, and a person may decide, when other turns have come between."""

    __slots__ = ("_since", "_turn_of", "now")

    def __init__(self) -> None:
        self.now = _Turn(0, [])
        self._since: list[HistoryItem] = []  # what came since the user's latest message
        self._turn_of: dict[str, _Turn] = {}  # by the ids of the calls in it

    def answer(self) -> None:
        """The user's message comes next, or was one that no model is shown."""
        self._since = []

    def begin(self, position: int) -> None:
        """A turn begins at a position in the log."""
        self.now, self._since = _Turn(position, []), []

    def take(self, item: HistoryItem) -> None:
        """Take in what comes next."""
        self.now.items.append(item)
        self._since.append(item)
        opened = {id(t): t for t in (self._turn_of.get(response) for response in item.responses) if t is not None}
        if opened and opened.keys() != {id(self.now)}:
            turns = sorted(opened.values(), key=lambda turn: turn.start)
            new = {id(each) for each in self._since}
            earlier = [each for turn in turns for each in turn.items if id(each) not in new]
            self.now = _Turn(turns[0].start, [*earlier, *self._since])
            self._turn_of.update((call, self.now) for each in earlier for call in each.calls)
        self._turn_of.update((call, self.now) for call in item.calls)
