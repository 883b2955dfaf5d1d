"""What holds for windows on any history."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples
from window_logs import complaint, lines, logs, request_of, requests_at

from flowloom import Event
from flowloom.processors import DropToolPayloads, KeepTurns, TokenWindow
from flowloom.processors.token_count import content_tokens

BUDGETS = st.integers(20, 900)
WINDOWS: dict[str, Any] = {
    "tokens": lambda size: TokenWindow(size, count=content_tokens),
    "turns": lambda size: KeepTurns(1 + size % 5),
    "payloads": lambda size: DropToolPayloads(keep_last=1 + size % 3, max_chars=size % 300),
}
each_window = pytest.mark.parametrize("kind", WINDOWS)
few = settings(max_examples=examples(60), deadline=None)


def asked(log: list[Event], *processors: Any) -> list[types.Content]:
    return asyncio.run(request_of(log, *processors)).contents


def is_part_of(small: list[str], large: list[str]) -> bool:
    """Whether `small` is `large` with some entries left out."""
    rest = iter(large)
    return all(each in rest for each in small)


def tokens(contents: list[types.Content]) -> int:
    return sum(content_tokens(content) for content in contents)


def messages_in(contents: list[types.Content]) -> list[types.Content]:
    """What the user said."""
    return [
        content
        for content in contents
        if content.role == "user" and content.parts and (content.parts[0].text or "").split(" ")[0].isdecimal()
    ]


def pinned_texts(log: list[Event]) -> list[str]:
    """Something of each pinned event that its content shows in any form: its text, or what it called or got."""
    found: list[str] = []
    for each in log:
        if not each.custom_metadata:
            continue
        for part in (each.content.parts if each.content else None) or ():
            if part.text:
                found.append(part.text)
            elif part.function_response is not None and part.function_response.response:
                found.append(part.function_response.response["found"])
    return found


@each_window
@few
@given(log=logs(), size=BUDGETS)
def test_what_is_shown_is_legal(kind: str, log: list[Event], size: int) -> None:
    at = requests_at(log)[-1]
    assert complaint(asked(log[:at], WINDOWS[kind](size))) is None


@pytest.mark.parametrize("kind", ["tokens", "turns"])
@few
@given(log=logs(), size=BUDGETS)
def test_contents_are_left_out_and_never_changed_or_moved(kind: str, log: list[Event], size: int) -> None:
    shown, all_of_it = lines(asked(log, WINDOWS[kind](size))), lines(asked(log))
    assert is_part_of(shown, all_of_it)
    assert shown[-1] == all_of_it[-1]


@each_window
@few
@given(log=logs(), size=BUDGETS)
def test_what_is_pinned_stays(kind: str, log: list[Event], size: int) -> None:
    shown = "".join(lines(asked(log, WINDOWS[kind](size))))
    assert [text for text in pinned_texts(log) if text not in shown] == []


@few
@given(log=logs(), size=BUDGETS)
def test_the_budget_holds_unless_only_the_latest_turn_and_pins_are_left(log: list[Event], size: int) -> None:
    for each in log:
        each.custom_metadata = None
    shown = asked(log, TokenWindow(size, count=content_tokens))
    assert tokens(shown) <= size or messages_in(shown) == shown[:1]


@each_window
@few
@given(log=logs(), size=BUDGETS)
def test_the_session_is_left_as_it_was(kind: str, log: list[Event], size: int) -> None:
    before = copy.deepcopy(log)
    asked(log, WINDOWS[kind](size))
    assert log == before


@each_window
@few
@given(log=logs(), size=BUDGETS, data=st.data())
def test_a_window_that_followed_the_history_is_the_one_made_at_once(
    kind: str, log: list[Event], size: int, data: st.DataObject
) -> None:
    """Whatever was asked before, and whether the history went on, went back, or was another one."""
    window = WINDOWS[kind](size)
    for _ in range(4):
        part = log[: data.draw(st.sampled_from(requests_at(log)))]
        if data.draw(st.booleans()):
            part = part[data.draw(st.sampled_from([n for n, each in enumerate(part) if each.author == "user"])) :]
        assert lines(asked(part, window)) == lines(asked(part, WINDOWS[kind](size)))


@few
@given(log=logs(most=12), size=BUDGETS)
def test_requests_extend_each_other_until_the_budget_is_used_and_then_move_far(log: list[Event], size: int) -> None:
    for each in log:
        each.custom_metadata = None
    window, before, known = TokenWindow(size, count=content_tokens), list[types.Content](), 0
    for count in requests_at(log):
        shown, everything = asked(log[:count], window), asked(log[:count])
        new = everything[known:]
        if lines(shown) != lines([*before, *new]):
            assert tokens([*before, *new]) > size
            assert tokens(shown) - tokens(new) <= 0.75 * size or len(messages_in(shown)) == 1
        before, known = shown, len(everything)
