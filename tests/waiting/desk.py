"""A desk where calls wait: a conversation that survives restarts, tools that leave traces, strict models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ClassVar

from google.genai import types

from flowloom import (
    BaseAgent,
    BaseLlm,
    Event,
    FunctionTool,
    InMemorySessionService,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    Runner,
    Session,
    ToolContext,
)
from flowloom.runner.pending import PendingCall, answers, pending_calls
from flowloom.testing.scripted import response_of, snapshot

WHERE: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}

HIDDEN = ("adk_request_confirmation", "adk_request_credential")


LONG = ("order", "adk_request_input", "long", "gated_long")
"""Tools that may have no result yet when a model is asked; adapters say so in its place."""


def accepted(contents: Sequence[types.Content]) -> None:
    """Assert what a strict provider asks for: each turn's calls are followed by their results, all, and only those."""
    assert contents, "nothing to answer"
    assert contents[0].role == "user", "the user begins"
    open_calls: Counter[str | None] = Counter()
    waiting: set[str | None] = set()
    for content in contents:
        parts = content.parts or []
        assert parts, "an empty content"
        calls = [part.function_call for part in parts if part.function_call is not None]
        results = [part.function_response for part in parts if part.function_response is not None]
        assert not any(each.name in HIDDEN for each in (*calls, *results)), "what is not the model's to see"
        given = Counter(each.id for each in results)
        assert given <= open_calls, (open_calls, given)
        assert not (open_calls - given).keys() - waiting, (open_calls, given)
        assert content.role == ("model" if calls else content.role)
        assert content.role == ("user" if results else content.role)
        open_calls = Counter(each.id for each in calls)
        waiting = {each.id for each in calls if each.name in LONG}
    assert not open_calls.keys() - waiting, open_calls


class ByTurn(BaseLlm):
    """Gives the answer whose turn it is, by how often it has spoken in the history, which it checks; the last one
    stands for all further ones. An answer may be a function of the request."""

    keeps_call_ids: ClassVar[bool] = True

    answers: list[Any] = []  # noqa: RUF012 - pydantic copies it
    requests: list[LlmRequest] = []  # noqa: RUF012

    def __init__(self, *given: Any) -> None:
        super().__init__(model="by-turn")
        self.answers = list(given)
        self.requests = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(snapshot(llm_request))
        accepted(llm_request.contents)
        turn = sum(content.role == "model" for content in llm_request.contents)
        answer = self.answers[min(turn, len(self.answers) - 1)]
        yield response_of(answer(llm_request) if callable(answer) else answer)


def by_turn(name: str, *given: Any, **fields: Any) -> LlmAgent:
    """An agent that answers by its turn."""
    return LlmAgent(name=name, model=ByTurn(*given), **fields)


class World:
    """What tools have done; it does not forget at a restart."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def pay(self, amount: int, to: str = "bob") -> dict[str, Any]:
        """Pay somebody."""
        self.ran.append(f"pay {amount} {to}")
        return {"paid": amount, "to": to}

    def look(self, what: str) -> dict[str, str]:
        """Look at something."""
        self.ran.append(f"look {what}")
        return {"seen": what}

    def order(self, what: str) -> None:
        """Order something, which takes days."""
        self.ran.append(f"order {what}")

    def ship(self, what: str) -> dict[str, str]:
        """Send something, which takes days."""
        self.ran.append(f"ship {what}")
        return {"status": "pending"}

    def book(self, what: str, tool_context: ToolContext) -> dict[str, Any]:
        """Book what a person specifies."""
        when = tool_context.request_input(f"When do you need the {what}?")
        self.ran.append(f"book {what} {when}")
        return {"booked": what, "when": when}

    @property
    def paying(self) -> FunctionTool:
        return FunctionTool(self.pay, require_confirmation=True)

    @property
    def ordering(self) -> LongRunningFunctionTool:
        return LongRunningFunctionTool(self.order)

    @property
    def shipping(self) -> LongRunningFunctionTool:
        return LongRunningFunctionTool(self.ship)


class Desk:
    """A conversation with the agents that `root` builds; after `restart` another process goes on with it."""

    def __init__(self, root: Callable[[], BaseAgent], **options: Any) -> None:
        self._root, self._options = root, options
        self.service = InMemorySessionService()
        self.runner = self.another_runner()

    def another_runner(self) -> Runner:
        """A runner with agents of its own over the same store."""
        return Runner(
            app_name="app",
            agent=self._root(),
            session_service=self.service,
            auto_create_session=True,
            **self._options,
        )

    async def restart(self) -> None:
        """Let another process take over: all that is left is JSON."""
        text = json.dumps((await self.session()).to_wire())
        self.service = InMemorySessionService()
        self.service.adopt(Session.model_validate(json.loads(text)))
        self.runner = self.another_runner()

    async def say(self, message: Any = None, **options: Any) -> list[Event]:
        stream = self.runner.run_async(**WHERE, new_message=message, **options)
        return [event async for event in stream]

    async def answer(self, *parts: types.Part) -> list[Event]:
        """One turn that gives answers."""
        return await self.say(answers(*parts))

    async def session(self) -> Session:
        found = await self.service.get_session(app_name="app", **WHERE)
        assert found is not None
        return found

    async def events(self) -> list[Event]:
        return (await self.session()).events

    async def waiting(self) -> list[PendingCall]:
        """What waits, as the log tells."""
        return pending_calls(await self.events())

    async def only(self, name: str | None = None) -> PendingCall:
        """The one call that waits, of those of a tool if it is named."""
        (found,) = [each for each in await self.waiting() if name is None or each.name == name]
        return found


def results_of(events: Sequence[Event], name: str) -> list[dict[str, Any]]:
    """What a tool has answered, in order; what only says that it waits left out."""
    found = [answer for event in events for answer in event.get_function_responses() if answer.name == name]
    return [answer.response or {} for answer in found if "waits" not in str((answer.response or {}).get("error"))]


def last_text(events: Sequence[Event]) -> str:
    """What was said last."""
    return next((event.text for event in reversed(events) if event.text and event.content is not None), "")


def model_of(agent: BaseAgent, name: str | None = None) -> ByTurn:
    """The model of an agent in a tree."""
    found = agent if name is None else agent.find_agent(name)
    assert isinstance(found, LlmAgent)
    assert isinstance(found.model, ByTurn)
    return found.model


def seen_results(request: LlmRequest) -> list[dict[str, Any]]:
    """The tool results that a model was shown."""
    parts = [part for content in request.contents for part in content.parts or ()]
    return [part.function_response.response or {} for part in parts if part.function_response is not None]


def seen_text(request: LlmRequest) -> str:
    """All the words that a model was shown."""
    return "\n".join(part.text or "" for content in request.contents for part in content.parts or ())
