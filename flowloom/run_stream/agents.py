"""Whose turn it is in a run: agents' beginnings and ends, out of authors, transfers and branches."""

from __future__ import annotations

from collections.abc import Callable

from flowloom.events.event import Event
from flowloom.run_stream.records import AgentFinished, AgentStarted, RunStreamEvent

Speaker = tuple[str, str | None, str | None, str | None]
"""Who speaks, and where: author, branch, isolation scope, and the tool call that the agent runs for."""
_Lane = tuple[str | None, str | None, str | None]

Out = list[RunStreamEvent]


class UniqueIds:
    """Ids that are given once: the wanted one, or that with a number."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def give(self, wanted: str) -> str:
        given, number = wanted, self._given.get(wanted, 0)
        while given in self._given:
            number += 1
            given = f"{wanted}#{number + 1}"
        if number:
            self._given[wanted] = number
        self._given[given] = 0
        return given


class _Turn:
    __slots__ = ("above", "id", "path", "silent", "speaker")

    def __init__(self, turn_id: str, speaker: Speaker, above: _Turn | None, silent: bool) -> None:
        self.id = turn_id
        self.above = above
        """The turn that this one belongs to."""
        self.speaker = speaker
        self.path = ""
        """Which turn of which member of a workflow it is, if its events say so."""
        self.silent = silent
        """Whether it was handed to and has said nothing itself: a workflow agent, whose members speak."""


class AgentTurns:
    """The turns that are open. Where agents follow each other they stand on a stack, for each branch and scope one.

    `speaking` tells whether a speaker's message is still open: its turn goes on until that is complete.
    """

    __slots__ = ("_ids", "_lanes", "_speaking")

    def __init__(self, speaking: Callable[[Speaker], bool]) -> None:
        self._lanes: dict[_Lane, list[_Turn]] = {}
        self._speaking = speaking
        self._ids = UniqueIds()

    def enter(self, speaker: Speaker, event: Event, out: Out) -> None:
        """The speaker's turn begins, unless it goes on; turns that are over by this finish."""
        name, lane = speaker[0], speaker[1:]
        path = event.node_info.path if event.node_info is not None else ""
        if len(self._lanes) > 1:
            self._finish_below(lane, out)
        turns = self._lanes.get(lane)
        if turns is not None and turns[-1].speaker[0] != name:
            known = any(turn.speaker[0] == name for turn in turns)
            while turns and not self._goes_on(turns[-1]):
                if turns[-1].speaker[0] == name or (turns[-1].silent and not known):
                    break
                self._pop(lane, out)
            if not known:
                turns = None
        elif turns is not None and path and turns[-1].path not in ("", path) and not self._goes_on(turns[-1]):
            self._pop(lane, out)  # the same member in the next round of a loop
            turns = None
        if turns is None:
            self._push(speaker, event.id, out)
            turns = self._lanes[lane]
        if turns[-1].speaker[0] == name:
            turns[-1].silent = False
            turns[-1].path = path or turns[-1].path

    def hand_over(self, speaker: Speaker, target: str, event: Event, out: Out) -> None:
        """The target's turn begins within the speaker's."""
        self._push((target, *speaker[1:]), f"{event.id}:{target}", out, silent=True)

    def leave(self, speaker: Speaker, out: Out) -> None:
        """The speaker says that its turn is over."""
        turns = self._lanes.get(speaker[1:])
        if turns and turns[-1].speaker == speaker and not self._goes_on(turns[-1]):
            self._pop(speaker[1:], out)

    def lanes_of(self, call_id: str) -> list[_Lane]:
        """The lanes of the agents that run for a call, and of those below them."""
        found = [lane for lane in self._lanes if call_id in lane[1:]]
        for lane in found:  # grows meanwhile
            for turn in self._lanes[lane]:
                found += [each for each in self._lanes_under(turn) if each not in found]
        return found

    def finish(self, out: Out, lanes: list[_Lane] | None = None) -> None:
        """Finish all turns, or those of some lanes, the latest first."""
        for lane in reversed(list(self._lanes) if lanes is None else lanes):
            while lane in self._lanes:
                self._pop(lane, out)

    def _finish_below(self, lane: _Lane, out: Out) -> None:
        """The branches below this one are over when an agent speaks here."""
        below = [
            each
            for each, turns in self._lanes.items()
            if each[2] == lane[2] and _is_below(each[0], lane[0]) and not any(self._goes_on(turn) for turn in turns)
        ]
        if below:
            self.finish(out, below)

    def _push(self, speaker: Speaker, wanted_id: str, out: Out, silent: bool = False) -> None:
        name, branch, _, call_id = speaker
        above = self._above(speaker[1:])
        turn = _Turn(self._ids.give(wanted_id), speaker, above, silent)
        self._lanes.setdefault(speaker[1:], []).append(turn)
        out.append(AgentStarted(turn.id, name, above.id if above is not None else None, branch, call_id))

    def _pop(self, lane: _Lane, out: Out) -> None:
        turns = self._lanes[lane]
        turn = turns[-1]
        if len(self._lanes) > 1:
            self.finish(out, self._lanes_under(turn))
        turns.pop()
        if not turns:
            del self._lanes[lane]
        out.append(AgentFinished(turn.id, turn.speaker[0]))

    def _lanes_under(self, turn: _Turn) -> list[_Lane]:
        """The lanes that began within a turn."""
        return [
            lane
            for lane, turns in self._lanes.items()
            if turns[0].above is turn and turns[0].speaker[1:] != turn.speaker[1:]
        ]

    def _goes_on(self, turn: _Turn) -> bool:
        """Whether a message of the turn is open, or of one within it."""
        if self._speaking(turn.speaker):
            return True
        if len(self._lanes) == 1:
            return False
        return any(self._goes_on(each) for lane in self._lanes_under(turn) for each in self._lanes[lane])

    def _above(self, lane: _Lane) -> _Turn | None:
        """The turn that a new one belongs to: the latest of its own lane, or of the nearest one above."""
        nearest: list[_Turn] | None = self._lanes.get(lane)
        if nearest is None:
            length = -1
            for each, turns in self._lanes.items():
                if each[2] != lane[2] or not (each[0] == lane[0] or _is_below(lane[0], each[0])):
                    continue
                if each[1] is not None and each[1] != lane[1]:
                    continue
                if len(each[0] or "") > length:
                    nearest, length = turns, len(each[0] or "")
        return nearest[-1] if nearest else None


def _is_below(branch: str | None, other: str | None) -> bool:
    return bool(branch) and (not other or branch.startswith(other + ".")) and branch != other
