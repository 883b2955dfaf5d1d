"""Tasks of others that wait, end early, or are asked about: what the protocol promises of them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from a2a.types import CancelTaskRequest, GetTaskRequest, ListTasksRequest, Part, SubscribeToTaskRequest, TaskState
from a2a_peer import served
from a2a_serving import Caller, serving_a2a, states, task_text, text_chunks
from google.genai import types
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from kit import text
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from flowloom import FunctionTool, LlmAgent, ParallelAgent, SequentialAgent, ToolContext, request_input
from flowloom.asgi import Principal
from flowloom.protocols.a2a import mount_a2a, push
from flowloom.server.serving import bound_socket
from flowloom.testing import FunctionModel, ScriptedModel, call


def data(value: Any) -> Part:
    part = Part()
    part.data.CopyFrom(ParseDict(value, Value()))
    return part


def scripted(*answers: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="desk", description="Pays bills.", model=ScriptedModel(list(answers)), **fields)


def paying(*answers: Any) -> tuple[LlmAgent, list[int]]:
    """An agent whose tool asks for approval, and what was paid."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    tool = FunctionTool(pay, require_confirmation=True)
    return scripted(call("pay", amount=5), *answers, tools=[tool]), paid


def waits_of(said: list[Any]) -> dict[str, Any]:
    """What a task says that it waits for."""
    message = said[-1].status_update.status.message
    return MessageToDict(message.parts[1].data)["pending"][0]


async def test_an_approval_waits_for_a_clear_yes() -> None:
    """The task says what waits, in words and as data; yes lets the call run."""
    agent, paid = paying("Paid 5.")
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Pay 5.")
        before = [*paid]
        done = await caller.send("Yes.", task_id=asked[0].task.id)
    waits = waits_of(asked)
    message = asked[-1].status_update.status.message
    assert states(asked) == ["submitted", "working", "input_required"]
    assert 'May `pay` be called with {"amount": 5}? Answer yes or no.' in message.parts[0].text
    assert (waits["kind"], waits["name"], waits["args"]) == ("confirmation", "pay", {"amount": 5.0})
    assert list(message.extensions) == ["urn:flowloom:a2a:pending:v1"]
    assert (before, paid) == ([], [5])
    assert (states(done)[-1], text_chunks(done)) == ("completed", "Paid 5.")


@pytest.mark.parametrize(
    "words",
    [
        "yes please do",
        "why not",
        *(pytest.param(w, marks=pytest.mark.soak) for w in ("yesterday", "okay?", "sure", "no idea", "y e s", "1")),
    ],
)
async def test_free_words_are_no_approval(words: str) -> None:
    """They are a new message, and the call keeps waiting."""
    agent, paid = paying("What do you mean?", "Paid.")
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Pay 5.")
        said = await caller.send(words, task_id=asked[0].task.id)
        assert (states(said)[-1], paid) == ("input_required", [])
        assert text_chunks(said) == "What do you mean?"
        done = await caller.send("approve", task_id=asked[0].task.id)
    assert (states(done)[-1], paid) == ("completed", [5])


@pytest.mark.parametrize("words", ["no", "N", "reject", "No."])
async def test_a_clear_no_refuses(words: str) -> None:
    """The call does not run, and the agent goes on."""
    agent, paid = paying("Not paid.")
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Pay 5.")
        done = await caller.send(words, task_id=asked[0].task.id)
    assert (states(done)[-1], text_chunks(done), paid) == ("completed", "Not paid.", [])


@pytest.mark.parametrize(
    ("answer", "approves"),
    [
        ({"confirmed": True}, True),
        ({"confirmed": False}, False),
        ({"confirmed": "yes"}, True),
        ({"confirmed": "true"}, None),
        ({"confirmed": 1}, None),
        ({"confirmed": None}, None),
        ({"id": "of another", "confirmed": True}, None),
        ({"value": True}, True),
    ],
)
async def test_data_decides_by_true_and_false(answer: dict[str, Any], approves: bool | None) -> None:
    """Whatever is neither leaves the call waiting; an id has to be that of the call."""
    agent, paid = paying("Well.", "Well.")
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Pay 5.")
        said = await caller.send(data(answer), task_id=asked[0].task.id)
    assert states(said)[-1] == ("input_required" if approves is None else "completed")
    assert paid == ([5] if approves else [])


async def test_words_answer_a_question() -> None:
    """Of one pending input the words are the answer."""
    agent = scripted(call("adk_request_input", message="Which city?"), "Sunny in Rome.", tools=[request_input])
    async with serving_a2a(agent) as caller:
        asked = await caller.send("How is it?")
        done = await caller.send("Rome", task_id=asked[0].task.id)
    assert asked[-1].status_update.status.message.parts[0].text == "Which city?"
    assert (states(done)[-1], text_chunks(done)) == ("completed", "Sunny in Rome.")
    told = agent.model.requests[-1].contents[-1].parts[0].function_response.response
    assert told == {"result": "Rome"}


@pytest.mark.parametrize(
    ("schema", "words", "value"),
    [
        ({"type": ["string", "null"]}, "42", "42"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "42", 42),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"type": "boolean"}, "true", True),
    ],
)
async def test_words_are_what_was_asked_for(schema: dict[str, Any], words: str, value: Any) -> None:
    """Themselves where a text fits, else the data that they are."""
    asks = call("adk_request_input", message="Which?", response_schema=schema)
    agent = scripted(asks, "Good.", tools=[request_input])
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Go.")
        done = await caller.send(words, task_id=asked[0].task.id)
    assert states(done)[-1] == "completed"
    assert agent.model.requests[-1].contents[-1].parts[0].function_response.response == {"result": value}


async def test_data_answers_a_question_as_it_is() -> None:
    """Data that names no id and no value is the answer itself."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    asks = call("adk_request_input", message="Where?", response_schema=schema)
    agent = scripted(asks, "Sunny.", tools=[request_input])
    async with serving_a2a(agent) as caller:
        asked = await caller.send("How is it?")
        done = await caller.send(data({"city": "Rome"}), task_id=asked[0].task.id)
    told = agent.model.requests[-1].contents[-1].parts[0].function_response.response
    assert (states(done)[-1], told) == ("completed", {"city": "Rome"})


async def test_the_function_response_of_a_google_adk_client_answers() -> None:
    """Its metadata keys are understood beside ours."""
    agent, paid = paying("Paid.")
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Pay 5.")
        waiting = asked[-1].status_update.status.message.parts[2]
        assert dict(waiting.metadata.items()) == {"adk_type": "function_call", "adk_is_long_running": True}
        called = MessageToDict(waiting.data)
        answer = data({"id": called["id"], "name": called["name"], "response": {"confirmed": True}})
        answer.metadata.update({"adk_type": "function_response"})
        done = await caller.send(answer, task_id=asked[0].task.id)
    assert called["name"] == "adk_request_confirmation"
    assert (states(done)[-1], paid) == ("completed", [5])


async def test_cancelling_a_task_stops_its_run() -> None:
    """Within a step: the tool is cancelled, and the task is canceled."""
    stopped = asyncio.Event()

    async def dig() -> str:
        """Dig."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "done"

    async with serving_a2a(scripted(call("dig"), "Done.", tools=[dig])) as caller:
        first = await caller.rpc("SendMessage", _message("Dig.", returnImmediately=True))
        task_id = first["result"]["task"]["id"]
        async with asyncio.timeout(60):
            task = await caller.client.cancel_task(CancelTaskRequest(id=task_id))
            await stopped.wait()
        again = await caller.rpc("CancelTask", {"id": task_id})
    assert task.status.state == TaskState.TASK_STATE_CANCELED
    assert again["error"]["code"] == -32002


def _message(text: str, **configuration: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"message": message, "configuration": configuration}


async def test_a_waiting_task_can_be_cancelled() -> None:
    """It is canceled, and takes no reply any more."""
    agent, paid = paying("Paid.")
    async with serving_a2a(agent) as caller:
        asked = await caller.send("Pay 5.")
        task = await caller.client.cancel_task(CancelTaskRequest(id=asked[0].task.id))
        told = await caller.rpc("SendMessage", {"message": {**_message("yes")["message"], "taskId": asked[0].task.id}})
    assert task.status.state == TaskState.TASK_STATE_CANCELED
    assert "error" in told
    assert paid == []


async def test_tasks_are_told_about_later() -> None:
    """`returnImmediately`, `GetTask` with `historyLength`, `ListTasks`, `SubscribeToTask` to the end."""
    going = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        await going.wait()
        return "waited"

    async with serving_a2a(scripted(call("wait"), "Done.", tools=[wait])) as caller:
        first = await caller.rpc("SendMessage", _message("Wait.", returnImmediately=True))
        task_id, context_id = first["result"]["task"]["id"], first["result"]["task"]["contextId"]
        working = await caller.client.get_task(GetTaskRequest(id=task_id))
        stream = caller.client.subscribe(SubscribeToTaskRequest(id=task_id))
        told = [await anext(stream)]
        going.set()
        told += [each async for each in stream]
        without = await caller.client.get_task(GetTaskRequest(id=task_id, history_length=0))
        one = await caller.client.get_task(GetTaskRequest(id=task_id, history_length=1))
        listed = await caller.client.list_tasks(ListTasksRequest(context_id=context_id, include_artifacts=True))
        strangers = await caller.rpc("ListTasks")
    assert working.status.state in (TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_SUBMITTED)
    assert states(told)[-1] == "completed"
    assert text_chunks(told) == "Done."
    assert (len(without.history), len(one.history)) == (0, 1)
    assert [task.id for task in listed.tasks] == [task_id]
    assert strangers["error"]["code"] == -32602


async def test_contexts_are_conversations() -> None:
    """Two tasks of a context share a session, another context does not."""
    seen: list[int] = []

    def answer(request: Any) -> str:
        seen.append(len(request.contents))
        return "ok"

    async with serving_a2a(LlmAgent(name="desk", model=FunctionModel(answer))) as caller:
        first = await caller.send("a")
        second = await caller.send("b")
        caller.context_id = ""
        await caller.send("c")
    assert seen == [1, 3, 1]
    assert first[0].task.context_id == second[0].task.context_id
    assert first[0].task.id != second[0].task.id


async def test_the_answer_is_the_last_agents_and_comes_once() -> None:
    """Members of a workflow before the last, and talk beside calls, give way to the final answer."""

    def clock() -> str:
        """The time."""
        return "noon"

    first = LlmAgent(name="first", model=ScriptedModel(["A draft.", "unused"]))
    last = LlmAgent(name="last", model=ScriptedModel([["Let me look.", call("clock")], "It is noon."]), tools=[clock])
    async with serving_a2a(SequentialAgent(name="flow", sub_agents=[first, last])) as caller:
        said = await caller.send("When?")
        task = await caller.client.get_task(GetTaskRequest(id=said[0].task.id))
    assert text_chunks(said) == task_text(task) == "It is noon."


async def test_agents_that_speak_at_once_leave_one_answer() -> None:
    """The artifact is whole, though several streams were under way."""
    both = [LlmAgent(name=name, model=ScriptedModel([f"{name} has said this."])) for name in ("a", "b")]
    async with serving_a2a(ParallelAgent(name="both", sub_agents=both)) as caller:
        said = await caller.send("Go.")
        task = await caller.client.get_task(GetTaskRequest(id=said[0].task.id))
    assert text_chunks(said) == task_text(task)
    assert re.fullmatch("[ab] has said this.", task_text(task))


async def test_nothing_private_is_told() -> None:
    """Neither card, nor stream, nor task has instructions, thoughts, calls, results, state or error texts."""

    def keep(tool_context: ToolContext, key: str) -> dict[str, str]:
        """Keep."""
        tool_context.state["private_key"] = "private value"
        return {"private": "result"}

    model = ScriptedModel([[text("private thought", thought=True), call("keep", key="private arg")], "Kept."])
    agent = LlmAgent(
        name="desk", description="Keeps.", instruction="private instruction {private_key?}", model=model, tools=[keep]
    )
    async with serving_a2a(agent) as caller:
        said = await caller.send("Keep.")
        task = await caller.client.get_task(GetTaskRequest(id=said[0].task.id))
        card = (await caller.http.get(f"{caller.url}/.well-known/agent-card.json")).text
    assert text_chunks(said) == "Kept."
    for told in (card, str(said), str(task)):
        assert "private" not in told


async def test_with_the_extension_calls_are_told_and_marked() -> None:
    """Thoughts, calls and results stand in status messages of the extension, and not in the answer."""

    def clock() -> str:
        """The time."""
        return "noon"

    model = ScriptedModel([[text("hm", thought=True), call("clock")], "It is noon."])
    agent = LlmAgent(name="desk", model=model, tools=[clock])
    async with serving_a2a(agent, extensions=["calls"]) as caller:
        said = await caller.send("When?")
    kinds = [
        MessageToDict(part.metadata).get("adk_type", "thought")
        for each in said
        if each.HasField("status_update")
        for part in each.status_update.status.message.parts
    ]
    assert kinds == ["thought", "function_call", "function_response"]
    assert text_chunks(said) == "It is noon."


async def test_a_run_that_fails_is_a_failed_task_with_a_code() -> None:
    """What the error says is not told, nor where it was raised."""

    def answer(request: Any) -> Any:
        return RuntimeError("password=hunter2")

    async with serving_a2a(LlmAgent(name="desk", model=FunctionModel(answer))) as caller:
        said = await caller.send("Go.")
    message = said[-1].status_update.status.message
    assert states(said)[-1] == "failed"
    assert message.metadata["error_code"] == "RuntimeError"
    assert "hunter2" not in str(said)
    assert "Traceback" not in str(said)


async def test_saved_files_are_artifacts_with_name_and_type() -> None:
    """What a tool saves comes as an artifact of its own."""

    async def draw(tool_context: ToolContext) -> str:
        """Draw."""
        part = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png"))
        await tool_context.save_artifact("sky.png", part)
        return "drawn"

    async with serving_a2a(scripted(call("draw"), "Here it is.", tools=[draw])) as caller:
        said = await caller.send("Draw.")
        task = await caller.client.get_task(GetTaskRequest(id=said[0].task.id))
    [answer, file] = task.artifacts
    assert answer.parts[0].text == "Here it is."
    assert (file.name, file.parts[0].filename, file.parts[0].media_type) == ("sky.png", "sky.png", "image/png")
    assert file.parts[0].raw == b"\x89PNG"


async def test_the_errors_of_json_rpc_are_those_of_the_protocol() -> None:
    """Text that is no JSON, an unknown method, an unknown task, wrong parameters."""
    async with serving_a2a(scripted("ok")) as caller:
        version = {"A2A-Version": "1.0"}
        garbage = await caller.http.post(f"{caller.url}/", content=b"{", headers=version)
        found = [
            garbage.json(),
            await caller.rpc("NoSuchMethod"),
            await caller.rpc("GetTask", {"id": "none"}),
            await caller.rpc("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}),
            await caller.rpc("SendMessage", {"message": {**_message("x")["message"], "taskId": "none"}}),
        ]
    assert [each["error"]["code"] for each in found] == [-32700, -32601, -32001, -32602, -32001]


async def test_a_client_of_the_version_0_3_is_answered() -> None:
    """`message/send` and its names, on the same address."""
    async with serving_a2a(scripted("Hello.")) as caller:
        message = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "Hi"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        async with httpx.AsyncClient(trust_env=False) as http:  # the other one says that it speaks 1.0
            told = (await http.post(f"{caller.url}/", json=body)).json()
    assert "result" in told, told
    answer = told["result"]
    assert (answer["kind"], answer["status"]["state"]) == ("task", "completed")
    assert answer["artifacts"][0]["parts"][0]["text"] == "Hello."


async def test_the_rest_binding_answers() -> None:
    """HTTP+JSON: `/message:send` and `/tasks/{id}`."""
    async with serving_a2a(scripted("Hello.")) as caller:
        headers = {"A2A-Version": "1.0"}
        sent = await caller.http.post(f"{caller.url}/message:send", json=_message("Hi"), headers=headers)
        task = sent.json()["task"]
        found = await caller.http.get(f"{caller.url}/tasks/{task['id']}", headers=headers)
    assert task["status"]["state"] == found.json()["status"]["state"] == "TASK_STATE_COMPLETED"


class Sink:
    """An address that takes notifications."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = [*statuses]
        self.got: list[tuple[str, str]] = []

    async def take(self, request: Any) -> Response:
        body = await request.json()
        kind = "task" if "task" in body else "statusUpdate"
        self.got.append((body[kind]["status"]["state"], request.headers.get("x-a2a-notification-token", "")))
        return Response(status_code=self.statuses.pop(0) if self.statuses else 200)


async def pushed(caller: Caller, url: str) -> dict[str, Any]:
    push_config = {"url": url, "token": "t0ken"}
    return await caller.rpc("SendMessage", _message("Hi", taskPushNotificationConfig=push_config))


async def test_states_are_notified_in_order_with_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that fails is tried again, up to three times more, and the order stays."""
    monkeypatch.setattr(push, "PAUSES", (0.01, 0.01, 0.01))
    sink, bound = Sink(500, 503, 500, 200), bound_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
    target = Starlette(routes=[Route("/", sink.take, methods=["POST"])])
    async with served(target, bound), serving_a2a(scripted("Hello."), allow_private_push=True) as caller:
        answer = await pushed(caller, url)
        async with asyncio.timeout(60):
            while len(sink.got) < 6:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    found = [state.removeprefix("TASK_STATE_").lower() for state, _ in sink.got]
    assert found == ["submitted"] * 4 + ["working", "completed"]
    assert {token for _, token in sink.got} == {"t0ken"}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://localhost:9/",
        "http://[::1]/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://169.254.169.254/latest",
        "http://[::ffff:127.0.0.1]/",
        "file:///etc/passwd",
        "http://10.0.0.1/",
    ],
)
async def test_no_notification_goes_to_a_private_address(url: str) -> None:
    """A target inside is refused when it is given."""
    async with serving_a2a(scripted("Hello.")) as caller:
        answer = await pushed(caller, url)
    assert answer["error"]["code"] == -32602


async def test_who_asks_is_the_user_of_their_tasks() -> None:
    """`auth` names the user; another one finds neither task nor context, and a request without a token is refused."""
    seen: list[str] = []

    async def auth(scope: Any) -> Principal | None:
        token = dict(scope["headers"]).get(b"authorization", b"").decode()
        return Principal(token.removeprefix("Bearer ")) if token else None

    def answer(request: Any) -> str:
        seen.append(str(len(request.contents)))
        return "ok"

    async with serving_a2a(LlmAgent(name="desk", model=FunctionModel(answer)), auth=auth) as caller:
        refused = await caller.http.post(f"{caller.url}/", json={})
        card = await caller.http.get(f"{caller.url}/.well-known/agent-card.json")
        ann, bob = {"Authorization": "Bearer ann"}, {"Authorization": "Bearer bob"}
        first = (await caller.rpc("SendMessage", _message("Hi"), **ann))["result"]["task"]
        other = await caller.rpc("GetTask", {"id": first["id"]}, **bob)
        own = await caller.rpc("ListTasks", None, **ann)
        same_context = {"message": {**_message("Hi")["message"], "contextId": first["contextId"]}}
        await caller.rpc("SendMessage", same_context, **bob)
        extended = await caller.rpc("GetExtendedAgentCard", None, **ann)
    assert card.json()["capabilities"]["extendedAgentCard"] is True
    assert extended["result"]["name"] == "desk"
    assert (refused.status_code, card.status_code) == (401, 200)
    assert other["error"]["code"] == -32001
    assert [task["id"] for task in own["result"]["tasks"]] == [first["id"]]
    assert seen == ["1", "1"]


async def test_the_card_has_an_etag_and_says_what_is_there() -> None:
    """Skills for the agent, its tools and its sub-agents; both bindings in both versions; 304 for what is known."""

    def clock(city: str) -> str:
        """The time in a city."""
        return city

    tool = FunctionTool(clock)
    tool.custom_metadata = {"examples": ["What time is it in Rome?"]}
    helper = LlmAgent(name="helper", description="Helps.")
    agent = LlmAgent(
        name="desk", description="Tells the time.", tools=[tool], sub_agents=[helper], model=ScriptedModel([])
    )
    async with serving_a2a(agent) as caller:
        address = f"{caller.url}/.well-known/agent-card.json"
        first = await caller.http.get(address)
        again = await caller.http.get(address, headers={"If-None-Match": first.headers["etag"]})
    card = first.json()
    assert again.status_code == 304
    assert [(s["name"], s["description"]) for s in card["skills"]] == [
        ("desk", "Tells the time."),
        ("clock", "The time in a city."),
        ("helper", "Helps."),
    ]
    assert card["skills"][1]["examples"] == ["What time is it in Rome?"]
    spoken = {(each["protocolBinding"], each["protocolVersion"]) for each in card["supportedInterfaces"]}
    assert spoken == {(b, v) for b in ("JSONRPC", "HTTP+JSON") for v in ("1.0", "0.3")}
    assert card["capabilities"]["streaming"] is card["capabilities"]["pushNotifications"] is True


async def test_an_agent_is_mounted_in_an_application() -> None:
    """Beside other routes, below a path; its lifespan is the application's."""

    async def hello(request: Any) -> Response:
        return Response("hello")

    bound = bound_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app = Starlette(routes=[Route("/hello", hello)])
    mount_a2a(app, scripted("Hello."), "/agents/desk", port=port)
    base = f"http://127.0.0.1:{port}"
    async with served(app, bound), httpx.AsyncClient(trust_env=False) as http:
        told = await http.get(f"{base}/hello")
        found = await http.get(f"{base}/agents/desk/.well-known/agent-card.json")
        assert found.status_code == 200, (found.status_code, found.text)
        card = found.json()
        url = card["supportedInterfaces"][0]["url"].replace("localhost", "127.0.0.1")
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": _message("Hi")}
        response = await http.post(url, json=body, headers={"A2A-Version": "1.0"})
        assert response.status_code == 200, (url, response.status_code, response.text)
        answer = response.json()
    assert told.text == "hello"
    assert url == f"{base}/agents/desk/"
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
