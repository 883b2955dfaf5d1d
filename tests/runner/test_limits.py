"""What a run may use, and how it lands when it has used that (decision 23)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, WHERE, Chat, agent, collect, declared_names, hand_to, open_calls, said, story, system_text
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    InMemoryRunner,
    LimitExceededError,
    Limits,
    LlmAgent,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    RunResult,
    SequentialAgent,
)
from flowloom.context.run_config import NO_LIMITS, default_run_config
from flowloom.errors import LlmCallsLimitExceededError
from flowloom.testing import FunctionModel, call, frozen
from runner.situations import ByTurn, Gate, Gated, ended_events, go_on, legal

ON_LIMIT = ["raise", "stop", "summarise"]


def look() -> dict[str, bool]:
    """Look."""
    return {"seen": True}


def find() -> dict[str, bool]:
    """Find."""
    return {"found": True}


def usage(total: int) -> types.GenerateContentResponseUsageMetadata:
    return types.GenerateContentResponseUsageMetadata(prompt_token_count=total, total_token_count=total)


def looker(name: str = "root", *, calls: int = 1, **fields: Any) -> LlmAgent:
    """An agent that looks again and again, and answers when it may not; each of its model calls takes 10 tokens."""

    def answer(request: Any) -> Any:
        if not request.config.tools:
            return LlmResponse(content=said(f"{name} sums up"), usage_metadata=usage(10))
        content = said(*[call("look") for _ in range(calls)])
        return LlmResponse(content=content, usage_metadata=usage(10))

    fields.setdefault("tools", [look])
    return LlmAgent(name=name, model=FunctionModel(answer), **fields)


async def run(root: Any, limits: Limits | None = None, *, streamed: bool = False, **config: Any) -> RunResult:
    """The result of a run, which ends with a legal history, and goes on with the next message."""
    chat = Chat(root)
    if streamed:
        config["streaming_mode"] = STREAMED.streaming_mode
    given = RunConfig(limits=limits or Limits(), **config)
    handle = chat.runner.start(user_id="ann", session_id="s1", new_message="go", run_config=given)
    result = await handle.result()
    events = await chat.stored()
    tasks = {c.id for event in events for c in event.get_function_calls() if c.name == "clerk"}
    assert open_calls(events) <= tasks
    if not open_calls(events):
        legal(events)
    assert [event.id for event in result.events] == [event.id for event in events if event.author != "user"]
    assert len(ended_events(events)) <= 1
    return result


RUN_LIMITS: list[tuple[str, dict[str, Any], dict[str, Any], tuple[int, int]]] = [
    ("max_llm_calls", {}, {"max_llm_calls": 3}, (3, 3)),
    ("model_calls", {"model_calls": 3}, {}, (3, 3)),
    ("tool_calls", {"tool_calls": 2}, {}, (3, 2)),
    ("total_tokens", {"total_tokens": 25}, {}, (3, 3)),
    ("model_calls", {"model_calls": 0}, {}, (0, 0)),
    ("tool_calls", {"tool_calls": 0}, {}, (1, 0)),
    ("total_tokens", {"total_tokens": 0}, {}, (0, 0)),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("on_limit", ON_LIMIT)
@pytest.mark.parametrize(("limit", "limits", "config", "used"), RUN_LIMITS)
async def test_a_limit_of_the_run(
    limit: str, limits: Any, config: Any, used: tuple[int, int], on_limit: Any, streamed: bool
) -> None:
    result = await run(looker(), Limits(**limits, on_limit=on_limit), streamed=streamed, **config)
    assert result.status == "limit"
    # the summary is a model call that no limit counts
    assert (result.model_calls, result.tool_calls) == used
    if on_limit == "raise":
        assert isinstance(result.error, LimitExceededError)
        assert (result.error.limit, result.error.agent) == (limit, None)
        with pytest.raises(LimitExceededError):
            result.raise_for_status()
    else:
        assert result.error is None
        result.raise_for_status()
        told = [each.response or {} for event in result.events for each in event.get_function_responses()]
        refused = [each["error"] for each in told if "error" in each]
        assert [limit in each for each in refused] == [True] * (limit == "tool_calls")
    if on_limit == "summarise":
        assert result.text == "root sums up"
        assert ended_events(result.events) == []
    else:
        assert result.text == ""
        assert ended_events(result.events) == ["limit"]
        assert (result.events[-1].error_code or "").endswith("LimitExceededError")
        assert limit in (result.events[-1].error_message or "")


@pytest.mark.parametrize("on_limit", ON_LIMIT)
async def test_the_time_of_a_run(on_limit: Any) -> None:
    with frozen() as clock:

        def slow() -> None:
            """Take a second."""
            clock.advance(1)

        root = looker(tools=[slow, look])
        root.before_model_callback = lambda **_: slow()
        result = await run(root, Limits(seconds=2.5, on_limit=on_limit))
    assert result.status == "limit"
    assert result.model_calls == 2
    assert result.text == ("root sums up" if on_limit == "summarise" else "")


@pytest.mark.parametrize("limits", [{"model_calls": 3}, {"tool_calls": 2}, {"total_tokens": 25}], ids=str)
@pytest.mark.parametrize("on_limit", ON_LIMIT)
@pytest.mark.parametrize("given_by", ["the agent", "the run"])
async def test_a_limit_of_one_agent(limits: dict[str, int], on_limit: Any, given_by: str) -> None:
    """It ends the agent's turn; who comes after goes on."""
    own = Limits(**limits, on_limit=on_limit)
    first = looker("a", limits=own if given_by == "the agent" else None)
    root = SequentialAgent(name="row", sub_agents=[first, agent("b", "b is done")])
    result = await run(root, None if given_by == "the agent" else Limits(agents={"a": own}))
    if on_limit == "raise":
        assert result.status == "limit"
        assert isinstance(result.error, LimitExceededError)
        assert (result.error.agent, result.error.limit) == ("a", next(iter(limits)))
    else:
        assert (result.status, result.text) == ("final", "b is done")
        assert ended_events(result.events) == []
        texts = [event.text for event in result.events if event.text]
        assert texts == (["a sums up", "b is done"] if on_limit == "summarise" else ["b is done"])
        told = [event.custom_metadata for event in result.events if event.error_code]
        assert told == ([{"agent_ended": "limit"}] if on_limit == "stop" else [])


async def test_the_time_of_an_agent_is_counted_from_its_first_call() -> None:
    with frozen() as clock:

        def slow(**_: Any) -> None:
            clock.advance(1)

        first = agent("a", "a", before_model_callback=[slow, slow])
        second = looker("b", before_model_callback=slow, limits=Limits(seconds=2.5, on_limit="summarise"))
        result = await run(SequentialAgent(name="row", sub_agents=[first, second]))
    assert (result.model_calls, result.text) == (4, "b sums up")


async def test_an_agent_alone_that_is_stopped_by_its_own_limit_has_not_answered() -> None:
    result = await run(looker(limits=Limits(model_calls=2, on_limit="stop")))
    assert (result.status, result.error, result.text) == ("limit", None, "")


async def test_the_run_s_word_on_an_agent_counts_for_more_than_its_own() -> None:
    root = looker(limits=Limits(model_calls=1))
    result = await run(root, Limits(agents={"root": Limits(model_calls=3, on_limit="summarise")}))
    assert (result.text, result.model_calls) == ("root sums up", 3)


async def test_what_an_agent_may_use_is_its_own_and_not_what_others_use() -> None:
    a, b = agent("a", call("look"), "a", tools=[look]), agent("b", call("look"), "b", tools=[look])
    root = SequentialAgent(name="row", sub_agents=[a, b])
    own = Limits(model_calls=2, tool_calls=1)
    assert (await run(root, Limits(agents={"a": own, "b": own}))).status == "final"


@pytest.mark.parametrize("on_limit", ON_LIMIT)
async def test_a_tool_that_was_called_often_enough_is_refused_and_the_run_goes_on(on_limit: Any) -> None:
    ran = []

    def search() -> str:
        """Search."""
        ran.append(1)
        return "found"

    root = agent("root", [call("search"), call("search"), call("look")], call("search"), "done", tools=[search, look])
    result = await run(root, Limits(tools={"search": 1}, on_limit=on_limit))
    assert (result.status, result.text, len(ran), result.tool_calls) == ("final", "done", 1, 2)
    answers = [answer.response or {} for event in result.events for answer in event.get_function_responses()]
    assert [next(iter(answer)) for answer in answers] == ["result", "error", "seen", "error"]
    assert "search" in answers[1]["error"]


@pytest.mark.parametrize("given_by", ["the agent", "the run"])
async def test_a_tool_may_be_limited_for_one_agent(given_by: str) -> None:
    own = Limits(tools={"look": 1})
    answers: list[Any] = [[call("look"), call("look")], "done"]
    a = agent("a", *answers, tools=[look], limits=own if given_by == "the agent" else None)
    root = SequentialAgent(name="row", sub_agents=[a, agent("b", *answers, tools=[look])])
    result = await run(root, None if given_by == "the agent" else Limits(agents={"a": own}))
    errors = [
        (event.author, "error" in (answer.response or {}))
        for event in result.events
        for answer in event.get_function_responses()
    ]
    assert errors == [("a", False), ("a", True), ("b", False), ("b", False)]


async def test_calls_that_a_limit_refuses_do_not_count_for_their_tool() -> None:
    """Two calls are too many at once; one by one the agent may make them."""
    first = agent("a", [call("look"), call("look")], tools=[look], limits=Limits(tool_calls=1, on_limit="stop"))
    second = agent("b", call("look"), "done", tools=[look])
    root = SequentialAgent(name="row", sub_agents=[first, second])
    result = await run(root, Limits(tools={"look": 1}))
    # of the first agent's calls one is refused for the tool's sake, the other is the one call that it may make
    assert result.tool_calls == 1


async def test_as_many_calls_as_allowed_are_made_and_all_beyond_that_are_refused_together() -> None:
    result = await run(looker(calls=3), Limits(tool_calls=4, on_limit="stop"))
    assert (result.tool_calls, result.model_calls) == (3, 2)
    errors = ["error" in (a.response or {}) for event in result.events for a in event.get_function_responses()]
    assert errors == [False] * 3 + [True] * 3


# -- the last word ---------------------------------------------------------------------------------------


async def test_the_last_request_has_no_tools_and_says_why() -> None:
    model = Gated(call("look"), call("look"), "that is it")
    result = await run(LlmAgent(name="root", model=model, tools=[look]), Limits(model_calls=2, on_limit="summarise"))
    assert (result.text, result.status) == ("that is it", "limit")
    assert declared_names(model.asked[1]) == ["look"]
    assert declared_names(model.asked[2]) == []
    assert model.asked[2].config.tool_config is None
    assert model.asked[2].config.response_mime_type is None
    assert "`model_calls`" in system_text(model.asked[2])
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    "last",
    [call("look"), [call("look"), call("find")], hand_to("helper"), call("unknown"), call("order")],
    ids=["a call", "two calls", "a transfer", "an unknown tool", "a long-running tool"],
)
@pytest.mark.parametrize("config", [{}, {"pause_on_tool_calls": True}], ids=str)
async def test_a_model_that_calls_all_the_same_is_refused(last: Any, config: Any) -> None:
    def order() -> None:
        """Order."""

    model = Gated(last)
    tools = [look, find, LongRunningFunctionTool(order)]
    root = LlmAgent(name="root", model=model, tools=tools, sub_agents=[agent("helper", "never")])
    result = await run(root, Limits(model_calls=0, on_limit="summarise"), **config)
    assert (result.status, result.pending, len(model.asked)) == ("limit", [], 1)
    answers = [answer.response or {} for event in result.events for answer in event.get_function_responses()]
    assert answers
    assert all("`model_calls`" in answer["error"] for answer in answers)


async def test_the_summary_of_an_agent_with_an_output_schema_is_of_that_form() -> None:
    class Finding(BaseModel):
        what: str

    model = Gated(call("look"), '{"what": "hills"}')
    root = LlmAgent(name="root", model=model, tools=[look], output_schema=Finding, output_key="finding")
    result = await run(root, Limits(model_calls=1, on_limit="summarise"))
    assert declared_names(model.asked[0]) == ["set_model_response", "look"]
    assert declared_names(model.asked[1]) == []
    assert model.asked[1].config.response_schema is not None
    assert model.asked[1].config.response_mime_type == "application/json"
    assert result.output == Finding(what="hills")
    assert result.state_delta == {"finding": {"what": "hills"}}


async def test_an_agent_that_only_thinks_while_it_sums_up_is_asked_once() -> None:
    model = Gated(call("look"), types.Part(text="hm", thought=True))
    result = await run(LlmAgent(name="root", model=model, tools=[look]), Limits(model_calls=1, on_limit="summarise"))
    assert (result.status, len(model.asked)) == ("limit", 2)


async def test_a_summary_that_fails_is_an_error_like_any_other() -> None:
    root = agent("root", call("look"), RuntimeError("no"), tools=[look])
    result = await run(root, Limits(model_calls=1, on_limit="summarise"))
    assert (result.status, str(result.error)) == ("failed", "no")


# -- several agents ------------------------------------------------------------------------------------------


def branches(*names: str, **fields: Any) -> ParallelAgent:
    return ParallelAgent(name="side", sub_agents=[looker(name, **fields) for name in names])


@pytest.mark.parametrize("limits", [{"model_calls": 5}, {"tool_calls": 5}, {"total_tokens": 55}], ids=str)
@pytest.mark.parametrize("on_limit", ON_LIMIT)
async def test_a_limit_of_the_run_ends_all_branches_once(limits: dict[str, int], on_limit: Any) -> None:
    result = await run(
        SequentialAgent(name="row", sub_agents=[branches("a", "b", "c"), agent("d", "never")]),
        Limits(**limits, on_limit=on_limit),
    )
    assert result.status == "limit"
    assert len([event for event in result.events if event.error_code]) == (0 if on_limit == "summarise" else 1)
    assert len([event for event in result.events if event.text]) == (1 if on_limit == "summarise" else 0)


@pytest.mark.parametrize("on_limit", ["stop", "summarise"])
async def test_a_limit_of_one_branch_leaves_the_others_alone(on_limit: Any) -> None:
    first = looker("a", limits=Limits(model_calls=2, on_limit=on_limit))
    second = agent("b", call("look"), call("look"), call("look"), "b is done", tools=[look])
    result = await run(ParallelAgent(name="side", sub_agents=[first, second]))
    texts = {event.text for event in result.events if event.text}
    assert texts == ({"a sums up", "b is done"} if on_limit == "summarise" else {"b is done"})
    assert result.status == "final"


async def test_each_agent_with_a_limit_of_its_own_sums_up() -> None:
    """Only a limit of the run is one for all of them."""
    own = Limits(tool_calls=1, on_limit="summarise")
    result = await run(SequentialAgent(name="row", sub_agents=[looker("a", limits=own), looker("b", limits=own)]))
    assert [event.text for event in result.events if event.text] == ["a sums up", "b sums up"]
    assert result.status == "final"


async def test_a_branch_that_comes_to_the_limit_of_the_run_after_another_one_says_no_more_of_it() -> None:
    """Its calls are refused all the same."""
    gate = Gate()
    slow = LlmAgent(name="slow", model=Gated(call("look"), gate=gate), tools=[look])
    chat = Chat(ParallelAgent(name="side", sub_agents=[looker("a"), slow]))
    config = RunConfig(limits=Limits(tool_calls=1, on_limit="stop"))
    ends: list[str] = []
    async for event in chat.runner.run_async(**WHERE, new_message="go", run_config=config):
        if event.error_code:
            ends.append(event.author)
            gate.open.set()
    assert ends == ["a"]
    legal(await chat.stored())


@pytest.mark.parametrize("on_limit", ON_LIMIT)
async def test_a_limit_of_the_run_ends_a_sequence_and_a_loop(on_limit: Any) -> None:
    for root in (
        SequentialAgent(name="row", sub_agents=[looker("a"), agent("b", "never")]),
        LoopAgent(name="loop", sub_agents=[looker("a"), agent("b", "never")]),
    ):
        result = await run(root, Limits(model_calls=2, on_limit=on_limit))
        assert result.status == "limit"
        assert {event.author for event in result.events if not event.error_code} == {"a"}


@pytest.mark.parametrize("on_limit", ["stop", "summarise"])
async def test_a_loop_around_an_agent_with_a_limit_ends_by_its_own_rules(on_limit: Any) -> None:
    inner = looker("a", limits=Limits(model_calls=2, on_limit=on_limit))
    result = await run(LoopAgent(name="loop", sub_agents=[inner], max_iterations=3))
    assert result.model_calls == 2
    assert result.status == ("final" if on_limit == "summarise" else "limit")


@pytest.mark.parametrize("on_limit", ON_LIMIT)
@pytest.mark.parametrize("whose", ["run", "agent"])
async def test_a_limit_behind_a_transfer(on_limit: Any, whose: str) -> None:
    limits = Limits(model_calls=3 if whose == "run" else 2, on_limit=on_limit)
    root = agent("root", hand_to("helper"), "never", sub_agents=[looker("helper")])
    result = await run(root, limits if whose == "run" else Limits(agents={"helper": limits}))
    if whose == "run" or on_limit != "summarise":
        assert result.status == "limit"
    assert result.text == ("helper sums up" if on_limit == "summarise" else "")
    assert result.model_calls == 3


@pytest.mark.parametrize("limits", [{"model_calls": 3}, {"tool_calls": 2}, {"total_tokens": 25}], ids=str)
@pytest.mark.parametrize("on_limit", ON_LIMIT)
async def test_a_limit_of_the_run_within_an_agent_tool(limits: dict[str, int], on_limit: Any) -> None:
    """The agent that runs as a tool counts into the run; its caller lands as well."""

    def answer(request: Any) -> Any:
        again = said(call("child", request="x"))
        content = again if request.config.tools else said("root sums up")
        return LlmResponse(content=content, usage_metadata=usage(10))

    root = LlmAgent(name="root", model=FunctionModel(answer), tools=[AgentTool(looker("child"))])
    result = await run(root, Limits(**limits, on_limit=on_limit))
    assert result.status == "limit"
    assert isinstance(result.error, LimitExceededError) is (on_limit == "raise")
    assert result.text == ("root sums up" if on_limit == "summarise" else "")


@pytest.mark.parametrize("on_limit", ON_LIMIT)
async def test_a_limit_of_an_agent_that_runs_as_a_tool(on_limit: Any) -> None:
    child = looker("child", limits=Limits(model_calls=2, on_limit=on_limit))
    root = agent("root", call("child", request="x"), "done", tools=[AgentTool(child)])
    result = await run(root)
    if on_limit == "raise":
        assert isinstance(result.error, LimitExceededError)
        assert (result.status, result.error.agent) == ("limit", "child")
        return
    assert (result.status, result.text, result.model_calls) == ("final", "done", 4)
    (answer,) = [answer.response or {} for event in result.events for answer in event.get_function_responses()]
    if on_limit == "summarise":
        assert answer == {"result": "child sums up"}
    else:
        assert "model_calls" in answer["error"]


@pytest.mark.parametrize("on_limit", ON_LIMIT)
@pytest.mark.parametrize("mode", ["single_turn", "task"])
async def test_a_limit_of_the_run_within_a_delegated_agent(on_limit: Any, mode: Any) -> None:
    clerk = looker("clerk", mode=mode)
    root = agent("root", call("clerk", request="x"), "done", sub_agents=[clerk])
    result = await run(root, Limits(model_calls=3, on_limit=on_limit))
    assert result.status == "limit"
    # the summary of a task is no result of it: the user's next message goes on with the task
    (asked,) = [c for event in result.events for c in event.get_function_calls() if c.name == "clerk"]
    answers = [a.response or {} for e in result.events for a in e.get_function_responses() if a.id == asked.id]
    if on_limit == "summarise":
        assert answers == ([{"result": "clerk sums up"}] if mode == "single_turn" else [])
    else:
        assert [next(iter(answer)) for answer in answers] == ["error"]


# -- going on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_limit", ON_LIMIT)
@pytest.mark.parametrize("limit", ["model_calls", "tool_calls"])
async def test_the_next_message_goes_on_from_there(on_limit: Any, limit: str) -> None:
    chat = Chat(agent("root", call("look"), call("look"), "one", "two", tools=[look]))
    config = RunConfig(limits=Limits(**{limit: 1}, on_limit=on_limit))
    result = await chat.runner.start(user_id="ann", session_id="s1", new_message="go", run_config=config).result()
    assert result.status == "limit"
    assert story(await chat.say("hello?"))[-1] in ("root: one", "root: two")
    legal(await chat.stored())


@pytest.mark.parametrize("on_limit", ["raise", "stop"])
@pytest.mark.parametrize("shape", ["one agent", "a sequence", "branches", "a transfer"])
async def test_with_a_higher_limit_the_run_goes_on_where_it_was(on_limit: Any, shape: str) -> None:
    def worker(name: str) -> LlmAgent:
        model = ByTurn(call("look"), call("find"), f"{name} is done")
        return LlmAgent(name=name, model=model, tools=[look, find], output_key=name)

    root: Any = {
        "one agent": lambda: worker("a"),
        "a sequence": lambda: SequentialAgent(name="row", sub_agents=[worker("a"), worker("b")]),
        "branches": lambda: ParallelAgent(name="row", sub_agents=[worker("a"), worker("b")]),
        "a transfer": lambda: LlmAgent(name="root", model=ByTurn(hand_to("a"), "x"), sub_agents=[worker("a")]),
    }[shape]
    whole = Chat(root())
    await whole.say("go")
    for allowed in range(1, 6):
        chat = Chat(root())
        config = RunConfig(limits=Limits(model_calls=allowed, on_limit=on_limit))
        first = await chat.runner.start(user_id="ann", session_id="s1", new_message="go", run_config=config).result()
        if first.status == "limit":
            await go_on(chat, first.invocation_id)
        assert await chat.state() == await whole.state()
        legal(await chat.stored())


@pytest.mark.parametrize("shape", ["one agent", "the last of a sequence", "a transfer"])
async def test_an_agent_that_reached_its_own_limit_goes_on_if_nobody_did_since(shape: str) -> None:
    model = ByTurn(call("look"), call("find"), "a is done")
    worker = LlmAgent(name="a", model=model, tools=[look, find], limits=Limits(model_calls=1, on_limit="stop"))
    root: Any = {
        "one agent": lambda: worker,
        "the last of a sequence": lambda: SequentialAgent(name="row", sub_agents=[agent("first", "hello"), worker]),
        "a transfer": lambda: LlmAgent(name="root", model=ByTurn(hand_to("a"), "x"), sub_agents=[worker]),
    }[shape]
    chat = Chat(root())
    first = await chat.runner.start(user_id="ann", session_id="s1", new_message="go").result()
    assert first.status == "limit"
    worker.limits = Limits(model_calls=2)
    assert [event.text for event in await go_on(chat, first.invocation_id)][-1] == "a is done"
    legal(await chat.stored())


async def test_a_run_that_a_person_answers_in_between_has_one_budget() -> None:
    """With `Runner(confirm=...)` the limits hold for all turns together."""
    from flowloom import FunctionTool

    runner = InMemoryRunner(looker(tools=[FunctionTool(look, require_confirmation=True)]), confirm=lambda _: True)
    config = RunConfig(limits=Limits(model_calls=5))
    with pytest.raises(LlmCallsLimitExceededError):
        await runner.run_to_result(user_id="u", session_id="s", new_message="go", run_config=config)


async def test_runs_at_once_have_budgets_of_their_own() -> None:
    gate = Gate()
    root = LlmAgent(name="root", model=Gated(call("look"), "done", gate=gate), tools=[look])
    runner = InMemoryRunner(root)
    config = RunConfig(limits=Limits(model_calls=2, tool_calls=1, tools={"look": 1}))
    runs = [runner.start(user_id="u", session_id=str(n), new_message="go", run_config=config) for n in range(3)]
    await gate.reached.wait()
    gate.open.set()
    assert [each.status for each in await asyncio.gather(*(each.result() for each in runs))] == ["final"] * 3


async def test_without_limits_nothing_is_refused() -> None:
    root = agent("root", *[call("look")] * 30, "done", tools=[look])
    assert (await run(root)).text == "done"


async def test_a_limit_that_does_not_fit_is_a_configuration_error() -> None:
    from flowloom import ConfigurationError

    for fields in ({"model_calls": -1}, {"on_limit": "explode"}, {"calls": 3}, {"agents": {"a": {"tokens": 1}}}):
        with pytest.raises(ConfigurationError):
            Limits(**fields)


async def test_events_of_a_limit_are_yielded_as_they_are_stored() -> None:
    chat = Chat(looker(), config=RunConfig(limits=Limits(tool_calls=1, on_limit="stop")))
    events = await chat.say("go")
    assert [event.id for event in events] == [event.id for event in (await chat.stored())[1:]]
    assert await collect(
        chat.runner.run_async(user_id="ann", session_id="s2", new_message="go", run_config=chat.config)
    )


def test_settings_without_limits_share_the_limits_that_there_are_not() -> None:
    """A run without limits is known by them at a glance, and holds nothing against any."""
    assert RunConfig().limits is RunConfig(tool_errors="raise").limits is default_run_config().limits is NO_LIMITS
