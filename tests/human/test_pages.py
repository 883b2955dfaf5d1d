"""How a waiting request is shown."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import kit
import pytest
from google.genai import types

from flowloom import BaseLlm, HumanModel, LlmAgent, LlmRequest, LlmResponse, SequentialAgent
from flowloom.human import HumanObserver, WaitingRequest
from flowloom.inspection import RequestView, diff
from flowloom.inspection.page import page_of
from flowloom.testing import ScriptedModel, call, frozen
from human.person import add, agent, answering, chat, first_of, said, waiting_for


def watched(*answers: object) -> tuple[HumanModel, list[WaitingRequest]]:
    """A model that is answered at once, and the requests that came."""
    seen: list[WaitingRequest] = []
    model = answering(*answers)  # type: ignore[arg-type]
    model.subscribe(ended=seen.append)
    return model, seen


async def test_the_page_says_who_asks_and_who_wrote_what() -> None:
    model, seen = watched("Three.")
    with frozen(clock=0):
        await chat(agent(model, instruction="Be brief.", tools=[add])).say("1 + 2?")
    [waiting] = seen
    assert str(waiting).splitlines()[:10] == [
        "adder asks human",
        "================",
        "",
        "Waits since 1970-01-01 00:00:00 UTC.",
        "",
        "System instruction (2)",
        "----------------------",
        "",
        "  instructions",
        "  [0] | Be brief.",
    ]
    assert "add(a: integer, b?: integer)  ← tool_declarations" in waiting.text
    assert "Processors (" in waiting.text
    assert waiting.agent == "adder"
    assert waiting.assembly.written_by("contents[0]") == "contents"


async def test_without_an_observer_the_page_shows_the_request_alone() -> None:
    model, seen = watched("Three.")
    await kit.Chat(agent(model, instruction="Be brief.")).say("1 + 2?")
    [waiting] = seen
    assert waiting.agent is None
    assert "An agent asks human" in waiting.text
    assert "| Be brief." in waiting.text
    assert "Processors" not in waiting.text
    assert {section.by for section in waiting.sections} == {None}


async def test_a_page_says_until_when_an_answer_is_waited_for() -> None:
    with frozen(clock=0):
        model = answering("Hm.", timeout=90)
        seen: list[WaitingRequest] = []
        model.subscribe(ended=seen.append)
        await anext(model.generate_content_async(LlmRequest()))
    assert "Waits since 1970-01-01 00:00:00 UTC, until 1970-01-01 00:01:30 UTC." in seen[0].text


@pytest.mark.parametrize("timeout", [float("inf"), 1e12, 1e300])
async def test_a_time_beyond_the_calendar_is_never(timeout: float) -> None:
    model = HumanModel(timeout=timeout)
    turn = said(chat(agent(model)), "1 + 2?")
    waiting = await first_of(model)
    assert (waiting.expires_at, waiting.to_dict()["expires_at"]) == (None, None)
    assert ", until" not in waiting.text
    model.answer(waiting.id, "Three.")
    await turn


async def test_what_callbacks_change_has_an_author_too() -> None:
    def in_metres(callback_context: object, llm_request: LlmRequest) -> None:
        llm_request.append_instructions("Give distances in metres.")

    model, seen = watched("Done.")
    await chat(agent(model, instruction="Be brief.", before_model_callback=in_metres)).say("Go.")
    assert seen[0].assembly.written_by("config.system_instruction[2]") == "(callbacks)"


async def test_each_agent_of_a_run_is_named() -> None:
    model, seen = watched("One.", "Two.")
    root = SequentialAgent(name="both", sub_agents=[agent(model, "first"), agent(model, "second")])
    await chat(root).say("Well?")
    assert [waiting.agent for waiting in seen] == ["first", "second"]


async def test_requests_to_other_models_are_left_alone() -> None:
    """What an observer keeps of them would be found in the next request."""
    model, seen = watched("Two.")
    other = LlmAgent(name="first", model=ScriptedModel(["One."]))
    await chat(SequentialAgent(name="both", sub_agents=[other, agent(model, "second")])).say("Well?")
    assert [waiting.agent for waiting in seen] == ["second"]


class Second(BaseLlm):
    """A model that holds others, and asks the last of them."""

    others: list[BaseLlm]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async for response in self.others[-1].generate_content_async(llm_request, stream):
            yield response


async def test_a_person_behind_another_model_is_seen_too() -> None:
    model, seen = watched("Three.")
    behind = Second(model="second", others=[ScriptedModel([]), Second(model="third", others=[model])])
    await chat(LlmAgent(name="adder", model=behind)).say("1 + 2?")
    assert [waiting.agent for waiting in seen] == ["adder"]


async def test_an_answer_of_a_callback_in_its_place_leaves_no_request() -> None:
    def instead(callback_context: object, llm_request: LlmRequest) -> LlmResponse:
        return LlmResponse(content=kit.said("I know."))

    model = HumanModel()
    events = await chat(agent(model, before_model_callback=instead)).say("1 + 2?")
    assert kit.story(events) == ["adder: I know."]
    assert model.pending() == []


async def test_a_page_for_the_browser() -> None:
    model, seen = watched("Three.")
    await chat(agent(model, instruction="<b>Be brief.</b>")).say("1 + 2?")
    assert "<title>adder asks human</title>" in seen[0].html
    assert "&lt;b&gt;Be brief.&lt;/b&gt;" in seen[0].html


async def test_a_request_stays_as_it_was_when_it_came() -> None:
    """The history goes on; what is shown does not."""
    model, seen = watched(call("add", a=1, b=2), "Three.", "Bye.")
    conversation = chat(agent(model, tools=[add]))
    await conversation.say("1 + 2?")
    await conversation.say("Thanks.")
    assert [len(waiting.request.contents) for waiting in seen] == [1, 3, 5]
    assert "Thanks." not in seen[0].text


async def test_what_is_done_to_the_request_later_is_not_seen() -> None:
    request = LlmRequest(contents=[kit.user("1 + 2?")])
    request.append_instructions("Be brief.")
    waiting = await waiting_for(request)
    before = waiting.view
    request.contents.append(kit.said("Three."))
    request.append_instructions("Be long.")
    assert RequestView(waiting.request) == before
    assert "Be long." not in waiting.text


async def test_only_what_is_new_can_be_shown() -> None:
    with frozen(clock=0):
        model, seen = watched(call("add", a=1, b=2), "Three.")
        await chat(agent(model, instruction="Be brief.", tools=[add])).say("1 + 2?")
    assert seen[1].changes_since(seen[0]).splitlines() == [
        "adder asks human, step 1",
        "========================",
        "",
        "Waits since 1970-01-01 00:00:00 UTC.",
        "",
        "Contents (2)",
        "------------",
        "",
        "  [1] model",
        "    | calls add(a=1, b=2)  [call_1]",
        "",
        "  [2] user",
        '    | result of add = {"sum": 3}  [call_1]',
    ]


async def test_what_is_gone_is_named() -> None:
    before = await waiting_for(LlmRequest(contents=[kit.user("1 + 2?"), kit.said("Three.")]))
    after = await waiting_for(LlmRequest(contents=[kit.user("1 + 2?")]))
    page = after.changes_since(before)
    assert page.splitlines()[-4:] == ["No longer there", "---------------", "", "  - contents[1]"]
    assert "1 + 2?" not in page


async def test_waiting_requests_can_be_compared() -> None:
    one = await waiting_for(LlmRequest(contents=[kit.user("1 + 2?")]))
    other = await waiting_for(LlmRequest(contents=[kit.user("1 + 3?")]))
    assert [difference.path for difference in diff(one, other).differences] == ["contents[0]"]
    assert one.view == RequestView(one.request)


async def test_a_request_is_data_for_a_page() -> None:
    model = HumanModel(timeout=60)
    with frozen(clock=1000, ids="id-{}"):
        turn = said(chat(agent(model, tools=[add])), "1 + 2?")
        waiting = await first_of(model)
        data = json.loads(json.dumps(waiting.to_dict()))
        model.answer(waiting.id, "Three.")
        await turn
    assert data["id"] == waiting.id
    assert (data["agent"], data["model"], data["state"]) == ("adder", "human", "waiting")
    assert (data["came_at"], data["expires_at"], data["response_schema"]) == (1000, 1060, None)
    assert [form["name"] for form in data["tools"]] == ["add"]
    assert page_of(data["assembly"]) == waiting.html


async def test_the_response_schema_is_shown() -> None:
    request = LlmRequest()
    request.set_output_schema(types.Schema(type=types.Type.STRING))
    waiting = await waiting_for(request)
    assert waiting.response_schema == {"type": "string"}
    assert "response_schema" in waiting.text


async def test_an_observer_serves_any_number_of_models() -> None:
    first, second = watched("One."), watched("Two.")
    root = SequentialAgent(name="both", sub_agents=[agent(first[0], "a"), agent(second[0], "b")])
    await kit.Chat(root, observers=[HumanObserver()]).say("Well?")
    assert [waiting.agent for waiting in (*first[1], *second[1])] == ["a", "b"]
