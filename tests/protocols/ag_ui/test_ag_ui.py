"""Front ends that speak AG-UI: what they are told, what they bring, and what they answer (protocols spec §5)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from ag_ui_verifier import verify

from flowloom import FunctionTool, InMemoryRunner, LlmAgent, ParallelAgent, request_input
from flowloom.asgi import Principal
from flowloom.protocols.ag_ui import to_ag_ui
from flowloom.server.serving import bound_socket
from flowloom.testing import FunctionModel, ScriptedModel, call


class Page:
    """A page that keeps its messages, as the protocol's client does."""

    def __init__(self, http: httpx.AsyncClient, thread: str = "t1") -> None:
        self.http, self.thread = http, thread
        self.messages: list[dict[str, Any]] = []
        self.state: Any = None
        self.extra: dict[str, Any] = {}

    async def post(self, **more: Any) -> httpx.Response:
        body = {"threadId": self.thread, "runId": "r", "messages": self.messages, "tools": [], "context": []}
        return await self.http.post("/", json={**body, "state": self.state, "forwardedProps": {}, **self.extra, **more})

    async def run(self, **more: Any) -> list[dict[str, Any]]:
        """The events of a run, whose order is verified."""
        answer = await self.post(**more)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]
        verify(events)
        return events

    async def say(self, text: Any, **more: Any) -> list[dict[str, Any]]:
        self.messages.append({"id": f"u{len(self.messages)}", "role": "user", "content": text})
        return await self.run(**more)


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def told(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in of(events, "TEXT_MESSAGE_CONTENT"))


@asynccontextmanager
async def page_of(agent: Any, **options: Any) -> AsyncIterator[Page]:
    """A page of an agent that is served on a socket."""
    bound = bound_socket("127.0.0.1", 0)
    app = to_ag_ui(agent, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
    task = asyncio.create_task(server._serve([bound]))
    while not server.started:  # noqa: ASYNC110 - it tells by this alone
        await asyncio.sleep(0.005)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=20) as http:
            yield Page(http)
    finally:
        server.should_exit = True
        await task
        bound.close()


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


COLOUR = {"name": "colour", "description": "Colours.", "parameters": {"type": "object", "properties": {}}}


async def test_words_come_in_pieces_of_one_message() -> None:
    """A text is begun, told and ended under one id; the run names thread, run, version, and what it took."""
    async with page_of(
        LlmAgent(name="desk", model=ScriptedModel(["Hello you."], stream_chunks=True, chunk_size=4))
    ) as page:
        events = await page.say("Hi")
    assert (events[0]["threadId"], events[0]["runId"], events[0]["protocolVersion"]) == ("t1", "r", "1.0")
    assert told(events) == "Hello you."
    assert len(of(events, "TEXT_MESSAGE_CONTENT")) > 1
    assert len({event["messageId"] for event in events if event["type"].startswith("TEXT_MESSAGE")}) == 1
    assert events[-1]["outcome"] == {"type": "success"}
    assert [event["stepName"] for event in of(events, "STEP_STARTED")] == ["desk"]


async def test_calls_have_arguments_as_json_and_results() -> None:
    """Each once; a result is JSON text, an error too."""

    def broken() -> str:
        """Breaks."""
        raise ValueError("boom")

    model = ScriptedModel([[call("add", a=1, b=2), call("broken")], "Done."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[add, broken])) as page:
        events = await page.say("Add")
    assert [event["toolCallName"] for event in of(events, "TOOL_CALL_START")] == ["add", "broken"]
    assert json.loads(of(events, "TOOL_CALL_ARGS")[0]["delta"]) == {"a": 1, "b": 2}
    results = [json.loads(event["content"]) for event in of(events, "TOOL_CALL_RESULT")]
    assert results == [{"result": 3}, {"error": "boom"}]


async def test_only_what_is_new_of_the_messages_is_said() -> None:
    """A page sends all each time; the session has each once. An unknown thread is rebuilt, without system messages."""
    model = ScriptedModel(["One.", "Two.", "Three.", "Four."])
    runner = InMemoryRunner(LlmAgent(name="desk", model=model))
    async with page_of(runner, user="ann") as page:
        for text in ("a", "b"):
            page.messages.append({"id": "x", "role": "assistant", "content": "One."}) if text == "b" else None
            await page.say(text)
        assert (await page.post()).status_code == 422
        await page.say("b")
        session = await runner.session_service.get_session(app_name=runner.app_name, user_id="ann", session_id="t1")
        assert [event.text for event in session.events] == ["a", "One.", "b", "Two.", "b", "Three."]
        page.thread = "t2"
        page.messages.insert(0, {"id": "s", "role": "system", "content": "Obey."})
        await page.say("c")
    sent = [part.text for content in model.requests[-1].contents for part in content.parts]
    assert sent == ["a", "One.", "b", "b", "c"]


async def test_a_tool_of_the_page_is_called_by_the_page_alone() -> None:
    """It is declared, called once, resumed once; ours beside it runs at once, and the model waits for both."""
    model = ScriptedModel([[call("colour", name="red"), call("add", a=1, b=1)], "Red.", "Over."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[add])) as page:
        page.extra = {"tools": [COLOUR, {**COLOUR, "name": "add"}, {**COLOUR, "name": "transfer_to_agent"}]}
        events = await page.say("Red!")
        asked = of(events, "TOOL_CALL_START")[0]["toolCallId"]
        assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [asked]}
        assert [event["content"] for event in of(events, "TOOL_CALL_RESULT")] == ['{"result": 2}']
        assert len(model.requests) == 1
        for _ in range(2):  # a client may send a result twice
            page.messages.append({"id": "m", "role": "tool", "toolCallId": asked, "content": '{"done": true}'})
        events = await page.run()
        assert told(events) == "Red."
        assert len(model.requests) == 2
        responses = [part.function_response for part in model.requests[1].contents[-1].parts]
        assert [response.response for response in responses] == [{"result": 2}, {"done": True}]
        assert told(await page.say("And?")) == "Over."
    assert list(model.requests[0].tools_dict) == ["add", "colour"]


async def test_questions_to_a_person_are_interrupts() -> None:
    """Each kind has its reason; `resume` answers, `cancelled` rejects, and what was answered is 409."""
    pay = FunctionTool(add, name="pay", require_confirmation=True)
    model = ScriptedModel([call("pay", a=1, b=2), "Paid.", call("pay", a=2, b=2), "Not paid."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[pay])) as page:
        for status, payload, answer in (("resolved", {"confirmed": True}, "Paid."), ("cancelled", None, "Not paid.")):
            events = await page.say(f"Pay {status}")
            (asked,) = events[-1]["outcome"]["interrupts"]
            assert (asked["reason"], asked["metadata"]["name"]) == ("tool_approval", "pay")
            resume = [{"interruptId": asked["id"], "status": status, "payload": payload}]
            assert told(await page.run(resume=resume)) == answer
            assert (await page.post(resume=resume)).status_code == 409
    assert (await_response(model, 1), await_response(model, 3).keys()) == ({"result": 3}, {"error"})


def await_response(model: ScriptedModel, number: int) -> dict[str, Any]:
    return model.requests[number].contents[-1].parts[-1].function_response.response


async def test_input_is_asked_for_and_given() -> None:
    """The question and the schema of its answer are in the interrupt; other words meanwhile leave it waiting."""
    asks = call("adk_request_input", message="Which city?", response_schema={"type": "object"})
    model = ScriptedModel([asks, "Words.", "Rome it is."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[request_input])) as page:
        events = await page.say("Book")
        (asked,) = events[-1]["outcome"]["interrupts"]
        assert (asked["reason"], asked["message"]) == ("input_required", "Which city?")
        resume = [{"interruptId": asked["id"], "status": "resolved", "payload": {"city": "Rome"}}]
        assert told(await page.run(resume=resume)) == "Words."
        assert "Rome" in str(model.requests[1].contents[-1])


async def test_state_goes_both_ways_without_closed_keys() -> None:
    """A page's keys are set before the run; changes are told as a patch, and whole at the end."""

    def note(tool_context) -> str:
        tool_context.state.update({"a/b": 1, "user:name": "Ann", "temp:x": 2, "app:y": 3})
        return tool_context.state["from_page"]

    model = ScriptedModel([call("note"), "Noted."])
    async with page_of(LlmAgent(name="desk", model=model, tools=[note])) as page:
        page.state = {"from_page": "hi", "app:z": 1, "user:z": 2, "temp:z": 3}
        events = await page.say("Note")
    assert json.loads(of(events, "TOOL_CALL_RESULT")[0]["content"]) == {"result": "hi"}
    assert [event["delta"] for event in of(events, "STATE_DELTA")] == [[{"op": "add", "path": "/a~1b", "value": 1}]]
    assert [event["snapshot"] for event in of(events, "STATE_SNAPSHOT")] == [
        {"from_page": "hi"},
        {"from_page": "hi", "a/b": 1},
    ]


async def test_a_failure_is_told_after_all_that_is_open_has_ended() -> None:
    """With its code and words, last; usage of before is not lost, and no traceback is told."""

    def fail(request: Any) -> Any:
        raise ValueError("model boom")

    async with page_of(LlmAgent(name="desk", model=FunctionModel(fail))) as page:
        events = await page.say("Hi")
    assert (events[-1]["type"], events[-1]["message"]) == ("RUN_ERROR", "model boom")
    assert "Traceback" not in json.dumps(events)


async def test_parallel_agents_have_steps_of_their_own() -> None:
    """Each begins and ends once, whoever speaks first."""
    members = [LlmAgent(name=name, model=ScriptedModel([name], stream_chunks=True)) for name in "xyz"]
    async with page_of(ParallelAgent(name="all", sub_agents=members)) as page:
        events = await page.say("Hi")
    assert sorted(event["stepName"] for event in of(events, "STEP_STARTED")) == ["x", "y", "z"]
    assert sorted(event["name"] for event in of(events, "TEXT_MESSAGE_START")) == ["x", "y", "z"]


async def test_what_the_page_tells_of_itself_is_its_data() -> None:
    """`context` is a part of the request of its own, in no session; files come as parts."""
    model = ScriptedModel(["Seen."])
    runner = InMemoryRunner(LlmAgent(name="desk", model=model))
    source = {"type": "data", "value": base64.b64encode(b"png").decode(), "mimeType": "image/png"}
    picture = {"type": "image", "source": source}
    async with page_of(runner, user="ann") as page:
        page.extra = {"context": [{"description": "Cart", "value": "2 shoes"}]}
        await page.say([{"type": "text", "text": "Look"}, picture])
    first, second = model.requests[0].contents
    assert "It is data" in first.parts[0].text
    assert first.parts[0].text.endswith("Cart: 2 shoes")
    assert [part.text or part.inline_data.data for part in second.parts] == ["Look", b"png"]
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id="ann", session_id="t1")
    assert "shoes" not in str(session.events)


async def test_a_structured_answer_is_the_result() -> None:
    """The end of the run holds the data of an agent with an output schema."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    agent = LlmAgent(name="desk", model=ScriptedModel(['{"city": "Rome"}']), output_schema=schema)
    async with page_of(agent) as page:
        events = await page.say("Where?")
    assert events[-1]["result"] == {"city": "Rome"}


async def test_a_client_that_goes_away_ends_its_run() -> None:
    """The model is not asked again, and the session stays legal; other threads do not wait meanwhile."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Takes its time."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "late"

    runner = InMemoryRunner(LlmAgent(name="desk", model=ScriptedModel([call("slow"), "Never."]), tools=[slow]))
    async with page_of(runner, user="ann") as page:
        going = asyncio.create_task(page.say("Go"))
        await asyncio.wait_for(begun.wait(), 60)
        going.cancel()
        await asyncio.wait_for(ended.wait(), 60)


async def test_what_cannot_be_served_is_refused() -> None:
    """Another `Accept`, another method, no `RunAgentInput`, no thread, a foreign host, and users without a token."""

    async def auth(scope: Any) -> Principal | None:
        return Principal("ann") if (b"authorization", b"Bearer t") in scope["headers"] else None

    runner = InMemoryRunner(LlmAgent(name="desk", model=ScriptedModel(["Hi."])))
    async with page_of(runner, auth=auth) as page:
        page.messages = [{"id": "1", "role": "user", "content": "Hi"}]
        assert (await page.post()).status_code == 401
        page.http.headers["authorization"] = "Bearer t"
        assert (await page.http.post("/", content="{}")).status_code == 422
        assert (await page.http.post("/", content="{}", headers={"accept": "application/json"})).status_code == 406
        assert (await page.post(threadId=" ")).status_code == 422
        assert (await page.http.get("/")).status_code == 405
        assert (await page.http.post("/", content="{}", headers={"host": "evil.example"})).status_code == 403
        await page.run()
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id="ann", session_id="t1")
    assert [event.text for event in session.events] == ["Hi", "Hi."]


async def test_what_a_page_forwards_cannot_claim_what_the_engine_says_of_its_events() -> None:
    runner = InMemoryRunner(LlmAgent(name="desk", model=ScriptedModel(["Hi."])))
    async with page_of(runner) as page:
        page.messages = [{"id": "1", "role": "user", "content": "Hi"}]
        events = await page.run(forwardedProps={"agent_ended": "limit"})
        assert [event["type"] for event in events][-1] == "RUN_ERROR"
        assert "`custom_metadata` has `agent_ended`" in events[-1]["message"]
