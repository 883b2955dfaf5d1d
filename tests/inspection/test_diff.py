"""What changed between two requests, and whether a cache still holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kit import call, event, model, requests_of

from flowloom import InMemoryRunner, InputValidationError, LlmAgent, LlmRequest, explain
from flowloom.inspection import Assembly, EventsView, RequestView, assert_prefix_extends, diff, write_sections
from inspection.requests import asked


def add(a: int) -> int:
    """Add."""
    return a


async def explained(instruction: str = "Be kind.", message: Any = "hi", **fields: Any) -> Assembly:
    fields.setdefault("tools", [add])
    return await explain(LlmAgent(name="root", model=asked([]), instruction=instruction, **fields), message)


async def test_equal_requests_have_no_difference() -> None:
    found = diff(await explained(), await explained())
    assert not found
    assert str(found) == "The requests are the same."
    assert found.prefix_stable


async def test_a_change_names_its_place_and_its_processor() -> None:
    found = diff(await explained("Be kind."), await explained("Be brief."))
    (change,) = found.differences
    assert (change.path, change.by, change.kind) == ("config.system_instruction[0]", "instructions", "changed")
    assert (change.before, change.after) == ("Be kind.", "Be brief.")
    assert "- Be kind." in str(found)
    assert "+ Be brief." in str(found)


async def test_a_block_in_between_leaves_the_others_as_they_are() -> None:
    static = await explained(global_instruction="Always.")
    assert [(each.kind, each.path) for each in diff(static, await explained()).differences] == [
        ("changed", "config.system_instruction[0]")
    ]
    described = diff(await explained(), await explained(description="Kind."))
    assert [each.by for each in described.differences] == ["identity"]


async def test_added_and_removed_tools_go_by_name() -> None:
    def take(b: int) -> int:
        return b

    found = diff(await explained(tools=[add, take]), await explained(tools=[take]))
    assert [(each.kind, each.path) for each in found.differences] == [
        ("removed", "config.tools[0].function_declarations[add]")
    ]
    swapped = diff(await explained(tools=[add, take]), await explained(tools=[take, add]))
    assert swapped
    assert not swapped.prefix_stable


async def test_all_forms_of_a_request_can_be_compared(tmp_path: Path) -> None:
    """Assemblies, their data, requests, views, and stored snapshots by path and as text."""
    old, new = await explained("Be kind."), await explained("Be brief.")
    stored = tmp_path / "old.txt"
    stored.write_text(write_sections(old.sections), encoding="utf-8")
    data = json.loads(json.dumps(old.to_dict()))
    for form in (data, old.request, old.view, stored, write_sections(old.sections)):
        found = diff(form, new)
        assert [each.kind for each in found.differences] == ["changed"], type(form)
        assert not diff(form, old)


async def test_a_file_that_holds_no_snapshot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputValidationError, match="sections"):
        diff({"model": "m"}, await explained())


async def asked_twice(**fields: Any) -> list[LlmRequest]:
    """The requests of two turns; the state changes between them."""
    root = LlmAgent(name="root", model=model("One.", "Two."), **fields)
    runner = InMemoryRunner(root)
    for day, message in (("Monday", "first"), ("Tuesday", "second")):
        where: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}
        async for _ in runner.run_async(**where, new_message=message, state_delta={"day": day}):
            pass
    return requests_of(root)


async def test_a_turn_extends_the_prefix_of_the_one_before() -> None:
    first, second = await asked_twice(instruction="Be kind.")
    assert_prefix_extends(first, second)
    assert diff(first, second).contents_kept == 1


async def test_the_steps_of_a_turn_extend_each_other() -> None:
    root = LlmAgent(name="root", model=model(call("add", a=1), call("add", a=2), "3"), tools=[add])
    async for _ in InMemoryRunner(root).run_async(user_id="ann", session_id="s1", new_message="go"):
        pass
    first, second, third = requests_of(root)
    assert_prefix_extends(first, second)
    assert_prefix_extends(second, third)
    with pytest.raises(AssertionError, match="contents"):
        assert_prefix_extends(third, first)


async def test_an_instruction_that_changes_breaks_the_prefix() -> None:
    first, second = await asked_twice(instruction="It is {day}.")
    with pytest.raises(AssertionError, match=r"config\.system_instruction.*static_instruction"):
        assert_prefix_extends(first, second)


async def test_a_static_instruction_keeps_the_prefix_stable() -> None:
    """What changes stands with the latest input, behind everything that may be cached."""
    first, second = await asked_twice(static_instruction="You are a guide.", instruction="It is {day}.")
    assert_prefix_extends(first, second)
    assert [part.text for content in second.contents for part in content.parts or ()] == [
        "first",
        "One.",
        "It is Tuesday.",
        "second",
    ]


async def test_the_break_of_a_prefix_names_the_processor() -> None:
    old, new = await explained(), await explained(description="Kind.")
    broken = diff(old, new).prefix_broken_by
    assert broken is not None
    assert broken.by == "identity"
    assert "`identity`" in str(diff(old, new))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], "is stable: 1 of 1 content kept."),
        ([event("root", "hello"), event("user", "more")], "is stable: 3 of 3 contents kept."),
    ],
)
async def test_what_is_kept_of_a_prefix_is_told_in_numbers(more: list[Any], told: str) -> None:
    agent = LlmAgent(name="root", model=asked([]), generate_content_config={"temperature": 0})  # type: ignore[arg-type]
    first = await explain(agent, history=[event("user", "hi"), *more])
    agent.generate_content_config = None
    assert told in str(diff(first, await explain(agent, history=[event("user", "hi"), *more])))


async def test_behind_a_break_nothing_is_kept() -> None:
    found = diff(await explained("Be kind."), await explained("Be brief."))
    assert str(found).endswith("which `instructions` wrote: nothing after that is kept.")
    first = await explain(LlmAgent(name="root", model=asked([])), history=["one", ("root", "two"), "three"])
    second = await explain(LlmAgent(name="root", model=asked([])), history=["one", ("root", "2"), "three"])
    assert "is broken at contents[1]" in str(diff(first, second))
    assert str(diff(first, second)).endswith(": 1 of 3 contents kept.")


def test_of_events_nothing_is_said_about_a_cache() -> None:
    one, other = (EventsView([event("root", word)]) for word in ("one", "other"))
    assert "prefix" not in str(diff(one, other))
    assert "+ parts" not in str(diff(one, one))


async def test_a_changed_setting_leaves_the_prefix_alone() -> None:
    warm = LlmRequest(model="m", contents=[])
    cold = warm.model_copy(deep=True)
    cold.config.temperature = 0.1
    found = diff(warm, cold)
    assert [each.path for each in found.differences] == ["config.temperature"]
    assert found.prefix_stable
    assert RequestView(warm) != RequestView(cold)
