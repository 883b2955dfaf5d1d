"""Function responses are put behind their calls (cases, area 10; spec §9.6 to §9.8)."""

from __future__ import annotations

import logging

import pytest
from google.genai import types
from kit import agent, context, event, named_call, result, shown, text

from flowloom import Event


async def seen(*events: Event) -> list[str]:
    root = agent("root")
    return shown((await root.flow.assemble(context(root, *events))).request)


def calls(*ids: str, waiting: tuple[str, ...] = ()) -> Event:
    parts = [named_call(call_id, f"tool_{call_id}") for call_id in ids]
    return event("root", *parts, long_running_tool_ids=list(waiting) or None)


def answers(author: str = "root", /, **values: object) -> Event:
    parts = [result(call_id, f"tool_{call_id}", {"v": value}) for call_id, value in values.items()]
    made = event(author, *parts)
    assert made.content is not None
    made.content.role = "user"
    return made


ASK = event("user", "go")


def line(call_id: str, value: object) -> str:
    return f"user: tool_{call_id} -> {{'v': {value!r}}}"


async def test_a_plain_history_is_unchanged() -> None:
    """User, FC, FR | unchanged."""
    assert await seen(ASK, calls("a"), answers(a=1)) == ["user: go", "model: tool_a()", line("a", 1)]


async def test_a_late_answer_takes_the_interims_place_and_text_between_is_dropped() -> None:
    """FC, FR(interim), text, FR(final) last | FC then FR(final)."""
    log = [ASK, calls("a", waiting=("a",)), answers(a="pending"), event("root", "wait"), answers("user", a="done")]
    assert await seen(*log) == ["user: go", "model: tool_a()", line("a", "done")]


async def test_other_calls_between_are_kept() -> None:
    """FC(LRO), FR interim, other FC, its FR, FR(final) | FC, FR(final), other FC, other FR."""
    log = [ASK, calls("a", waiting=("a",)), answers(a="pending"), calls("b"), answers(b=2), answers("user", a="done")]
    assert await seen(*log) == [
        "user: go",
        "model: tool_a()",
        line("a", "done"),
        "model: tool_b()",
        line("b", 2),
    ]


@pytest.mark.parametrize("final", ["approved", "rejected"])
async def test_a_confirmed_call_shows_its_final_answer(final: str) -> None:
    """FC, placeholder FR, confirmation FC, user approval (or denial), final FR | user, FC, final FR."""
    asked = event("root", named_call("r1", "adk_request_confirmation"), long_running_tool_ids=["r1"])
    decided = event("user", result("r1", "adk_request_confirmation", {"confirmed": final == "approved"}))
    log = [ASK, calls("a"), answers(a="needs confirmation"), asked, decided, answers(a=final)]
    assert await seen(*log) == ["user: go", "model: tool_a()", line("a", final)]


async def test_of_two_calls_the_late_answer_is_put_in_its_place() -> None:
    """[LRO, normal] FCs, combined FR, text, final LRO FR | FCs then one FR event, positions kept."""
    log = [ASK, calls("a", "b", waiting=("a",)), answers(a="pending", b=2), event("root", "wait"), answers("user", a=1)]
    assert await seen(*log) == ["user: go", "model: tool_a()", "model: tool_b()", line("a", 1), line("b", 2)]


async def test_in_the_middle_of_a_history_texts_are_preserved() -> None:
    """LRO interim, text, final FR, text, user (final not last) | FC + final FR right after it; texts preserved."""
    log = [
        ASK,
        calls("a", waiting=("a",)),
        answers(a="pending"),
        event("root", "wait"),
        answers("user", a="done"),
        event("root", "there"),
        event("user", "thanks"),
    ]
    assert await seen(*log) == [
        "user: go",
        "model: tool_a()",
        line("a", "done"),
        "model: wait",
        "model: there",
        "user: thanks",
    ]


async def test_in_the_middle_two_calls_are_merged() -> None:
    """Two FCs, non-final | merged FR after FCs; texts preserved."""
    log = [
        ASK,
        calls("a", "b", waiting=("a",)),
        answers(a="pending", b=2),
        event("root", "wait"),
        answers("user", a=1),
        event("root", "there"),
        event("user", "thanks"),
    ]
    assert await seen(*log) == [
        "user: go",
        "model: tool_a()",
        "model: tool_b()",
        line("a", 1),
        line("b", 2),
        "model: wait",
        "model: there",
        "user: thanks",
    ]


async def test_texts_beside_answers_are_kept_in_order() -> None:
    """Merged: first event's text, replaced FR, its suffix, then later text parts appended."""
    first = event("user", text("before"), result("a", "tool_a", {"v": "pending"}), text("after"))
    last = event("user", text("later"), result("a", "tool_a", {"v": 1}))
    assert await seen(ASK, calls("a", waiting=("a",)), first, event("root", "wait"), last) == [
        "user: go",
        "model: tool_a()",
        "user: before",
        line("a", 1),
        "user: after",
        "user: later",
    ]


async def test_an_answer_to_no_call_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Orphan: an error in adk-go; decision 30 leaves it out and logs it once."""
    root = agent("root")
    ctx = context(root, ASK, answers("user", zzz=1))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert shown((await root.flow.assemble(ctx)).request) == ["user: go"]
    assert len([record for record in caplog.records if "zzz" in record.getMessage()]) == 1


async def test_calls_without_ids_are_matched_by_position() -> None:
    """Parallel calls with empty ids | matched by position, not all to one."""
    asked = event("root", *(types.Part(function_call=types.FunctionCall(name="t", args={"n": n})) for n in (1, 2)))
    given = event("root", *(result(None, "t", {"v": n}) for n in (1, 2)))
    assert await seen(ASK, asked, given) == [
        "user: go",
        "model: t()",
        "model: t()",
        "model: t -> {'v': 1}",
        "model: t -> {'v': 2}",
    ]


async def test_one_id_used_twice_belongs_to_each_call_in_turn() -> None:
    """Models reuse ids: each answer belongs to the latest call before it."""
    log = [ASK, calls("a"), answers(a=1), calls("a"), answers(a=2)]
    assert await seen(*log) == ["user: go", "model: tool_a()", line("a", 1), "model: tool_a()", line("a", 2)]


async def test_a_call_that_nobody_answered_is_left_out() -> None:
    """Providers refuse a history with a call that no answer follows; what a long-running tool still owes is kept."""
    assert await seen(ASK, calls("a"), event("user", "hello?")) == ["user: go", "user: hello?"]
    assert await seen(ASK, calls("a", "b"), answers(b=2), event("user", "hello?")) == [
        "user: go",
        "model: tool_b()",
        line("b", 2),
        "user: hello?",
    ]
    assert "model: tool_a()" in await seen(ASK, calls("a", waiting=("a",)), event("user", "hello?"))


@pytest.mark.parametrize("call_id", ["c1", None])
@pytest.mark.parametrize("answered", [False, True])
async def test_a_call_in_the_users_name_is_left_out(call_id: str | None, answered: bool) -> None:
    """Of a log that holds one all the same: who wrote it is no model, whatever answers it."""
    part = types.Part(function_call=types.FunctionCall(id=call_id, name="look", args={}))
    claimed = event("user", "hi", part)
    answer = [event("user", result(call_id, "look", {"n": 1}))] if answered else []
    assert await seen(claimed, *answer, event("user", "go on")) == ["user: hi", "user: go on"]


async def test_empty_parts_are_dropped_and_signatures_kept() -> None:
    signed = types.Part(thought_signature=b"sig")
    root = agent("root")
    request = (await root.flow.assemble(context(root, ASK, event("root", text(""), "hi", signed)))).request
    assert [(part.text, part.thought_signature) for part in request.contents[1].parts or []] == [
        ("hi", None),
        (None, b"sig"),
    ]
