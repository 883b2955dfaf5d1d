"""What a run waits for is asked of the person at the client, in either era, or told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp_types import ElicitResult
from serving_kit import ERAS, served, words

from flowloom import InMemoryRunner, LlmAgent, McpToolset, ToolContext
from flowloom.asgi import Principal
from flowloom.auth import AuthConfig, AuthCredential, AuthCredentialTypes, AuthScheme, OAuth2Auth, OAuthFlow, OAuthFlows
from flowloom.protocols.mcp import StreamableHTTPConnectionParams, to_mcp_server
from flowloom.testing import ScriptedModel, call
from flowloom.tools import FunctionTool, LongRunningFunctionTool

Answer = Callable[[Any], dict[str, Any] | str]


class Person:
    """Answers forms and pages as it was told: with the content of a form, or with an action alone."""

    def __init__(self, *answers: dict[str, Any] | str) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return ElicitResult(action=answer)  # type: ignore[arg-type]
        return ElicitResult(action="accept", content=answer)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def order(tool_context: ToolContext) -> str:
    """Order."""
    size = tool_context.request_input("Which size?", response_schema={"type": "string", "enum": ["S", "M"]})
    color = tool_context.request_input("Which color?")
    return f"{size} {color}"


async def called(tool: Any, mode: str, person: Person | None, args: dict[str, Any] | None = None) -> Any:
    """What a call of a tool gives to a client at which `person` sits, over HTTP."""
    async with served(tools=[tool]) as url, Client(url, mode=mode, elicitation_callback=person) as client:
        name = getattr(tool, "name", None) or tool.__name__
        return await client.call_tool(name, args or {})


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("answer", "told", "is_error"),
    [
        ({"confirmed": True}, "paid 5", False),
        ({"confirmed": False}, "A person rejected the call of `pay`. It was not run.", True),
        ("decline", "A person rejected the call of `pay`. It was not run.", True),
    ],
)
async def test_a_person_decides_about_a_call(mode: str, answer: Any, told: str, is_error: bool) -> None:
    """They read which call it is; it runs if they say so, and a no is the result of the call."""
    person = Person(answer)
    result = await called(FunctionTool(pay, require_confirmation=True), mode, person, {"amount": 5})
    assert (words(result), result.is_error) == (told, is_error)
    (asked,) = person.asked
    assert "`pay`" in asked.message
    assert '"amount": 5' in asked.message
    assert asked.requested_schema["properties"]["confirmed"]["type"] == "boolean"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_person_gives_input(mode: str) -> None:
    """Each question in its turn, in the form that its schema asks for."""
    person = Person({"value": "M"}, {"value": "red"})
    assert words(await called(order, mode, person)) == "M red"
    assert [asked.message for asked in person.asked] == ["Which size?", "Which color?"]
    assert person.asked[0].requested_schema["properties"]["value"]["enum"] == ["S", "M"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_text_that_fits_is_no_json(mode: str) -> None:
    """A field that takes JSON takes a text as it is, where one is asked for."""

    async def number(tool_context: ToolContext) -> str:
        """Number."""
        return f"{tool_context.request_input('Which?', response_schema={'type': ['string', 'null']})!r}"

    result = await called(number, mode, Person({"value": "42"}))
    assert (words(result), result.is_error) == ("'42'", False)


@pytest.mark.parametrize("mode", ERAS)
async def test_an_object_is_a_form(mode: str) -> None:
    """A schema of simple fields is the form as it is; one that is not flat is asked for as JSON."""
    flat = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    deep = {"type": "object", "properties": {"place": {"type": "object"}}, "required": ["place"]}

    def sign(tool_context: ToolContext) -> dict[str, Any]:
        """Sign."""
        first = tool_context.request_input("Who?", response_schema=flat)
        return {"who": first, "where": tool_context.request_input("Where?", response_schema=deep)}

    person = Person({"name": "Ann", "age": 7}, {"value": '{"place": {"city": "Lisbon"}}'})
    result = await called(sign, mode, person)
    assert result.structured_content == {
        "who": {"name": "Ann", "age": 7},
        "where": {"place": {"city": "Lisbon"}},
    }


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_without_an_answer_the_result_says_what_waits(mode: str, action: str) -> None:
    """It is an error with the question in it, and what became of it."""
    result = await called(order, mode, Person(action))
    assert result.is_error
    assert "Which size?" in words(result)
    assert ("declined" if action == "decline" else "cancelled") in words(result)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_cannot_ask_is_told_what_waits(mode: str) -> None:
    """Nothing waits in silence, and no result is empty."""
    result = await called(FunctionTool(pay, require_confirmation=True), mode, None, {"amount": 5})
    assert result.is_error
    assert "confirmation of `pay`" in words(result)


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agents_run_goes_on_with_the_answer(mode: str) -> None:
    """The question of a tool of an agent is asked, and the agent's answer is the result."""
    tools = [FunctionTool(pay, require_confirmation=True), order]
    model = ScriptedModel([[call("pay", amount=3), call("order")], "All done."])
    agent = LlmAgent(name="desk", model=model, tools=tools)
    answers = {"Approve": {"confirmed": True}, "Which size?": {"value": "S"}, "Which color?": {"value": "blue"}}

    async def person(context: Any, params: Any) -> ElicitResult:
        content = next(value for start, value in answers.items() if params.message.startswith(start))
        return ElicitResult(action="accept", content=content)

    async with served(agent) as url, Client(url, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("desk", {"request": "Go."})
    assert (words(result), result.is_error) == ("All done.", False)
    given = {answer.name: answer.response for event in model.requests[-1].contents for answer in _responses(event)}
    assert given == {"pay": {"result": "paid 3"}, "order": {"result": "S blue"}}


def _responses(content: Any) -> list[Any]:
    return [part.function_response for part in content.parts if part.function_response]


async def test_a_call_that_is_answered_later_says_so() -> None:
    """A long-running tool without a first report waits for the program, which no person can answer for."""

    def ship() -> None:
        """Ship."""

    result = await called(LongRunningFunctionTool(ship), "auto", Person())
    assert result.is_error
    assert "tool of `ship`" in words(result)


SCHEME = AuthScheme(
    type="oauth2",
    flows=OAuthFlows(
        authorization_code=OAuthFlow(authorization_url="https://login.example/go", token_url="https://login.example/t")
    ),
)


def _gate(tool_context: ToolContext) -> dict[str, Any]:
    """Open the gate."""
    oauth2 = OAuth2Auth(client_id="me", client_secret="secret-of-the-client-1", redirect_uri="https://app.example/back")
    raw = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=oauth2)
    config = AuthConfig(auth_scheme=SCHEME, raw_auth_credential=raw, credential_key="k")
    key = tool_context.get_invocation_context().run.keyring.given("k", tool_context.function_call_id)
    if key is None:
        tool_context.request_credential(config)
        return {"status": "waits"}
    exchanged = key.answer.response.get("exchangedAuthCredential") or {}
    return {"back": (exchanged.get("oauth2") or {}).get("authResponseUri")}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_credential_is_asked_for_by_its_page(mode: str) -> None:
    """The person is sent to the page, and then asked where it sent them; the client's secret stays here."""
    person = Person("accept", {"address": "https://app.example/back?code=c1"})
    result = await called(FunctionTool(_gate, name="gate"), mode, person)
    assert result.structured_content == {"back": "https://app.example/back?code=c1"}
    page, form = person.asked
    assert page.url.startswith("https://login.example/go?")
    assert "secret-of-the-client-1" not in f"{page}{form}"


@pytest.mark.parametrize("mode", ERAS)
async def test_who_gives_no_access_is_heard(mode: str) -> None:
    """The tool is told, and the call has a result."""
    result = await called(FunctionTool(_gate, name="gate"), mode, Person("decline"))
    assert result.structured_content == {"back": None}


async def test_questions_travel_through_two_servers() -> None:
    """What a tool behind an `McpToolset` asks, a client of the server in front of it is asked."""
    async with served(tools=[order]) as inner:
        toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(inner, timeout=20))
        person = Person({"value": "M"}, {"value": "red"})
        async with served(tools=[toolset]) as url, Client(url, elicitation_callback=person) as client:
            (tool,) = (await client.list_tools()).tools
            result = await client.call_tool("order", {})
    assert (tool.name, words(result)) == ("order", "M red")


async def test_a_no_travels_through_two_servers() -> None:
    """It is the answer of the person for the server behind, too."""
    async with served(tools=[order]) as inner:
        toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(inner, timeout=20))
        async with served(tools=[toolset]) as url, Client(url, elicitation_callback=Person("decline")) as client:
            result = await client.call_tool("order", {})
    assert result.is_error
    assert "its answer was declined" in words(result)


async def test_a_question_of_another_user_is_not_answered() -> None:
    """Whoever takes another's question along reads nothing, and nothing runs."""
    ran: list[int] = []

    def spend(amount: int) -> str:
        """Spend."""
        ran.append(amount)
        return "spent"

    async def auth(scope: Any) -> Principal | None:
        named = dict(scope["headers"]).get(b"x-user")
        return None if named is None else Principal(named.decode())

    tools = [FunctionTool(spend, require_confirmation=True)]
    async with served(tools=tools, auth=auth) as url, httpx2.AsyncClient() as http:

        async def post(user: str, **more: Any) -> Any:
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            }
            params = {"name": "spend", "arguments": {"amount": 1}, "_meta": meta, **more}
            headers = {
                "mcp-protocol-version": "2026-07-28",
                "accept": "application/json, text/event-stream",
                "mcp-method": "tools/call",
                "mcp-name": "spend",
                "x-user": user,
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            return (await http.post(url, json=body, headers=headers)).text

        told = await post("ann")
        asked = json.loads(told[told.index("{") :].strip())["result"]
        key = next(iter(asked["inputRequests"]))
        answer = {"inputResponses": {key: {"action": "accept", "content": {"confirmed": True}}}}
        stolen = await post("bob", requestState=asked["requestState"], **answer)
        assert ran == []
        assert "error" in stolen
        own = await post("ann", requestState=asked["requestState"], **answer)
        assert "spent" in own
        again = await post("ann", requestState=asked["requestState"], **answer)
        assert "answered already" in again
    assert ran == [1]


async def test_a_cancelled_question_leaves_nothing_running() -> None:
    """A client that goes away while a person is asked ends the call."""
    asked = asyncio.Event()

    async def person(context: Any, params: Any) -> ElicitResult:
        asked.set()
        await asyncio.sleep(60)
        raise AssertionError

    runner = InMemoryRunner(LlmAgent(name="desk", model=ScriptedModel([])), app_name="desk")
    server = to_mcp_server(tools=[order], runner=runner)
    async with Client(server, mode="legacy", elicitation_callback=person) as client:
        waiting = asyncio.create_task(client.call_tool("order", {}))
        await asyncio.wait_for(asked.wait(), 60)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert waiting.cancelled()
