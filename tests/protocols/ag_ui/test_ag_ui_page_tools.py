"""Tools of the page beside tools of ours, over several requests (protocols spec §5, In)."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from google.genai import types
from test_ag_ui import COLOUR, add, of, page_of, told

from flowloom import FunctionTool, InMemoryRunner, LlmAgent, LongRunningFunctionTool, Runner, SequentialAgent
from flowloom.plugins import BasePlugin
from flowloom.sessions import InMemorySessionService
from flowloom.testing import FunctionModel, ScriptedModel, call
from flowloom.tools import AgentTool, BaseToolset

SHAPE = {**COLOUR, "name": "shape"}


def results(model: ScriptedModel, number: int) -> list[Any]:
    """What the model was told of its calls in a request."""
    parts = [part for content in model.requests[number].contents for part in content.parts]
    return [part.function_response.response for part in parts if part.function_response]


async def test_the_model_is_asked_when_the_page_has_answered_all() -> None:
    """One result of two leaves the other call waiting, in any order; ours has run once."""
    ran: list[int] = []

    def count(a: int) -> int:
        """Counts."""
        ran.append(a)
        return a

    model = ScriptedModel([[call("colour"), call("count", a=1), call("shape")], "Done."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[count])) as page:
        page.extra = {"tools": [COLOUR, SHAPE]}
        colour, shape = (await page.say("Draw"))[-1]["outcome"]["pendingToolCallIds"]
        page.messages.append({"id": "m1", "role": "tool", "toolCallId": shape, "content": "square"})
        events = await page.run()
        assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [colour]}
        assert len(model.requests) == len(ran) == 1
        page.messages.append({"id": "m2", "role": "tool", "toolCallId": colour, "content": "red"})
        assert told(await page.run()) == "Done."
    assert results(model, 1) == [{"result": 1}, {"result": "square"}, {"result": "red"}]
    assert ran == [1]


async def test_words_while_a_tool_of_the_page_waits_are_answered_and_leave_it_waiting() -> None:
    """Its result comes later, and the model gets it then."""
    model = ScriptedModel([[call("colour"), call("add", a=1, b=1)], "In between.", "Red it is."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[add])) as page:
        page.extra = {"tools": [COLOUR]}
        (colour,) = (await page.say("Draw"))[-1]["outcome"]["pendingToolCallIds"]
        assert told(await page.say("Meanwhile?")) == "In between."
        page.messages.append({"id": "m", "role": "tool", "toolCallId": colour, "content": '{"done": 1}'})
        assert told(await page.run()) == "Red it is."
    assert {"done": 1} in results(model, 2)


async def test_an_approval_beside_a_call_of_the_page_is_asked_for_at_once() -> None:
    """Both wait; one request answers both, and the model is asked once."""
    pay = FunctionTool(add, name="pay", require_confirmation=True)
    model = ScriptedModel([[call("colour"), call("pay", a=1, b=2)], "Paid."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[pay])) as page:
        page.extra = {"tools": [COLOUR]}
        events = await page.say("Pay")
        colour = of(events, "TOOL_CALL_START")[0]["toolCallId"]
        (asked,) = events[-1]["outcome"]["interrupts"]
        page.messages.append({"id": "m", "role": "tool", "toolCallId": colour, "content": "red"})
        resume = [{"interruptId": asked["id"], "status": "resolved", "payload": True}]
        assert told(await page.run(resume=resume)) == "Paid."
    assert len(model.requests) == 2
    assert {"result": "red"} in results(model, 1)
    assert {"result": 3} in results(model, 1)


class Listed(BaseToolset):
    """Tools that are known when they are listed."""

    def __init__(self, *tools: Any) -> None:
        super().__init__()
        self.tools = tools

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [*self.tools]


@pytest.mark.parametrize("listed", [False, True])
async def test_of_two_tools_of_one_name_ours_is_called(listed: bool) -> None:
    """Also one that a toolset lists: it runs here, and the page has nothing to do."""
    own = FunctionTool(lambda: "ours", name="colour")
    model = ScriptedModel([call("colour"), call("colour"), "Done."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[Listed(own) if listed else own])) as page:
        page.extra = {"tools": [COLOUR, SHAPE]}
        events = await page.say("Draw")
    assert (told(events), events[-1]["outcome"]) == ("Done.", {"type": "success"})
    assert results(model, 2) == [{"result": "ours"}, {"result": "ours"}]


async def test_of_two_tools_of_a_page_with_one_name_the_first_is_meant() -> None:
    """It is declared once, and called by the page."""
    model = ScriptedModel([call("colour"), "Red."])
    async with page_of(LlmAgent(name="desk", model=model)) as page:
        page.extra = {"tools": [COLOUR, {**COLOUR, "description": "Shades."}]}
        (colour,) = (await page.say("Draw"))[-1]["outcome"]["pendingToolCallIds"]
        page.messages.append({"id": "m", "role": "tool", "toolCallId": colour, "content": "red"})
        assert told(await page.run()) == "Red."
    (declared,) = model.requests[1].config.tools[0].function_declarations
    assert declared.description == "Colours."


async def test_an_approval_of_a_listed_tool_is_asked_for_whatever_tools_the_page_has() -> None:
    """It is an interrupt, and no call of the page."""
    own = FunctionTool(lambda: "ours", name="colour", require_confirmation=True)
    model = ScriptedModel([call("colour"), "Done."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[Listed(own)])) as page:
        page.extra = {"tools": [COLOUR]}
        (asked,) = (await page.say("Draw"))[-1]["outcome"]["interrupts"]
        events = await page.run(resume=[{"interruptId": asked["id"], "status": "resolved", "payload": True}])
    assert told(events) == "Done."
    assert results(model, 1) == [{"result": "ours"}]


async def test_what_still_waits_is_told_again() -> None:
    """Of two approvals one was answered: the run ends with the other one's interrupt."""
    pay = FunctionTool(add, name="pay", require_confirmation=True)
    model = ScriptedModel([[call("pay", a=1, b=2), call("pay", a=3, b=4)], "One is paid.", "That is all."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[pay])) as page:
        first, second = (await page.say("Pay"))[-1]["outcome"]["interrupts"]
        events = await page.run(resume=[{"interruptId": second["id"], "status": "resolved", "payload": True}])
        assert events[-1]["outcome"] == {"type": "interrupt", "interrupts": [first]}
        events = await page.run(resume=[{"interruptId": first["id"], "status": "cancelled"}])
        assert (told(events), events[-1]["outcome"]) == ("That is all.", {"type": "success"})


async def test_a_long_running_tool_is_an_interrupt_that_a_result_answers() -> None:
    """Its first report is progress; the result comes as a tool message, or by `resume`."""

    def order() -> dict[str, str]:
        """Orders."""
        return {"status": "ordered"}

    model = ScriptedModel([call("order"), "On its way.", "There."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[LongRunningFunctionTool(order)])) as page:
        events = await page.say("Order")
    assert of(events, "ACTIVITY_SNAPSHOT")[0]["content"]["status"] == "ordered"


async def test_a_sequence_waits_for_the_page() -> None:
    """The next member begins when the page has answered."""
    first = LlmAgent(name="first", model=ScriptedModel([[call("colour"), call("add", a=1, b=1)], "One."]), tools=[add])
    second = LlmAgent(name="second", model=ScriptedModel(["Two."]))
    async with page_of(SequentialAgent(name="both", sub_agents=[first, second])) as page:
        page.extra = {"tools": [COLOUR]}
        events = await page.say("Go")
        (colour,) = events[-1]["outcome"]["pendingToolCallIds"]
        assert told(events) == ""
        page.messages.append({"id": "m", "role": "tool", "toolCallId": colour, "content": "red"})
        assert told(await page.run()) == "One.Two."


async def test_agents_behind_calls_are_subagents() -> None:
    """Their words carry the subagent; one that fails ends with an error."""

    def fail(request: Any) -> Any:
        raise ValueError("boom")

    good = LlmAgent(name="good", description="Good.", model=ScriptedModel(["Inside."]))
    bad = LlmAgent(name="bad", description="Bad.", model=FunctionModel(fail))
    model = ScriptedModel([[call("good", request="go"), call("bad", request="go")], "Outside."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[AgentTool(good), AgentTool(bad)])) as page:
        events = await page.say("Go")
    begun = {event["name"]: event["subagentRunId"] for event in of(events, "SUBAGENT_STARTED")}
    (inside,) = [event for event in of(events, "TEXT_MESSAGE_START") if event["name"] == "good"]
    assert inside["subagentRunId"] == begun["good"]
    assert [event["subagentRunId"] for event in of(events, "SUBAGENT_FINISHED")] == [begun["good"]]
    assert [(event["subagentRunId"], event["message"]) for event in of(events, "SUBAGENT_ERROR")] == [
        (begun["bad"], "boom")
    ]


async def test_what_the_provider_has_signed_is_told() -> None:
    """Of thoughts with the reasoning's id, of a call with the call's."""
    thought = types.Part(text="Hm.", thought=True, thought_signature=b"one")
    made = types.Part(function_call=types.FunctionCall(name="add", args={"a": 1, "b": 1}), thought_signature=b"two")
    async with page_of(LlmAgent(name="desk", model=ScriptedModel([[thought, made], "Two."]), tools=[add])) as page:
        events = await page.say("Add")
    (reasoning,) = of(events, "REASONING_MESSAGE_START")
    (started,) = of(events, "TOOL_CALL_START")
    signed = {event["entityId"]: event for event in of(events, "REASONING_ENCRYPTED_VALUE")}
    assert {key: (event["subtype"], base64.b64decode(event["encryptedValue"])) for key, event in signed.items()} == {
        reasoning["messageId"]: ("message", b"one"),
        started["toolCallId"]: ("tool-call", b"two"),
    }


async def test_calls_are_carried_by_their_answers_message() -> None:
    """The text of the answer if it has one, else one message for all of them; an earlier answer carries none."""
    model = ScriptedModel([["Look.", call("add", a=1, b=1)], [call("add", a=2, b=2), call("add", a=3, b=3)], "Done."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[add])) as page:
        events = await page.say("Add")
    words = of(events, "TEXT_MESSAGE_START")[0]["messageId"]
    calls = of(events, "TOOL_CALL_START")
    assert [each["parentMessageId"] for each in calls] == [words, calls[1]["toolCallId"], calls[1]["toolCallId"]]


async def test_a_thread_that_is_gone_is_rebuilt_with_its_calls() -> None:
    """Words, and calls with their results; a call without one is left out, and so is a name that is the engine's."""
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        {"id": "c3", "type": "function", "function": {"name": "adk_request_input", "arguments": "{}"}},
    ]
    model = ScriptedModel(["Again."])
    runner = InMemoryRunner(LlmAgent(name="desk", model=model, tools=[add]))
    async with page_of(runner, user="ann") as page:
        page.messages = [
            {"id": "1", "role": "user", "content": "Add"},
            {"id": "2", "role": "assistant", "content": "Yes.", "toolCalls": calls},
            {"id": "3", "role": "tool", "toolCallId": "c1", "content": '{"result": 2}'},
            {"id": "4", "role": "tool", "toolCallId": "c3", "content": "{}"},
            {"id": "5", "role": "assistant", "content": "Two."},
        ]
        assert told(await page.say("And again?")) == "Again."
    said = [part for content in model.requests[0].contents for part in content.parts]
    assert [part.text or part.function_call or part.function_response.response for part in said] == [
        "Add",
        "Yes.",
        types.FunctionCall(id=said[2].function_call.id, name="add", args={"a": 1, "b": 1}),
        {"result": 2},
        "Two.",
        "And again?",
    ]


async def test_a_second_run_on_a_thread_is_refused_or_waits() -> None:
    """As the runner says; another thread does not wait."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Takes its time."""
        begun.set()
        await go_on.wait()
        return "late"

    def answer(request: Any) -> Any:
        last = request.contents[-1].parts[-1]
        return call("slow") if last.text == "slow" else "Hi."

    agent = LlmAgent(name="desk", model=FunctionModel(answer), tools=[slow])
    service = InMemorySessionService()
    runner = Runner(app_name="app", agent=agent, session_service=service, concurrency="reject")
    async with page_of(runner, user="ann") as page:
        going = asyncio.create_task(page.say("slow"))
        await asyncio.wait_for(begun.wait(), 60)
        messages = [{"id": "x", "role": "user", "content": "Hi"}]
        busy = await page.post(messages=messages)
        other = await page.post(messages=messages, threadId="t2")
        go_on.set()
        await going
    assert (busy.status_code, busy.json()["code"]) == (409, "session_busy")
    assert '"Hi."' in other.text


async def test_system_words_of_a_page_count_only_if_they_are_allowed() -> None:
    """They are instructions of the run then, and in no session."""
    for allowed in (False, True):
        model = ScriptedModel(["Hi."])
        runner = InMemoryRunner(LlmAgent(name="desk", model=model, instruction="Help."))
        async with page_of(runner, user="ann", system_messages=allowed) as page:
            page.messages = [{"id": "s", "role": "system", "content": "Speak Latin."}]
            await page.say("Hi")
        assert ("Speak Latin." in str(model.requests[0].config.system_instruction)) is allowed
        session = await runner.session_service.get_session(app_name=runner.app_name, user_id="ann", session_id="t1")
        assert "Latin" not in str(session.events)


async def test_a_run_that_is_cancelled_says_so() -> None:
    """Its outcome is `cancelled`, and what was open has ended."""

    async def slow(tool_context: Any) -> str:
        """Takes its time."""
        tool_context._invocation_context.run.stopped = "cancelled"
        return "late"

    async with page_of(LlmAgent(name="desk", model=ScriptedModel([call("slow"), "Never."]), tools=[slow])) as page:
        events = await page.say("Go")
    assert events[-1]["outcome"] == {"type": "cancelled"}


async def test_an_answer_that_differs_from_its_pieces_is_told_anew() -> None:
    """All messages as they count, each once."""

    async def shout(callback_context: Any, llm_response: Any) -> Any:
        if llm_response.partial:
            return None
        return llm_response.model_copy(update={"content": types.Content(role="model", parts=[types.Part(text="HI.")])})

    model = ScriptedModel(["Hi."], stream_chunks=True, chunk_size=1)
    async with page_of(LlmAgent(name="desk", model=model, after_model_callback=shout)) as page:
        events = await page.say("Hello")
    assert told(events) == "Hi."
    (snapshot,) = of(events, "MESSAGES_SNAPSHOT")
    assert [(each["role"], each["content"]) for each in snapshot["messages"]] == [
        ("user", "Hello"),
        ("assistant", "HI."),
    ]
    assert json.dumps(snapshot).count("HI.") == 1


async def test_calls_of_ours_beside_the_pages_are_of_one_run() -> None:
    """For the page it is one run, begun and ended once; for plugins the same invocation, resumed."""
    seen: list[tuple[str, str]] = []

    class Watching(BasePlugin):
        async def before_run_callback(self, *, invocation_context: Any) -> None:
            seen.append(("begins", invocation_context.invocation_id))

    model = ScriptedModel([[call("colour"), call("add", a=1, b=1)], "Red."])
    agent = LlmAgent(name="desk", model=model, tools=[add])
    async with page_of(InMemoryRunner(agent, plugins=[Watching("watching")]), user="ann") as page:
        page.extra = {"tools": [COLOUR]}
        events = await page.say("Draw")
    assert [len(of(events, kind)) for kind in ("RUN_STARTED", "RUN_FINISHED")] == [1, 1]
    assert [event["toolCallName"] for event in of(events, "TOOL_CALL_START")] == ["colour", "add"]
    assert len(model.requests) == 1
    assert [what for what, _ in seen] == ["begins", "begins"]
    assert len({invocation for _, invocation in seen}) == 1
