"""`Outline`: where turns and calls begin in an agent's contents, and what is pinned; followed as the history grows.

A request's contents are those of the request before and some more, nearly always. What was found out about the old
ones is kept, so that a step costs in proportion to what is new. Nothing depends on it being kept: the same contents
have the same outline.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import parts_of
from flowloom.events.wire import set_fields
from flowloom.log.cursor import LogCursor
from flowloom.log.history import Viewer, visible
from flowloom.log.item import FOREIGN_LEAD_IN, LEAD_INS, foreign_content, shown_of, transcription_of
from flowloom.models.contents import SharedContents, only_read
from flowloom.models.request import LlmRequest
from flowloom.processors.token_count import Calibration

Pinned = Callable[[types.Content], bool]
"""Whether a content stays in the window. Asked once for each content; it only reads, and is a pure function."""

PIN = "pinned"
"""The key of an event's `custom_metadata` that pins what the event says."""

StateT = TypeVar("StateT")


class Outline:
    """The turns of a list of contents.

    A turn begins with a message of the user, and goes on to the next one. What other agents said and did is told as
    user content as well, and begins none; nor does the result of a call. Calls and their results are one group.
    """

    def __init__(self, lead: int) -> None:
        self.lead = lead
        """How many contents stand before the history."""
        self.contents: list[types.Content] = []
        self.openers: list[int] = []
        """Where turns begin. What stands before the first one belongs to none."""
        self.calls: list[int] = []
        """Where groups of calls begin."""
        self.groups: list[int] = []
        """For each content where its group begins."""
        self.pinned: list[int] = []
        """Those that the application's own function pins."""

    def follow(self, contents: list[types.Content], is_pinned: Pinned | None) -> int:
        """Take the outline of `contents`; returns how many of them it knew already, and still stand there."""
        known = self._known(contents)
        for places in (self.openers, self.calls, self.pinned):
            while places and places[-1] >= known:
                places.pop()
        del self.contents[known:], self.groups[known:]
        for index in range(known, len(contents)):
            content = contents[index]
            self._add(index, content)
            if is_pinned is not None and index >= self.lead and is_pinned(content):
                self.pinned.append(index)
        self.contents += contents[known:]
        return known

    def _known(self, contents: list[types.Content]) -> int:
        """How many contents are the same as before. Equality of lists looks at identity first, at 5 ns an entry."""
        held = self.contents
        most = min(len(held), len(contents))
        if contents[:most] == (held if most == len(held) else held[:most]):
            return most
        low = 0
        while low < most:  # the longest common beginning is longer than `low`, or that long
            middle = (low + most + 1) // 2
            if contents[low:middle] == held[low:middle]:
                low = middle
            else:
                most = middle - 1
        return low

    def _add(self, index: int, content: types.Content) -> None:
        parts = parts_of(content)
        joined = index > self.lead and any(part.function_response is not None for part in parts)  # to its call
        self.groups.append(self.groups[-1] if joined else index)
        if not joined and any(part.function_call is not None for part in parts):
            self.calls.append(index)
        if index >= self.lead and opens_turn(content):
            self.openers.append(index)

    def group_of(self, index: int) -> range:
        """The content at `index` with those that it cannot be without: a call's results, a result's call."""
        first = self.groups[index]
        return range(first, bisect_right(self.groups, first))


def opens_turn(content: types.Content) -> bool:
    """Whether a content is a message of the user, and neither a result nor the words of another agent."""
    parts = content.parts
    if content.role != "user" or not parts or parts[0].text in LEAD_INS:
        return False
    return all(part.function_response is None and part.code_execution_result is None for part in parts)


class LogReader:
    """What a session's events say beyond their contents: which are pinned, and what they really cost."""

    def __init__(self, agent: str, branch: str | None, scope: str | None) -> None:
        self._viewer = Viewer(agent, branch, scope)
        self._cursor = LogCursor()
        self._reset()

    def _reset(self) -> None:
        self.calibration = Calibration()
        self._objects: dict[int, object] = {}  # what pinned events are made of, by id
        self._bare: set[str] = set()  # ids of pinned calls and results in which nothing is to know them by
        self._told: Counter[str] = Counter()  # how they are told to other agents, and what was spoken in them
        self._speech: tuple[str | None, str, bool] = None, "", False  # who speaks, what so far, whether it is pinned

    def advance(self, events: Sequence[Event], *, measure: bool) -> bool:
        """Read the events that are new; with `measure`, look at the counts of tokens as well. Whether this is another
        log than the one before.
        """
        new = self._cursor.advance(events)
        if new is None:
            self._reset()
        read, bare = events if new is None else new, len(self._bare)
        for event in read:
            pinned = event.custom_metadata is not None and bool(event.custom_metadata.get(PIN))
            if pinned:
                self._pin(event.author, event.content)
            self._hear(event, pinned)
            if event.actions.compaction is not None:
                self._pin("user", event.actions.compaction.compacted_content)
            viewer = self._viewer
            if measure and event.branch in (None, viewer.branch) and event.isolation_scope == viewer.isolation_scope:
                self.calibration.see(event, event.author == viewer.agent)
        if self._bare:
            self._pin_partners(events if len(self._bare) > bare else read)
        return new is None

    def _pin(self, author: str, content: types.Content | None) -> None:
        for part in parts_of(content):
            self._know(found := _made_of(part))
            if len(found) == 1 and (call_id := _minted_id_of(part)):
                self._bare.add(call_id)
        told = foreign_content(author, content, thoughts=True)
        self._told.update(part.text for part in parts_of(told) if part.text)
        del self._told[FOREIGN_LEAD_IN]

    def _know(self, objects: Sequence[object]) -> None:
        self._objects.update((id(each), each) for each in objects)

    def _pin_partners(self, events: Sequence[Event]) -> None:
        """Know the calls and results that stand in one group with what nothing is in."""
        for event in events:
            for part in parts_of(event.content):
                if _minted_id_of(part) in self._bare:
                    self._know(_made_of(part))

    def _hear(self, event: Event, pinned: bool) -> None:
        """Follow what is spoken: the history tells as one text what one speaker says until something else is shown."""
        if not visible(event, self._viewer):
            return
        content, (speaker, said, was_pinned) = event.content, self._speech
        if content is not None and content.role and content.parts:
            if speaker and shown_of(content, event, event.author == self._viewer.agent)[0] is not None:
                self._speech = None, "", False
        elif (heard := transcription_of(event)) is not None:
            if speaker != heard.transcription:
                said, was_pinned = "", False
            elif was_pinned:
                self._told[said] -= 1
            said += "".join(part.text or "" for part in parts_of(heard.content))
            self._speech = heard.transcription, said, pinned or was_pinned
            if pinned or was_pinned:
                self._told[said] += 1

    def is_pinned(self, content: types.Content) -> bool:
        """Whether a content, or a part of it, comes from a pinned event or is the summary of compacted ones.

        Contents are made of the same objects as their events, save for the words of other agents and what was spoken,
        until they are looked at: that gives a copy.
        """
        if not self._objects and not self._told:  # as in most sessions: nothing is pinned
            return False
        for part in parts_of(content):
            if part.text is not None and self._told[part.text]:
                return True
            if any(id(made_of) in self._objects for made_of in _made_of(part)):
                return True
        return False


def _minted_id_of(part: types.Part) -> str | None:
    """The id of a call or result that is not shown to models, because the engine gave it."""
    named = part.function_call or part.function_response
    return named.id if named is not None and (named.id or "").startswith(CLIENT_CALL_PREFIX) else None


def _made_of(part: types.Part) -> list[object]:
    """The part, and what of it a copy without the call's id shares with it."""
    found: list[object] = [part]
    if part.function_call is not None and part.function_call.args is not None:
        found.append(part.function_call.args)
    elif part.function_response is not None and part.function_response.response is not None:
        found.append(part.function_response.response)
    return found


class States(Generic[StateT]):
    """What a processor has found out about each agent of the sessions that it saw last."""

    MAX = 64

    def __init__(self) -> None:
        self._by_place: OrderedDict[tuple[str | None, ...], StateT] = OrderedDict()

    def take(self, ctx: InvocationContext) -> StateT | None:
        """The state for the agent of `ctx`, to be given back. Meanwhile no other request gets it."""
        return self._by_place.pop(_place(ctx), None)

    def give_back(self, ctx: InvocationContext, state: StateT) -> None:
        """Keep a state for the next request."""
        self._by_place[_place(ctx)] = state
        while len(self._by_place) > self.MAX:
            self._by_place.popitem(last=False)


def _place(ctx: InvocationContext) -> tuple[str | None, ...]:
    session = ctx.run.session
    return session.app_name, session.user_id, session.id, ctx.agent.name, ctx.branch, ctx.isolation_scope


def contents_before_history(ctx: InvocationContext) -> int:
    """How many contents the contents processor puts before the history: `model_input_context`, the task's input."""
    return len(ctx.run.config.model_input_context or ()) + bool(ctx.isolation_scope)


class View:
    """A request's contents without the instructions that stand among them, and the way back."""

    def __init__(self, request: LlmRequest) -> None:
        self._request = request
        self.body = [*only_read(request.contents)]
        """The contents as a list that may be changed; the contents themselves are the session's."""
        self._spot = _place_of_instructions(self.body, request)
        if self._spot is not None:
            del self.body[self._spot]

    def leave_out(self, end: int, places: Sequence[int]) -> None:
        """Of the first `end` entries of `body`, show those at `places` and no others."""
        kept = [self.body[place] for place in places]
        if self._spot is not None and self._spot < end:
            kept.insert(sum(place < self._spot for place in places), only_read(self._request.contents)[self._spot])
            end += 1
        contents = self._write(end, kept)
        if contents is not None and contents.special is not None and not contents.touched:  # so no instructions in it
            moved = {place: index for index, place in enumerate(places)}
            shift = len(places) - end
            contents.special = tuple(
                place + shift if place >= end else moved[place]
                for place in contents.special
                if place >= end or place in moved
            )

    def replace(self, new: list[types.Content]) -> None:
        """Show `new` in the place of as many entries, the first of `body`; the instructions stand behind them."""
        self._write(len(new), new)

    def _write(self, end: int, new: list[types.Content]) -> SharedContents | None:
        """Put `new` where the first `end` entries of the request are; returns its contents if they are shared."""
        contents = self._request.contents
        if not isinstance(contents, SharedContents):
            set_fields(self._request, contents=[*new, *contents[end:]])
            return None
        # directly, because what is shared stays shared: no code looks at it here
        list[types.Content].__setitem__(contents, slice(0, end), new)
        return contents


def _place_of_instructions(contents: list[types.Content], request: LlmRequest) -> int | None:
    """Where the instructions stand that change with the turn; the contents processor puts them near the end."""
    if not request.dynamic_instructions:
        return None
    text = "\n\n".join(request.dynamic_instructions)
    for index in reversed(range(len(contents))):
        content = contents[index]
        if content.role != "user":
            return None
        if [part.text for part in parts_of(content)] == [text]:
            return index
    return None
