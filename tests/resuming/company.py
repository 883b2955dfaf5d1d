"""A tree of agents of every kind, whose models answer by what they see, and so go on after a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from google.genai import types
from pydantic import Field

from flowloom import (
    BaseAgent,
    BaseLlm,
    Event,
    FunctionTool,
    InMemorySessionService,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    Runner,
    SequentialAgent,
    Session,
    ToolContext,
)
from flowloom.testing import call
from flowloom.testing.scripted import response_of

WHERE: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}


class ByTurn(BaseLlm):
    """Gives the answer whose turn it is: as many as this agent has given before are in the history."""

    answers: list[Any] = Field(default_factory=list)

    def __init__(self, *answers: Any) -> None:
        super().__init__(model="by-turn")
        self.answers = list(answers)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        turn = sum(content.role == "model" for content in llm_request.contents)
        yield response_of(self.answers[min(turn, len(self.answers) - 1)])


def legal(events: Iterable[Event]) -> None:
    """Assert that every call has exactly one result, and every result a call."""
    calls = Counter(call.id for event in events for call in event.get_function_calls())
    results = Counter(answer.id for event in events for answer in event.get_function_responses())
    assert calls == results, (calls - results, results - calls)


def per_branch(events: Iterable[Event]) -> dict[str, list[str]]:
    """What happened on each branch, ids left out; what failed on the way is told by nobody."""
    told: dict[str, list[str]] = {}
    for event in events:
        for part in (event.content.parts if event.content is not None else None) or ():
            said: Any = part.text
            if part.function_call is not None:
                said = (part.function_call.name, part.function_call.args)
            elif part.function_response is not None:
                said = (part.function_response.name, part.function_response.response)
            told.setdefault(event.branch or "", []).append(f"{event.author}: {said}")
    return told


class Company:
    """The tree, and what its tools have done."""

    def __init__(self, *, idempotent: bool = False) -> None:
        self.ran: list[str] = []
        self.idempotent = idempotent

    def search(self, topic: str) -> dict[str, str]:
        """Look something up."""
        self.ran.append(f"search {topic}")
        return {"found": f"facts about {topic}"}

    def book(self, what: str, tool_context: ToolContext) -> dict[str, str]:
        """Book something; twice is not the same as once."""
        self.ran.append(f"book {what}")
        tool_context.state[f"booked:{what}"] = True
        return {"booked": what}

    def good_enough(self, tool_context: ToolContext) -> dict[str, bool]:
        """End the rounds."""
        self.ran.append("good_enough")
        tool_context.actions.escalate = True
        return {"done": True}

    def root(self) -> BaseAgent:
        book = FunctionTool(self.book, idempotent=self.idempotent)
        researcher = LlmAgent(
            name="researcher",
            model=ByTurn([call("search", topic="rome"), call("search", topic="food")], "Rome and food."),
            tools=[self.search],
            output_key="research",
        )
        branches = ParallelAgent(
            name="both",
            sub_agents=[
                LlmAgent(
                    name="hotel",
                    model=ByTurn(call("book", what="hotel"), "Hotel booked."),
                    tools=[book],
                    output_key="hotel",
                ),
                SequentialAgent(
                    name="way",
                    sub_agents=[
                        LlmAgent(
                            name="train", model=ByTurn(call("search", topic="trains"), "By train."), tools=[self.search]
                        ),
                        LlmAgent(
                            name="seat",
                            model=ByTurn(call("book", what="seat"), "Seat 4."),
                            tools=[book],
                            output_key="seat",
                        ),
                    ],
                ),
            ],
        )
        rounds = LoopAgent(
            name="rounds",
            max_iterations=5,
            sub_agents=[
                LlmAgent(name="writer", model=ByTurn("Draft 1.", "Draft 2.", "Draft 3."), output_key="draft"),
                LlmAgent(
                    name="critic",
                    model=ByTurn("Weak.", call("good_enough"), "Good."),
                    tools=[self.good_enough],
                    output_key="verdict",
                ),
            ],
        )
        clerk = LlmAgent(
            name="clerk",
            description="Writes letters.",
            model=ByTurn(call("search", topic="address"), "Letter sent."),
            tools=[self.search],
            output_key="letter",
            after_agent_callback=count("clerk_done"),
        )
        desk = LlmAgent(
            name="desk",
            model=ByTurn(call("transfer_to_agent", agent_name="clerk"), "unreachable"),
            sub_agents=[clerk],
            before_agent_callback=count("desk_begun"),
            after_agent_callback=count("desk_done"),
        )
        return SequentialAgent(name="company", sub_agents=[researcher, branches, rounds, desk])


def count(key: str) -> Any:
    """A callback that counts in the state how often it is asked."""

    def counted(callback_context: Any) -> None:
        callback_context.state[key] = callback_context.state.get(key, 0) + 1

    return counted


def runner_of(root: BaseAgent, service: Any) -> Runner:
    return Runner(app_name="app", agent=root, session_service=service, auto_create_session=True)


async def finish(runner: Runner, **options: Any) -> list[Event]:
    return [event async for event in runner.run_async(**WHERE, **options)]


async def log_of(runner: Runner) -> Session:
    found = await runner.session_service.get_session(app_name="app", **WHERE)
    assert found is not None
    return found


def as_it_was(events: Sequence[Event]) -> InMemorySessionService:
    """A store that holds the beginning of a log, as a process that died would have left it."""
    state: dict[str, Any] = {}
    for event in events:
        state.update(event.actions.state_delta)
    service = InMemorySessionService()
    service.adopt(Session(id="s1", app_name="app", user_id="ann", events=list(events), state=state))
    return service


def said(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])
