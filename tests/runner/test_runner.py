"""The runner: which agent answers, and what becomes of the user's message (cases, area 22; spec §18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from google.genai import types
from kit import (
    Chat,
    agent,
    collect,
    event,
    hand_to,
    named_call,
    open_calls,
    requests_of,
    result,
    said,
    shown,
    story,
    user,
)

from flowloom import (
    App,
    BaseAgent,
    BasePlugin,
    ConfigurationError,
    Event,
    InMemoryArtifactService,
    InMemoryRunner,
    InMemorySessionService,
    InputValidationError,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    RunConfig,
    Runner,
    SequentialAgent,
    SessionNotFoundError,
    ToolContext,
)
from flowloom.errors import NotSupportedError
from flowloom.events import NodeInfo
from flowloom.testing import call


async def author_after(root: Any, *log: Event, message: Any = "next") -> str:
    """Who answers a message after this log."""
    chat = Chat(root)
    session = await chat.runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    for each in log:
        await chat.runner.session_service.append_event(session, each)
    return (await chat.say(message))[0].author


def tree(**helper: Any) -> LlmAgent:
    return agent("root", "r", sub_agents=[agent("helper", "h", **helper)])


async def test_the_agent_that_spoke_last_goes_on() -> None:
    """Last author transferable | that agent."""
    assert await author_after(tree(), event("user", "q"), event("helper", "a")) == "helper"


async def test_one_that_may_not_hand_back_does_not() -> None:
    """Last author not transferable (disallow flag) | root."""
    root = tree(disallow_transfer_to_parent=True)
    assert await author_after(root, event("user", "q"), event("helper", "a")) == "root"


async def test_without_agents_events_the_root_answers() -> None:
    assert await author_after(tree()) == "root"
    assert await author_after(tree(), event("user", "q"), event("gone", "a")) == "root"


async def test_an_answer_goes_to_the_agent_that_called() -> None:
    """FR answers a call of a non-transferable agent | that agent."""
    root = tree(disallow_transfer_to_parent=True)
    asked = event("helper", named_call("c1", "ask"), long_running_tool_ids=["c1"])
    assert await author_after(root, event("user", "q"), asked, message=user(result("c1", "ask", {}))) == "helper"


async def test_below_an_agent_that_is_no_llm_agent_nobody_is_gone_on_with() -> None:
    """Transferable: non-LLM | no."""
    root = agent("root", "r", sub_agents=[SequentialAgent(name="row", sub_agents=[agent("inner", "i", "i2")])])
    assert await author_after(root, event("user", "q"), event("inner", "a")) == "root"


async def test_a_file_is_saved_as_an_artifact_and_named_in_its_place() -> None:
    """Text + blob with save flag | one artifact, bytes equal, session part replaced by placeholder text."""
    chat = Chat(agent("root", "thanks"), config=RunConfig(save_input_blobs_as_artifacts=True))
    message = user("see", types.Part(inline_data=types.Blob(data=b"bytes", mime_type="image/png")))
    await chat.say(message)
    service = chat.runner.artifact_service
    assert isinstance(service, InMemoryArtifactService)
    where: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
    (name,) = await service.list_artifact_keys(**where)
    assert name.startswith("artifact_")
    saved = await service.load_artifact(**where, filename=name)
    assert saved is not None
    assert saved.inline_data is not None
    assert saved.inline_data.data == b"bytes"
    stored = (await chat.stored())[0].content
    assert [part.inline_data for part in (stored and stored.parts) or ()] == [None, None]
    assert name in str(stored)
    assert message.parts[1].inline_data is not None  # type: ignore[index] - the caller's message is untouched


async def test_a_plugin_may_rewrite_the_message() -> None:
    """On_user_message rewrites | run proceeds with the rewritten message and full context."""

    class Polite(BasePlugin):
        async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
            assert invocation_context.session.id == "s1"
            return user("please " + user_message.parts[0].text)

    root = agent("root", "ok")
    chat = Chat(root, plugins=[Polite("polite")])
    await chat.say("help")
    assert shown(requests_of(root)[0]) == ["user: please help"]
    assert (await chat.stored())[0].text == "please help"


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("create", [True, False])
async def test_a_missing_session_is_an_error_unless_it_is_to_be_made(exists: bool, create: bool) -> None:
    """Auto create, 4 combinations | error only when off and missing."""
    service = InMemorySessionService()
    if exists:
        await service.create_session(app_name="app", user_id="ann", session_id="s1")
    runner = Runner(app_name="app", agent=agent("root", "hi"), session_service=service, auto_create_session=create)
    run = runner.run_async(user_id="ann", session_id="s1", new_message="go")
    if exists or create:
        assert story(await collect(run)) == ["root: hi"]
    else:
        with pytest.raises(SessionNotFoundError):
            await collect(run)


async def test_a_session_that_was_made_is_found_by_the_id_it_was_named_by() -> None:
    """Also with spaces around it, which stores leave out."""
    chat = Chat(agent("root", "one", "two"), session_id=" s1 ")
    assert [story(await chat.say(text)) for text in ("a", "b")] == [["root: one"], ["root: two"]]


async def test_the_in_memory_runner_needs_no_set_up() -> None:
    events = InMemoryRunner(agent("root", "hi")).run_async(user_id="u", session_id="s", new_message="go")
    assert story(await collect(events)) == ["root: hi"]


async def test_the_users_message_is_yielded_on_request_and_always_stored() -> None:
    """Yield user msg on / off | first event is user's / none yielded but persisted."""
    chat = Chat(agent("root", "one", "two"))
    assert [e.author for e in await chat.say("a", yield_user_message=True)] == ["user", "root"]
    assert [e.author for e in await chat.say("b")] == ["root"]
    assert [e.text for e in await chat.stored()] == ["a", "one", "b", "two"]


async def test_state_given_at_run_is_there_for_callbacks_on_the_users_event_and_in_the_session() -> None:
    seen: list[Any] = []

    def look(callback_context: Any) -> None:
        seen.append(callback_context.state["city"])

    chat = Chat(agent("root", "hi", before_agent_callback=look))
    await chat.say("go", state_delta={"city": "Oslo"})
    assert seen == ["Oslo"]
    assert (await chat.stored())[0].actions.state_delta == {"city": "Oslo"}
    assert await chat.state() == {"city": "Oslo"}


async def test_a_message_that_is_the_output_is_not_kept_twice() -> None:
    """Event with content and flag | output cleared, content kept."""

    class Node(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            info = NodeInfo(path="n", message_as_output=True)
            yield Event(author=self.name, content=said("words"), output="words", node_info=info)

    (seen,) = await Chat(Node(name="node")).say("go")
    assert (seen.text, seen.output) == ("words", None)


async def test_after_a_finished_turn_a_text_begins_a_new_run() -> None:
    """Plain text after finished turn | fresh run, not resume."""
    chat = Chat(agent("root", "one", "two"))
    first, second = await chat.say("a"), await chat.say("b")
    assert first[0].invocation_id != second[0].invocation_id


async def test_an_answer_goes_on_with_the_run_that_called() -> None:
    def ask() -> dict[str, str]:
        """Ask."""
        return {"status": "pending"}

    chat = Chat(agent("root", named_call("c1", "ask"), "waiting", "done", tools=[LongRunningFunctionTool(ask)]))
    first = await chat.say("go")
    second = await chat.answer(result("c1", "ask", {"status": "ready"}))
    assert second[0].invocation_id == first[0].invocation_id


@pytest.mark.parametrize(
    "parts", [[result("zzz", "ask", {}), "and a word"], [result("zzz", "ask", {})]], ids=["mixed", "unmatched"]
)
async def test_mixed_and_unmatched_answers_are_tolerated(parts: list[Any]) -> None:
    """Mixed text + FR / unmatched FR | tolerated, model consulted."""
    assert story(await Chat(agent("root", "hm")).say(user(*parts))) == ["root: hm"]


async def test_an_agent_that_fails_is_the_callers_error() -> None:
    """Node fails | error propagates; nothing of the history is lost."""
    chat = Chat(agent("root", RuntimeError("no")))
    with pytest.raises(RuntimeError, match="no"):
        await chat.say("go")
    assert [e.author for e in await chat.stored()] == ["user", "root"]


async def test_before_run_may_answer_in_the_agents_place_and_after_run_is_always_told() -> None:
    told: list[str] = []

    class Closed(BasePlugin):
        async def before_run_callback(self, *, invocation_context: Any) -> Any:
            return said("we are closed")

        async def after_run_callback(self, *, invocation_context: Any) -> None:
            told.append("after")

    root = agent("root", "never")
    chat = Chat(root, plugins=[Closed("closed")])
    assert story(await chat.say("go")) == ["root: we are closed"]
    assert requests_of(root) == []
    assert told == ["after"]
    assert (await chat.stored())[-1].text == "we are closed"


async def test_a_plugin_may_replace_events_before_they_are_stored() -> None:
    class Shout(BasePlugin):
        async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Any:
            return event.model_copy(update={"content": said(event.text.upper())})

    chat = Chat(agent("root", "hi"), plugins=[Shout("shout")])
    assert story(await chat.say("go")) == ["root: HI"]
    assert [e.text for e in await chat.stored()] == ["go", "HI"]


async def test_plugins_are_told_of_errors_and_cannot_hide_them() -> None:
    told: list[str] = []

    class Told(BasePlugin):
        async def on_agent_error_callback(self, *, agent: Any, callback_context: Any, error: Exception) -> None:
            told.append(f"agent {agent.name} ({callback_context.agent_name}): {error}")

        async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
            told.append(f"run: {error}")
            raise ValueError("a hook that fails itself")

    chat = Chat(
        agent("root", hand_to("helper"), sub_agents=[agent("helper", RuntimeError("no"))]), plugins=[Told("told")]
    )
    with pytest.raises(RuntimeError, match="no"):
        await chat.say("go")
    assert told == ["agent helper (helper): no", "run: no"]


def test_a_synchronous_program_runs_turn_after_turn() -> None:
    """`run` keeps one event loop, so that nothing bound to a loop is used in a closed one."""
    runner = InMemoryRunner(agent("root", "one", "two"))
    for words in ("one", "two"):
        assert [e.text for e in runner.run(user_id="u", session_id="s", new_message="go")] == [words]


def test_live_runs_say_that_they_are_not_there_yet() -> None:
    with pytest.raises(NotSupportedError, match="not supported yet"):
        InMemoryRunner(agent("root")).run_live(user_id="u", session_id="s")


async def test_an_abort_signal_ends_the_run_after_the_event_at_hand() -> None:
    stop = asyncio.Event()

    def halt(tool_context: ToolContext) -> None:
        """Stop."""
        stop.set()

    chat = Chat(agent("root", call("halt"), "never", tools=[halt]))
    events = await chat.say("go", abort_signal=stop)
    assert "root: never" not in story(events)
    assert open_calls(await chat.stored()) == set()


async def test_custom_metadata_of_a_run_is_on_every_event() -> None:
    events = await Chat(agent("root", "hi")).say("go", run_config=RunConfig(custom_metadata={"tenant": "t"}))
    assert [e.custom_metadata for e in events] == [{"tenant": "t"}]


async def test_rewinding_undoes_events_and_state_and_keeps_the_log() -> None:
    def note(tool_context: ToolContext) -> None:
        """Note."""
        tool_context.state["noted"] = True

    root = agent("root", "first", call("note"), "second", "third", tools=[note])
    chat = Chat(root)
    await chat.say("one")
    second = await chat.say("two")
    await chat.runner.rewind_async(user_id="ann", session_id="s1", rewind_before_invocation_id=second[0].invocation_id)
    assert (await chat.state()).get("noted") is None
    await chat.say("three")
    assert shown(requests_of(root)[-1]) == ["user: one", "model: first", "user: three"]
    assert len(await chat.stored()) == 9


async def test_an_app_holds_agent_and_plugins() -> None:
    class Shout(BasePlugin):
        async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Any:
            return event.model_copy(update={"content": said("shouted")})

    runner = InMemoryRunner(app=App(name="desk", root_agent=agent("root", "hi"), plugins=[Shout("s")]))
    events = await collect(runner.run_async(user_id="u", session_id="s", new_message="go"))
    assert (runner.app_name, story(events)) == ("desk", ["root: shouted"])


async def test_run_debug_makes_the_session_and_prints_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    await InMemoryRunner(agent("root", "one", "two")).run_debug(["a", "b"])
    assert capsys.readouterr().out == "root: one\nroot: two\n"


async def test_run_debug_prints_calls_and_results_if_it_is_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    await InMemoryRunner(agent("root", [call("add", a=1, b=2)], "Three.", tools=[add])).run_debug("Go.", verbose=True)
    assert capsys.readouterr().out.splitlines() == [
        'root: calls add {"a":1,"b":2}',
        'root: add gave {"result":3}',
        "root: 'Three.'",
    ]


async def test_an_empty_message_is_refused() -> None:
    with pytest.raises(InputValidationError, match="no parts"):
        await Chat(agent("root", "x")).say(types.Content(role="user", parts=[]))


async def test_an_app_comes_with_its_agent() -> None:
    """An `agent` beside an `app` is refused, even its own; an `app_name` beside it wins over its name."""
    root, service = agent("root", "hi"), InMemorySessionService()
    app = App(name="desk", root_agent=root)
    for other in (root, agent("other")):
        with pytest.raises(ConfigurationError, match="either `app` or `agent`"):
            Runner(app=app, agent=other, session_service=service)
    assert Runner(app=app, app_name="shop", session_service=service).app_name == "shop"


async def test_apps_and_agents_are_not_taken_for_each_other() -> None:
    """What is no app, or no agent, is refused by name when the runner is made."""
    service: Any = InMemorySessionService()
    root: Any = agent("root", "hi")
    app: Any = App(name="desk", root_agent=root)
    with pytest.raises(ConfigurationError, match="`agent` takes a `BaseAgent`, not a `App`"):
        Runner(agent=app, app_name="desk", session_service=service)
    with pytest.raises(ConfigurationError, match="`app` takes a `App`, not a `LlmAgent`"):
        Runner(app=root, session_service=service)
    with pytest.raises(ConfigurationError, match="`agent` takes a `BaseAgent`, not a `str`"):
        InMemoryRunner(cast(Any, "root"))
