"""What a tool returns, what a model gives it and what it writes is JSON before the request or the log sees it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import math
from collections.abc import AsyncIterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, event, named_call, requests_of, said, story
from pydantic import BaseModel, field_serializer

from flowloom import (
    BaseAgent,
    BaseSessionService,
    Context,
    Event,
    Flow,
    InMemorySessionService,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    PostgresSessionService,
    Runner,
    SqliteSessionService,
    ToolContext,
)
from flowloom.errors import JsonDataError, ToolResultError
from flowloom.testing import ScriptedModel, call


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    if request.param == "memory":
        service: BaseSessionService = InMemorySessionService()
    elif request.param == "sqlite":
        service = SqliteSessionService(tmp_path / "a.db")
    else:
        service = PostgresSessionService(request.getfixturevalue("postgres_dsn"))
    yield service
    await service.close()


class City(BaseModel):
    name: str
    since: datetime.date


class Unwilling(BaseModel):
    name: str = "x"

    @field_serializer("name")
    def refuse(self, value: str) -> str:
        raise RuntimeError("no name for you")


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Colour(enum.Enum):
    RED = "red"


class Nameless:
    pass


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def nested(depth: int) -> Any:
    return reduce(lambda inner, _: [inner], range(depth), 1)


def circular() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["me"] = made
    return made


KEPT: dict[str, Any] = {
    "nan": math.nan,
    "infinity": [math.inf, -math.inf],
    "half": "a\ud800b",
    "emoji": "\U0001f600",
    "nul": "a\x00b",
    "bytes": b"\xff\x00",
    "date": datetime.date(2024, 2, 29),
    "decimal": decimal.Decimal("1.10"),
    "model": City(name="Rome", since=datetime.date(1, 1, 1)),
    "point": Point(math.nan, 2.0),
    "set": {1},
    "colour": Colour.RED,
    "huge": 10**4299,
    "zero": -0.0,
    "deep": nested(98),
    "object": Nameless(),
    1: "a number as a key",
}
REFUSED: list[tuple[Any, str]] = [
    (circular(), "holds itself"),
    (Unspeakable(), "no words"),
    (Unwilling(), "no name for you"),
    ({"\ud800": 1}, "surrogate"),
    (nested(300), "nested deeper than 100"),
    (nested(150), "nested deeper than 100"),
    (10**4300, "4300 digits"),
    (Nameless(), "Nameless"),
    ([{"at": lambda: 1}, Nameless()], "function"),
]


def results(events: list[Event]) -> list[dict[str, Any] | None]:
    return [answer.response for each in events for answer in each.get_function_responses()]


async def test_what_the_model_saw_is_what_the_log_holds(store: BaseSessionService) -> None:
    """A result is made JSON once: the event, the request and the reloaded session have the same, bit by bit."""

    def odd() -> Any:
        """Give it all."""
        return KEPT

    root = agent("root", call("odd"), "done", tools=[odd])
    runner = Runner(agent=root, app_name="app", session_service=store, auto_create_session=True)
    events = await Chat(runner=runner).say("go")  # type: ignore[arg-type]
    [shown] = results(events)
    [asked] = [
        part.function_response.response
        for content in requests_of(root)[1].contents
        for part in content.parts or ()
        if part.function_response is not None
    ]
    await store.flush()
    session = await store.get_session(app_name="app", user_id="ann", session_id="s1")
    assert session is not None
    [kept] = results(session.events)
    texts = {json.dumps(each, allow_nan=False) for each in (shown, asked, kept)}
    assert len(texts) == 1
    assert kept is not None
    assert (kept["nan"], kept["infinity"], kept["half"]) == ("NaN", ["Infinity", "-Infinity"], "a\ufffdb")
    assert math.copysign(1, kept["zero"]) == -1


async def test_a_result_that_json_cannot_hold_is_the_error_of_its_call(store: BaseSessionService) -> None:
    """Each such result is an error result that says why; the siblings finish and keep theirs, and the run goes on."""
    finished: list[int] = []

    def odd(number: int) -> Any:
        """Give something odd."""
        return REFUSED[number][0]

    async def slow() -> int:
        """Finish last."""
        await asyncio.sleep(0.01)
        finished.append(1)
        return 7

    calls = [*(named_call(f"c{n}", "odd", number=n) for n in range(len(REFUSED))), named_call("last", "slow")]
    root = agent("root", calls, "done", tools=[odd, slow])
    runner = Runner(agent=root, app_name="app", session_service=store, auto_create_session=True)
    events = await Chat(runner=runner).say("go")  # type: ignore[arg-type]
    *errors, good = results(events)
    assert good == {"result": 7}
    assert finished == [1]
    for error, (_, why) in zip(errors, REFUSED, strict=True):
        assert error is not None
        assert why in error["error"]
        assert "`odd`" in error["error"]
    assert events[-1].text == "done"


async def test_a_tool_that_raises_what_json_cannot_hold_does_so_by_its_policy() -> None:
    """With `tool_errors="raise"` such a result ends the run, with a typed error."""

    def odd() -> Any:
        """Give something odd."""
        return circular()

    with pytest.raises(ToolResultError, match="holds itself") as caught:
        await Chat(agent("root", call("odd"), tools=[odd], tool_errors="raise")).say("go")
    assert isinstance(caught.value.__cause__, JsonDataError)


async def test_what_callbacks_put_in_the_place_of_a_result_is_made_json_too() -> None:
    """The answer of an after-tool callback is what is kept; one that JSON cannot hold is the call's error."""

    def odd() -> Any:
        """Give something odd."""
        return circular()

    def mend(**_: Any) -> Any:
        return {"when": datetime.date(2024, 1, 1)}

    events = await Chat(agent("root", call("odd"), "done", tools=[odd], after_tool_callback=mend)).say("go")
    assert results(events) == [{"when": "2024-01-01"}]
    broken = agent("root", call("odd"), "done", tools=[odd], before_tool_callback=lambda **_: circular())
    [error] = results(await Chat(broken).say("go"))
    assert error is not None
    assert "holds itself" in error["error"]


async def test_a_long_running_tools_report_obeys_the_same_law() -> None:
    def begin() -> Any:
        """Begin."""
        return {"job": Nameless()}

    [error] = results(
        await Chat(agent("root", call("begin"), "done", tools=[LongRunningFunctionTool(begin)])).say("go")
    )
    assert error is not None
    assert "Nameless" in error["error"]


# -- state and questions ---------------------------------------------------------------------------


async def test_state_that_json_cannot_hold_is_the_error_of_the_line_that_writes_it(store: BaseSessionService) -> None:
    """The error names the key; siblings keep their results and their writes, and the store holds those."""

    def bad(tool_context: ToolContext) -> str:
        """Write."""
        tool_context.state["before"] = 1
        tool_context.state["loop"] = circular()
        return "never"

    def good(tool_context: ToolContext) -> str:
        """Write."""
        tool_context.state["since"] = datetime.date(2024, 1, 1)
        tool_context.state["rate"] = math.nan
        tool_context.state["temp:client"] = Nameless()
        return "fine"

    root = agent("root", [named_call("a", "bad"), named_call("b", "good")], "done", tools=[bad, good])
    runner = Runner(agent=root, app_name="app", session_service=store, auto_create_session=True)
    events = await Chat(runner=runner).say("go")  # type: ignore[arg-type]
    error, fine = results(events)
    assert error is not None
    assert "`loop`" in error["error"]
    assert fine == {"result": "fine"}
    session = await store.get_session(app_name="app", user_id="ann", session_id="s1")
    assert session is not None
    assert session.state == {"before": 1, "since": "2024-01-01", "rate": "NaN"}


async def test_state_that_went_bad_in_place_is_left_out_and_told() -> None:
    """A value that was read and then changed into what JSON cannot hold: the call's error names the key."""

    def bad(tool_context: ToolContext) -> str:
        """Write."""
        tool_context.state["items"] = []
        tool_context.state["items"].append(Nameless())
        tool_context.actions.state_delta["direct"] = circular()
        return "never"

    chat = Chat(agent("root", call("bad"), "done", tools=[bad]))
    [error] = results(await chat.say("go"))
    assert error is not None
    assert "`items`" in error["error"]
    assert await chat.state() == {}


@pytest.mark.parametrize("where", ["before_agent_callback", "before_model_callback", "after_model_callback"])
async def test_state_of_callbacks_obeys_the_same_law(where: str) -> None:
    def write(callback_context: ToolContext, **_: Any) -> None:
        callback_context.state["loop"] = circular()

    with pytest.raises(JsonDataError, match="`loop`"):
        await Chat(agent("root", "done", **{where: write})).say("go")


def emitted(ctx: InvocationContext, request: LlmRequest) -> Event:
    return event("root", named_call("a", "look", found=City(name="Rome", since=datetime.date(2024, 1, 1))))


def answered(callback_context: Context) -> types.Content:
    return said(named_call("a", "look", found=City(name="Rome", since=datetime.date(2024, 1, 1))))


@pytest.mark.parametrize(
    "fields",
    [{"flow": Flow().with_processor(emitted, before="contents")}, {"before_agent_callback": answered}],
    ids=["processor", "callback"],
)
async def test_content_of_processors_and_callbacks_obeys_the_same_law(fields: Any) -> None:
    """What they put into an event is in its JSON form when the event comes."""
    first = (await Chat(agent("root", "done", **fields)).say("go"))[0]
    assert first.get_function_calls()[0].args == {"found": {"name": "Rome", "since": "2024-01-01"}}


async def test_what_a_caller_writes_obeys_the_same_law() -> None:
    chat = Chat(agent("root", "done"))
    with pytest.raises(JsonDataError, match="`loop`"):
        await chat.say("go", state_delta={"loop": circular()})
    assert await chat.state() == {}


async def test_what_a_person_is_asked_obeys_the_same_law() -> None:
    """A payload that JSON cannot hold is the error of the call that asks, and nothing waits."""

    def ask(tool_context: ToolContext) -> str:
        """Ask."""
        tool_context.request_confirmation(hint="?", payload=circular())
        return "never"

    def want(tool_context: ToolContext) -> Any:
        """Ask."""
        return tool_context.request_input("?", payload={"when": circular()})

    root = agent("root", [named_call("a", "ask"), named_call("b", "want")], "done", tools=[ask, want])
    events = await Chat(root).say("go")
    assert ["holds itself" in (each or {})["error"] for each in results(events)] == [True, True]
    assert events[-1].text == "done"


async def test_events_of_custom_agents_obey_the_same_law(store: BaseSessionService) -> None:
    """What JSON has a form for is kept in it, in every store; what it has none for is a typed error."""

    class Own(BaseAgent):
        given: Any = None

        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
            yield event("own", "hi", custom_metadata={"at": self.given})

    async def told(given: Any) -> Any:
        runner = Runner(
            agent=Own(name="own", given=given), app_name="app", session_service=store, auto_create_session=True
        )
        [made] = await Chat(runner=runner).say("go")  # type: ignore[arg-type]
        return made.custom_metadata

    assert await told(datetime.date(2024, 1, 1)) == {"at": "2024-01-01"}
    with pytest.raises(JsonDataError, match="custom_metadata"):
        await told(circular())


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, STREAMED], ids=["unstreamed", "streamed"])
@pytest.mark.parametrize("depth", [101, 500, 900, 20_000])
async def test_arguments_that_are_nested_too_deep_are_the_error_of_their_call(
    config: Any, depth: int, tmp_path: Path
) -> None:
    """The call is not made, its error says why, siblings finish, and the log can be read again."""
    ran: list[Any] = []

    def take(data: Any = None) -> str:
        """Take."""
        ran.append(data)
        return "fine"

    calls = [named_call("a", "take", data=nested(depth)), call("take", data=nested(depth)), named_call("c", "take")]
    root = LlmAgent(name="root", model=ScriptedModel([calls, "done"], stream_chunks=True), tools=[take])
    store = SqliteSessionService(tmp_path / "a.db")
    runner = Runner(agent=root, app_name="app", session_service=store, auto_create_session=True)
    chat = Chat(runner=runner, config=config)  # type: ignore[arg-type]
    events = await chat.say("go")
    *errors, good = results(events)
    assert good == {"result": "fine"}
    assert ["nested deeper than 100" in (each or {})["error"] for each in errors] == [True, True]
    assert ran == [None]
    assert events[-1].text == "done"
    assert story(await chat.stored())[1:] == story(each for each in events if not each.partial)
    await store.close()


async def test_odd_arguments_reach_the_tool_as_json() -> None:
    """Numbers that JSON does not have are the texts that a number's type reads back; huge integers are refused."""
    came: list[Any] = []

    def take(rate: float = 0, text: str = "", count: int = 0) -> str:
        """Take."""
        came.append((rate, text, count))
        return "fine"

    calls = [call("take", rate=-math.inf, text="a\ud800"), call("take", count=10**4300), call("take", count=10**4299)]
    root = agent("root", calls, "done", tools=[take])
    first, second, third = results(await Chat(root).say("go"))
    assert (first, third) == ({"result": "fine"}, {"result": "fine"})
    assert "take" in (second or {})["error"]
    assert came == [(-math.inf, "a\ufffd", 0), (0, "", 10**4299)]


async def test_arguments_that_are_no_object_are_the_error_of_their_call() -> None:
    """Text that is no JSON, or another kind of value: the tool does not run without them."""
    ran: list[int] = []

    def take(data: Any = None) -> str:
        """Take."""
        ran.append(1)
        return "fine"

    root = agent("root", [call("take", **{"$": each}) for each in ('{"a": ', "[1]", "7")], "done", tools=[take])
    errors = [(each or {})["error"] for each in results(await Chat(root).say("go"))]
    assert "are not JSON" in errors[0]
    assert "of type list" in errors[1]
    assert "of type int" in errors[2]
    assert not ran


async def test_an_on_error_callback_may_answer_for_arguments_that_cannot_be_read() -> None:
    def take() -> str:
        """Take."""
        return "never"

    root = agent(
        "root", call("take", **{"$": "["}), "done", tools=[take], on_tool_error_callback=lambda **_: {"mended": True}
    )
    assert results(await Chat(root).say("go")) == [{"mended": True}]
