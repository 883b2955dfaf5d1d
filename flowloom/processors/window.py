"""Windows on long histories: processors that leave out what is old. They stand right behind `contents`.

    flow.with_processor(TokenWindow(100_000), after="contents")

The session keeps everything. A window moves seldom and then by a large step: in between, each request begins with
what the one before it was, which providers answer faster and cheaper.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError
from flowloom.events.parts import parts_of
from flowloom.events.wire import replace
from flowloom.models.request import LlmRequest
from flowloom.processors.outline import LogReader, Outline, Pinned, States, View, contents_before_history
from flowloom.processors.token_count import content_tokens, json_length

_log = logging.getLogger("flowloom.window")


class _Known:
    """What a processor knows of one agent's history."""

    def __init__(self, ctx: InvocationContext, lead: int) -> None:
        self.outline = Outline(lead)
        self.log = LogReader(ctx.agent.name, ctx.branch, ctx.isolation_scope)
        self._by_event: list[int] = []  # the contents that events pin

    def follow(self, ctx: InvocationContext, body: list[types.Content], pinned: Pinned | None, measure: bool) -> int:
        """Take note of what is new; returns how many contents were known, and are pinned as they were."""
        session = ctx.run.session
        another_log = self.log.advance(session.history.kept(session.events), measure=measure)
        known = self.outline.follow(body, pinned)
        start = max(self.outline.lead, 0 if another_log else known)  # another log may pin something else
        found = [index for index in range(start, len(body)) if self.log.is_pinned(body[index])]
        at = bisect_left(self._by_event, start)
        changed = set(self._by_event[at:]).symmetric_difference(found)
        self._by_event[at:] = found
        return min(known, *changed) if changed else known

    def kept(self, start: int, end: int) -> set[int]:
        """What stays of the contents from `start` to `end` because it is pinned: groups, and who began their turns."""
        found: set[int] = set()
        outline = self.outline
        for places in (outline.pinned, self._by_event):
            for index in places[bisect_left(places, start) : bisect_left(places, end)]:
                group = outline.group_of(index)
                found.update(group)
                if outline.contents[group[0]].role != "user":
                    at = bisect_right(outline.openers, group[0]) - 1
                    if at >= 0:
                        found.add(outline.openers[at])
        return found


class KeepTurns:
    """The last turns of the user, and what is pinned.

    Reads: the session's events (which are pinned), `contents`.
    Writes: `contents`: whole turns are left out.
    Must come after: contents.

    At least `turns` are shown, and fewer than `turns + step`: the window moves by `step` turns at once. Left out, a
    step is a quarter of the turns, or one. `pinned` says which contents stay besides those of pinned events. Raises
    `ConfigurationError` for less than one turn.
    """

    name = "keep_turns"

    def __init__(self, turns: int, *, step: int | None = None, pinned: Pinned | None = None) -> None:
        self._turns = _at_least_one("turns", turns)
        self._step = max(1, turns // 4) if step is None else _at_least_one("step", step)
        self._pinned = pinned
        self._states: States[_Known] = States()

    def __repr__(self) -> str:
        return f"KeepTurns({self._turns})"

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
        view, lead = View(request), contents_before_history(ctx)
        state = self._states.take(ctx)
        if state is None or state.outline.lead != lead:
            state = _Known(ctx, lead)
        state.follow(ctx, view.body, self._pinned, measure=False)
        openers = state.outline.openers
        dropped = (len(openers) - self._turns) // self._step * self._step
        if dropped > 0:
            start = openers[dropped]
            view.leave_out(start, [*range(lead), *sorted(state.kept(lead, start))])
        self._states.give_back(ctx, state)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where the window begins, what is shown of the history before, and what that and all before it cost."""

    start: int
    kept: tuple[int, ...] = ()
    tokens: int = 0


class _Budget(_Known):
    """The cuts of one agent's window, for each content the one that a request ending on it has."""

    def __init__(self, ctx: InvocationContext, lead: int) -> None:
        super().__init__(ctx, lead)
        self.sums = [0]
        """The tokens before each content, and those of all."""
        self.cuts: list[_Cut] = []
        self.warned = False

    def forget(self, known: int) -> None:
        """Go back to what was known of the first contents."""
        del self.sums[known + 1 :], self.cuts[known:]

    def add(self, tokens: int, budget: float, cut_to: float) -> None:
        """Take note of the next content: cut if it does not fit any more."""
        index, lead = len(self.cuts), self.outline.lead
        self.sums.append(self.sums[-1] + tokens)
        if index < lead:
            self.cuts.append(_Cut(index + 1, (), self.sums[-1]))
            return
        cut = self.cuts[-1] if index else _Cut(0)
        if self._shown(cut, index) > budget:
            cut = self._cut(cut, index, budget * cut_to)
        self.cuts.append(cut)

    def total(self) -> int:
        """The tokens of the window."""
        return self._shown(self.cuts[-1], len(self.cuts) - 1)

    def _shown(self, cut: _Cut, index: int) -> int:
        return cut.tokens + self.sums[index + 1] - self.sums[cut.start]

    def _cut(self, cut: _Cut, index: int, goal: float) -> _Cut:
        """The next cut that leaves the goal; the turn that `index` is in stays."""
        openers = self.outline.openers
        for opener in openers[bisect_right(openers, cut.start) : bisect_right(openers, index)]:
            more = self.kept(cut.start, opener) - set(cut.kept)
            tokens = cut.tokens + sum(self.sums[place + 1] - self.sums[place] for place in more)
            cut = _Cut(opener, (*cut.kept, *sorted(more)), tokens)
            if self._shown(cut, index) <= goal:
                break
        return cut


class TokenWindow:
    """The newest turns that fit a budget of tokens, and what is pinned.

    Reads: the session's events (which are pinned, what prompts really cost), `contents`.
    Writes: `contents`: whole turns are left out, the oldest first.
    Must come after: contents, and processors that make contents shorter.

    When the contents have more than `max_tokens`, they are cut down to `cut_to` of it (a share), and grow again. The
    latest turn stays in any case; a warning is logged when it does not fit by itself. Instructions and tools are not
    counted: leave room for them.

    `count` gives the tokens of a content, and must be a pure function that only reads. Left out, they are estimated,
    and corrected by what the provider counted in the answers so far. `pinned` says which contents stay besides those
    of pinned events. Raises `ConfigurationError` for a budget or share that is none.
    """

    name = "token_window"

    def __init__(
        self,
        max_tokens: int,
        *,
        count: Callable[[types.Content], int] | None = None,
        pinned: Pinned | None = None,
        cut_to: float = 0.75,
    ) -> None:
        self._max_tokens = _at_least_one("max_tokens", max_tokens)
        if not 0 < cut_to <= 1:
            raise ConfigurationError(f"`cut_to` is a share of the budget, between 0 and 1, and not {cut_to!r}.")
        self._count = count
        self._pinned = pinned
        self._cut_to = cut_to
        self._states: States[_Budget] = States()

    def __repr__(self) -> str:
        return f"TokenWindow({self._max_tokens})"

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
        view, lead = View(request), contents_before_history(ctx)
        if not view.body:
            return
        state = self._states.take(ctx)
        if state is None or state.outline.lead != lead:
            state = _Budget(ctx, lead)
        known = state.follow(ctx, view.body, self._pinned, measure=self._count is None)
        state.forget(known)
        budget = self._max_tokens / state.log.calibration.ratio  # 1 for a count of the caller's own
        count = self._count or content_tokens
        for index in range(known, len(view.body)):
            state.add(count(view.body[index]), budget, self._cut_to)
        cut = state.cuts[-1]
        if cut.start > lead:
            view.leave_out(cut.start, [*range(lead), *cut.kept])
        if state.total() > budget and not state.warned:
            state.warned = True
            _log.warning(
                "The window of agent `%s` is over its budget of %d tokens by itself: the latest turn and what is "
                "pinned have about %d. They are kept. Give the window more, or put `DropToolPayloads` before it.",
                ctx.agent.name,
                self._max_tokens,
                state.total() * self._max_tokens / budget,
            )
        self._states.give_back(ctx, state)


class _Payloads(_Known):
    """The contents of one agent with markers in the place of old payloads, as far as they were needed."""

    def __init__(self, ctx: InvocationContext, lead: int) -> None:
        super().__init__(ctx, lead)
        self.shown: list[types.Content] = []

    def forget(self, known: int) -> None:
        """Go back to the groups that were wholly among the first contents."""
        groups = self.outline.groups
        del self.shown[groups[known] if known < len(groups) else known :]


class DropToolPayloads:
    """Old results of tools and large arguments give way to markers that tell the tool and the size.

    Reads: the session's events (which are pinned), `contents`.
    Writes: `contents[i].parts[j]`: `function_response.response` and `.parts`, values in `function_call.args`.
    Must come after: contents.

    The last `keep_last` rounds of calls stay whole (calls that were made at once are a round), and up to half as many
    more: payloads are dropped several at once. What has up to `max_chars` characters as JSON always stays, and so does
    what is pinned, in the session or as `pinned` says of a content.

    Raises `ConfigurationError` if not even one round is to stay: the model has to read it once.
    """

    name = "drop_tool_payloads"

    def __init__(self, *, keep_last: int = 5, max_chars: int = 500, pinned: Pinned | None = None) -> None:
        self._keep_last = _at_least_one("keep_last", keep_last)
        if max_chars < 0:
            raise ConfigurationError(f"`max_chars` must not be negative, and is {max_chars}.")
        self._step = max(1, keep_last // 2)
        self._max_chars = max_chars
        self._pinned = pinned
        self._states: States[_Payloads] = States()

    def __repr__(self) -> str:
        return f"DropToolPayloads(keep_last={self._keep_last}, max_chars={self._max_chars})"

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
        view, lead = View(request), contents_before_history(ctx)
        state = self._states.take(ctx)
        if state is None or state.outline.lead != lead:
            state = _Payloads(ctx, lead)
        state.forget(state.follow(ctx, view.body, self._pinned, measure=False))
        calls = state.outline.calls
        dropped = (len(calls) - self._keep_last) // self._step * self._step
        if dropped > 0:
            end = calls[dropped]
            pinned = state.kept(len(state.shown), end)
            for index in range(len(state.shown), end):
                content = view.body[index]
                state.shown.append(content if index in pinned else shortened(content, self._max_chars))
            view.replace(state.shown[:end])
        self._states.give_back(ctx, state)


def shortened(content: types.Content, max_chars: int) -> types.Content:
    """The content with markers in the place of payloads that are too large; the same one if none is."""
    whole = parts_of(content)
    parts = [_shortened_part(part, max_chars) for part in whole]
    if all(new is old for new, old in zip(parts, whole, strict=True)):
        return content
    return replace(content, parts=parts)


def _shortened_part(part: types.Part, max_chars: int) -> types.Part:
    call, answer = part.function_call, part.function_response
    if answer is not None:
        size = json_length(answer.response)
        if size <= max_chars and not answer.parts:
            return part
        files = f" with {len(answer.parts)} file(s)" if answer.parts else ""
        marker = f"The result of `{answer.name}` ({size} characters{files}) is old and was left out."
        bare = replace(answer, response={"omitted": marker}, parts=None)
        return _with(part, "function_response", bare)
    if call is None or not call.args or json_length(call.args) <= max_chars:
        return part
    args = dict(_short_arguments(call.name, call.args, max_chars))
    short = replace(call, args=args)
    return _with(part, "function_call", short)


def _short_arguments(name: str | None, args: dict[str, Any], max_chars: int) -> Iterator[tuple[str, Any]]:
    """The arguments, from the largest on as markers until the rest is small enough; in their order."""
    sizes = {key: json_length(value) for key, value in args.items()}
    left, large = sum(sizes.values()), set[str]()
    for key in sorted(sizes, key=lambda each: -sizes[each]):
        if left <= max_chars:
            break
        large.add(key)
        left -= sizes[key]
    for key, value in args.items():
        marker = f"[{sizes[key]} characters, left out of an old call of `{name}`]"
        yield key, marker if key in large and len(marker) < sizes[key] else value


def _with(part: types.Part, field_name: str, value: object) -> types.Part:
    return replace(part, **{field_name: value})


def _at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise ConfigurationError(f"`{name}` must be at least 1, and is {value!r}.")
    return value
