"""Processors that break the contract are found, and those that keep it are not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from google.genai import types
from hierarchies import HIERARCHIES
from inspection.requests import asked
from kit import said, user

from flowloom import Event, Flow, InvocationContext, LlmRequest
from flowloom.errors import Halt
from flowloom.testing import lint


def mutates(ctx: InvocationContext, request: LlmRequest) -> None:
    for each in ctx.session.events:
        if each.content is not None and each.content.parts:
            each.content.parts[0].text = "changed"


def removes(ctx: InvocationContext, request: LlmRequest) -> None:
    del ctx.session.events[1:]


def halts_and_writes(ctx: InvocationContext, request: LlmRequest) -> None:
    request.append_instructions(["too late"])
    raise Halt("enough")


def ends_and_writes(ctx: InvocationContext, request: LlmRequest) -> None:
    ctx.end_invocation = True
    request.contents.append(user("too late"))


def reorders(ctx: InvocationContext, request: LlmRequest) -> None:
    for group in request.config.tools or ():
        assert isinstance(group, types.Tool)
        group.function_declarations = list(reversed(group.function_declarations or ()))


def drops(ctx: InvocationContext, request: LlmRequest) -> None:
    request.config.tools = None


def forgets(ctx: InvocationContext, request: LlmRequest) -> None:
    request.tools_dict.clear()


def answers_twice(ctx: InvocationContext, request: LlmRequest) -> list[Event]:
    return [ctx.new_event({"content": said(word)}) for word in ("one", "two")]


def rolls_dice(ctx: InvocationContext, request: LlmRequest) -> None:
    request.append_instructions([str(random.random())])


async def leaves_a_task(ctx: InvocationContext, request: LlmRequest) -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    task.add_done_callback(lambda _: None)


BROKEN = [
    (mutates, "mutates-history"),
    (removes, "mutates-history"),
    (halts_and_writes, "writes-after-halting"),
    (ends_and_writes, "writes-after-halting"),
    (reorders, "reorders-tools"),
    (drops, "drops-tools"),
    (forgets, "drops-tools"),
    (answers_twice, "two-finals"),
    (rolls_dice, "unstable"),
    (leaves_a_task, "leaves-task"),
]


@pytest.mark.parametrize(("processor", "rule"), BROKEN, ids=lambda each: getattr(each, "__name__", each))
async def test_a_processor_that_breaks_a_rule_is_named(processor: Any, rule: str) -> None:
    findings = await lint(Flow().with_processor(processor))
    assert {(finding.processor, finding.rule) for finding in findings} == {(processor.__name__, rule)}
    assert findings[0].detail in str(findings[0])


async def test_no_task_stays_behind() -> None:
    await lint(Flow().with_processor(leaves_a_task))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_default_flow_keeps_the_contract() -> None:
    assert await lint(Flow()) == []


@pytest.mark.parametrize("name", HIERARCHIES)
async def test_the_flows_of_hierarchies_keep_the_contract(name: str) -> None:
    """An agent is run as it is."""
    case = HIERARCHIES[name]
    assert await lint(case.build(asked([])), state=case.state) == []


async def test_a_response_processor_is_looked_at_too() -> None:
    def mutates_later(ctx: InvocationContext, request: LlmRequest, response: Any) -> None:
        mutates(ctx, request)

    (finding,) = await lint(Flow().with_response_processor(mutates_later))
    assert (finding.processor, finding.rule) == ("mutates_later", "mutates-history")


async def test_what_a_processor_raises_is_raised() -> None:
    def broken(ctx: InvocationContext, request: LlmRequest) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lint(Flow().with_processor(broken))
