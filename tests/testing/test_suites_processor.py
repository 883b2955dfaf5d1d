"""`ProcessorSuite`: the default processors pass, and each rule finds a processor that breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.genai import types
from kit import no_op, said, user
from pydantic import BaseModel

from flowloom import (
    Event,
    EventActions,
    Flow,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    PlanReActPlanner,
)
from flowloom.flow.pipeline import Processor, name_of
from flowloom.processors import REQUEST_PROCESSORS, RESPONSE_PROCESSORS
from flowloom.testing.suites import ProcessorSuite

from .rules import breaks, rules_of


class Report(BaseModel):
    text: str


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def suite_of(
    processor: Processor | Callable[[], Any], *, made: bool = False, **attributes: Any
) -> type[ProcessorSuite]:
    """A suite for a processor, or with `made` for what a function makes."""

    class Suite(ProcessorSuite):
        def make_processor(self) -> Processor:
            return processor() if made else processor

    for name, value in attributes.items():
        setattr(Suite, name, value)
    return Suite


def planning_agent(suite: ProcessorSuite) -> LlmAgent:
    return LlmAgent(name="planner", tools=[add], planner=PlanReActPlanner())


def schema_agent(suite: ProcessorSuite) -> LlmAgent:
    return LlmAgent(name="writer", tools=[add], output_schema=Report)


# each processor in the default agent, and some in an agent that gives them more to do
for each in REQUEST_PROCESSORS:
    globals()[f"TestDefault_{name_of(each)}"] = suite_of(each)
for each in RESPONSE_PROCESSORS:
    globals()[f"TestDefault_{name_of(each)}"] = suite_of(each, response_side=True)
    globals()[f"TestPlanner_{name_of(each)}"] = suite_of(each, response_side=True, make_agent=planning_agent)
for each in REQUEST_PROCESSORS:
    if name_of(each) in ("planning", "contents", "tool_declarations"):
        globals()[f"TestPlanner_{name_of(each)}"] = suite_of(each, make_agent=planning_agent)
    if name_of(each) in ("output_schema", "tool_declarations"):
        globals()[f"TestSchema_{name_of(each)}"] = suite_of(each, make_agent=schema_agent)


class Greeter:
    """A processor of a user's: it says hello, and remembers nothing."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    async def __call__(self, ctx: InvocationContext, request: LlmRequest) -> AsyncGenerator[Event, None]:
        request.append_instructions(self.greeting)
        request.append_tools([FunctionTool(add)])
        yield ctx.new_event({"actions": EventActions(state_delta={"greeted": True})})


class TestUsersProcessor(ProcessorSuite):
    async def make_processor(self) -> Greeter:
        return Greeter("Say hello.")

    def make_flow(self, processor: Processor) -> Flow:
        return Flow().with_processor(processor, before="contents")


def fails_without_a_history(ctx: InvocationContext, request: LlmRequest) -> None:
    assert request.contents, "The processor needs a content."


def fails_on_a_first_message(ctx: InvocationContext, request: LlmRequest) -> None:
    assert len(request.contents) != 1, "The processor needs an earlier turn."


def fails_on_a_long_history(ctx: InvocationContext, request: LlmRequest) -> None:
    assert len(request.contents) < 40, "The processor cannot take so many contents."


def fails_on_files(ctx: InvocationContext, request: LlmRequest) -> None:
    for content in request.contents:
        assert not any(part.file_data for part in content.parts or ()), "The processor cannot take a file."


def fails_on_calls(ctx: InvocationContext, request: LlmRequest) -> None:
    for content in request.contents[-1:]:
        assert not any(part.function_response for part in content.parts or ()), "The processor cannot take a result."


def gives_texts(ctx: InvocationContext, request: LlmRequest) -> list[str]:
    return ["hello"]


def says_two_finals(ctx: InvocationContext, request: LlmRequest) -> list[Event]:
    return [ctx.new_event({"content": said("one")}), ctx.new_event({"content": said("two")})]


def writes_to_events(ctx: InvocationContext, request: LlmRequest) -> None:
    for event in ctx.session.events[-1:]:
        event.content = user("Something else.")


def writes_to_the_agent(ctx: InvocationContext, request: LlmRequest) -> None:
    config = ctx.llm_agent and ctx.llm_agent.generate_content_config
    if config is not None:
        config.temperature = 1.0


class Counts:
    """Keeps a count from call to call."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
        self.count += 1
        request.append_instructions(f"This is request {self.count}.")


def turns_the_tools_round(ctx: InvocationContext, request: LlmRequest) -> None:
    for group in request.config.tools or ():
        if isinstance(group, types.Tool) and group.function_declarations:
            group.function_declarations = group.function_declarations[::-1]


def declares_what_is_not_there(ctx: InvocationContext, request: LlmRequest) -> None:
    declared = types.FunctionDeclaration(name="invented", description="Does nothing.")
    request.config.tools = [*(request.config.tools or ()), types.Tool(function_declarations=[declared])]


TASKS: set[asyncio.Task[None]] = set()


def start_task() -> asyncio.Task[None]:
    task = asyncio.create_task(asyncio.sleep(60))
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    return task


async def starts_a_task(ctx: InvocationContext, request: LlmRequest) -> None:
    start_task()


async def starts_a_task_and_ends_it_late(ctx: InvocationContext, request: LlmRequest) -> AsyncGenerator[Event, None]:
    task = start_task()
    yield ctx.new_event({"actions": EventActions(state_delta={"a": 1})})
    task.cancel()


async def will_not_be_left(ctx: InvocationContext, request: LlmRequest) -> AsyncGenerator[Event, None]:
    try:
        yield ctx.new_event({"actions": EventActions(state_delta={"a": 1})})
    finally:
        yield ctx.new_event({"actions": EventActions(state_delta={"a": 2})})


BROKEN: dict[str, Processor] = {
    "a_flow_takes_it_by_a_name_of_its_own": lambda ctx, request: None,
    "it_runs_on_an_empty_history": fails_without_a_history,
    "it_runs_on_a_first_message": fails_on_a_first_message,
    "it_runs_on_a_long_history": fails_on_a_long_history,
    "it_runs_on_files": fails_on_files,
    "it_runs_on_calls_and_results": fails_on_calls,
    "it_emits_events_only_and_one_final_at_most": says_two_finals,
    "stored_events_are_not_changed": writes_to_events,
    "the_agent_is_not_changed": writes_to_the_agent,
    "the_same_input_gives_the_same_request": Counts(),
    "declared_tools_stay_in_their_order": turns_the_tools_round,
    "declared_tools_can_be_found": declares_what_is_not_there,
    "it_leaves_no_task": starts_a_task,
    "a_consumer_may_leave_early": starts_a_task_and_ends_it_late,
}


def broken_suite(rule: str) -> type[ProcessorSuite]:
    return suite_of(BROKEN[rule])


@pytest.mark.parametrize("rule", BROKEN)
def test_a_processor_that_breaks_a_rule_is_found(rule: str) -> None:
    breaks(broken_suite(rule), rule)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_processor_that_does_nothing_keeps_all_rules(rule: str) -> None:
    getattr(suite_of(no_op)(), f"test_{rule}")()


def test_every_rule_is_shown_to_fail() -> None:
    assert rules_of(ProcessorSuite) == BROKEN.keys()


@pytest.mark.parametrize(
    ("rule", "processor"),
    [
        ("a_flow_takes_it_by_a_name_of_its_own", Greeter),
        ("a_flow_takes_it_by_a_name_of_its_own", 5),
        ("it_emits_events_only_and_one_final_at_most", gives_texts),
        ("a_consumer_may_leave_early", will_not_be_left),
    ],
)
def test_rules_have_more_than_one_side(rule: str, processor: Any) -> None:
    breaks(suite_of(processor), rule)


def test_two_processors_that_are_made_alike_have_to_work_alike() -> None:
    numbers = iter(range(1000))

    def make() -> Processor:
        mine = next(numbers)

        def processor(ctx: InvocationContext, request: LlmRequest) -> None:
            request.append_instructions(f"You are number {mine}.")

        return processor

    breaks(suite_of(make, made=True), "the_same_input_gives_the_same_request")


def test_a_processor_may_be_there_to_drop_tools() -> None:
    suite = suite_of(turns_the_tools_round, may_drop_tools=True)
    with pytest.raises(pytest.skip.Exception, match="tools"):
        suite().test_declared_tools_stay_in_their_order()


# -- processors of responses ------------------------------------------------------------------------


def changes_the_text(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
    response.content = said("Something else.")


def says_more(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> list[Event]:
    return [ctx.new_event({"content": said("one")}), ctx.new_event({"content": said("two")})]


def needs_content(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
    assert response.content is not None, "The processor needs a content."


class NumbersAnswers:
    """Keeps a count from call to call."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
        self.count += 1
        response.custom_metadata = {"number": self.count}


def test_a_processor_of_responses_may_change_them() -> None:
    suite = suite_of(changes_the_text, response_side=True)
    for rule in rules_of(ProcessorSuite) - {"declared_tools_stay_in_their_order"}:
        getattr(suite(), f"test_{rule}")()


@pytest.mark.parametrize(
    ("rule", "processor"),
    [
        ("it_emits_events_only_and_one_final_at_most", says_more),
        ("it_runs_on_a_first_message", needs_content),
        ("the_same_input_gives_the_same_request", NumbersAnswers()),
    ],
)
def test_a_processor_of_responses_that_breaks_a_rule_is_found(rule: str, processor: Processor) -> None:
    breaks(suite_of(processor, response_side=True), rule)


def test_a_flow_that_leaves_the_processor_out_is_told() -> None:
    class Elsewhere(ProcessorSuite):
        def make_processor(self) -> Processor:
            return says_more

        def make_flow(self, processor: Processor) -> Flow:
            return Flow().with_response_processor(processor)

    class NeverReached(Elsewhere):
        def make_flow(self, processor: Processor) -> Flow:
            def stop(ctx: InvocationContext, request: LlmRequest) -> None:
                ctx.end_invocation = True

            return super().make_flow(processor).with_processor(stop)

    breaks(NeverReached, "it_runs_on_a_first_message")
