"""The current turn of a log: what an agent with `include_contents="none"` is shown (spec §9.9)."""

from __future__ import annotations

from flowloom.log.item import HistoryItem


class _Turn:
    __slots__ = ("items", "start")

    def __init__(self, start: int, items: list[HistoryItem]) -> None:
        self.start = start
        self.items = items


class CurrentTurn:
    """What came since the latest input. A late answer goes on with the turn that opened its call, which is shown with
    it: a long-running tool may report, and a person may decide, when other turns have come between."""

    __slots__ = ("_now", "_since", "_turn_of")

    def __init__(self) -> None:
        self._now = _Turn(0, [])
        self._since: list[HistoryItem] = []  # what came since the user's latest message
        self._turn_of: dict[str, _Turn] = {}  # by the ids of the calls in it

    @property
    def start(self) -> int:
        """Where in the log the turn starts."""
        return self._now.start

    @property
    def items(self) -> list[HistoryItem]:
        """What is in the turn."""
        return self._now.items

    def answer(self) -> None:
        """The user's message comes next, or was one that no model is shown."""
        self._since = []

    def begin(self, position: int) -> None:
        """A turn begins at a position in the log."""
        self._now, self._since = _Turn(position, []), []

    def take(self, item: HistoryItem) -> None:
        """Take in what comes next."""
        self._now.items.append(item)
        self._since.append(item)
        opened = {id(t): t for t in (self._turn_of.get(response) for response in item.responses) if t is not None}
        if opened and opened.keys() != {id(self._now)}:
            turns = sorted(opened.values(), key=lambda turn: turn.start)
            new = {id(each) for each in self._since}
            earlier = [each for turn in turns for each in turn.items if id(each) not in new]
            self._now = _Turn(turns[0].start, [*earlier, *self._since])
            self._turn_of.update((call, self._now) for each in earlier for call in each.calls)
        self._turn_of.update((call, self._now) for call in item.calls)
