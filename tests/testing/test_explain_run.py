"""The requests of whole runs, and who wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import agent, hand_to

from flowloom import (
    AgentTool,
    App,
    BaseLlm,
    Context,
    Event,
    FunctionTool,
    InMemoryRunner,
    LlmAgent,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    Session,
    StreamingMode,
    explain,
)
from flowloom.inspection import Assembly, RequestView
from flowloom.plugins import BasePlugin
from flowloom.testing import (
    AutoModel,
    FunctionModel,
    ModelRequestBlockedError,
    ScriptedModel,
    block_model_requests,
    call,
    capture_run,
    explain_run,
)

Where = list[tuple[str, int]]


def look(place: str = "here") -> str:
    """Look."""
    return f"seen {place}"


def where(assemblies: list[Assembly]) -> Where:
    return [(each.agent, each.step) for each in assemblies]


async def followed(root: Any, message: Any, script: Any, **options: Any) -> list[Assembly]:
    """The assemblies, each of which is whole."""
    assemblies = await explain_run(root, message, script, **options)
    for each in assemblies:
        assert each.reaches_model
        assert all(section.by for section in each.sections)
        assert RequestView(each.request).data == each.view.data
        assert each.steps[0].name == "basic"
    return assemblies


async def test_each_model_call_of_a_tool_turn() -> None:
    """The first is what `explain` gives; the next have what came since, with its author."""
    root = LlmAgent(name="root", model="gemini-2.5-flash", instruction="Look.", tools=[look])
    first, second = await followed(root, "go", [call("look", place="there"), "done"])
    assert [str(section) for section in first.sections] == [
        str(section) for section in (await explain(root, "go")).sections
    ]
    assert where([first, second]) == [("root", 0), ("root", 1)]
    assert [content.role for content in second.request.contents] == ["user", "model", "user"]
    assert second.written_by("contents[2]") == "contents"
    assert str(second).startswith("root asks gemini-2.5-flash, step 1\n")
    assert "Nothing was sent." in str(second)


async def test_no_model_is_asked_and_no_session_is_changed() -> None:
    """Hosted models stay unasked (the guard of these tests would say so); the given session is as it was."""
    root = LlmAgent(name="root", model="gemini-2.5-flash", tools=[look], output_key="found")
    session = Session(id="s", app_name="app", user_id="u", state={"a": 1})
    session.events.append(Event(author="user", content=types.Content(role="user", parts=[types.Part(text="before")])))
    assemblies = await followed(root, "go", [call("look"), "done"], session=session, state={"b": 2})
    assert len(assemblies[0].request.contents) == 2
    assert (len(session.events), session.state) == (1, {"a": 1})


def desk() -> LlmAgent:
    """Hands over, asks agents as tools, delegates."""
    helper = LlmAgent(name="helper", description="Helps.", model="gemini-2.5-flash", tools=[look])
    expert = LlmAgent(name="expert", description="Knows.", model="gemini-2.5-flash")
    clerk = LlmAgent(name="clerk", description="Does a task.", model="gemini-2.5-flash", mode="task")
    return LlmAgent(name="desk", model="gemini-2.5-pro", tools=[AgentTool(expert)], sub_agents=[helper, clerk])


SITUATIONS: dict[str, tuple[Any, list[Any], Where]] = {
    "transfer": (desk, [hand_to("helper"), call("look"), "done"], [("desk", 0), ("helper", 0), ("helper", 1)]),
    "agent tool": (desk, [call("expert", request="?"), "!", "done"], [("desk", 0), ("expert", 0), ("desk", 1)]),
    "task": (
        desk,
        [call("clerk", request="x"), call("finish_task", result="done"), "so"],
        [("desk", 0), ("clerk", 0), ("desk", 1)],
    ),
    "row": (
        lambda: SequentialAgent(name="row", sub_agents=[agent("a", tools=[look]), agent("b")]),
        [call("look"), "a", "b"],
        [("a", 0), ("a", 1), ("b", 0)],
    ),
    "side": (lambda: ParallelAgent(name="side", sub_agents=[agent("a"), agent("b")]), ["x", "y"], [("a", 0), ("b", 0)]),
    "script that ends early": (desk, [call("expert", request="?")], [("desk", 0), ("expert", 0)]),
    "no script": (desk, [], [("desk", 0)]),
}


@pytest.mark.parametrize("name", SITUATIONS)
async def test_agents_below_and_beside_are_there_in_order(name: str) -> None:
    """Whoever asks a model in the run, in the order of the calls, and until the script ends."""
    make, script, expected = SITUATIONS[name]
    assert where(await followed(make(), "go", script)) == expected


async def test_a_script_may_be_a_model_and_streamed() -> None:
    """Any model answers; partial answers make no more requests."""
    root = LlmAgent(name="root", model="gemini-2.5-flash", tools=[look])
    assert where(await followed(root, "go", AutoModel())) == [("root", 0), ("root", 1)]
    scripted = ScriptedModel([call("look"), "a long answer"], stream_chunks=True)
    streamed = RunConfig(streaming_mode=StreamingMode.SSE)
    assert len(await followed(root, "go", scripted, run_config=streamed)) == 2
    assert [request.agent for request in scripted.requests] == ["root", "root"]


async def test_a_hosted_model_as_the_script_is_guarded() -> None:
    """What is really asked is what counts."""

    class Hosted(BaseLlm):
        model: str = "hosted"

        @property
        def hosted(self) -> bool:
            return True

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            raise AssertionError
            yield

    with block_model_requests() as guard:
        with pytest.raises(ModelRequestBlockedError):
            await explain_run(agent("root"), "go", Hosted())
        guard.blocked.clear()


async def test_an_app_brings_its_plugins_and_callbacks_are_authors() -> None:
    """What callbacks write before the model stands as theirs, in every request."""

    class Adds(BasePlugin):
        async def before_model_callback(self, *, callback_context: Context, llm_request: Any) -> None:
            llm_request.append_instructions([f"From {callback_context.agent_name}."])

    root = LlmAgent(name="root", model="gemini-2.5-flash", tools=[look])
    assemblies = await followed(App(name="app", root_agent=root, plugins=[Adds("adds")]), "go", [call("look"), "done"])
    assert [each.written_by("config.system_instruction[1]") for each in assemblies] == ["(callbacks)"] * 2


async def test_what_ends_the_run_is_raised_and_what_waits_ends_it() -> None:
    """An error of the run is raised as a run raises it; a run that waits for a person has no more requests."""
    with pytest.raises(RuntimeError, match="no"):
        await explain_run(agent("root", tools=[look]), "go", [call("look"), RuntimeError("no")])
    waits = agent("root", tools=[FunctionTool(look, require_confirmation=True)])
    assert where(await followed(waits, "go", [call("look"), "never"])) == [("root", 0)]


async def test_models_for_tests_say_whose_their_requests_are() -> None:
    """`agent` and `step` are there without anybody looking on; a request that was not asked with has none."""
    model = ScriptedModel([hand_to("helper"), call("look"), "done"])
    root = LlmAgent(name="root", model=model, sub_agents=[LlmAgent(name="helper", description="x", tools=[look])])
    await InMemoryRunner(root).run_to_result(user_id="u", session_id="s", new_message="go")
    assert [(each.agent, each.step) for each in model.requests] == [("root", 0), ("helper", 0), ("helper", 1)]
    assert (type(model.requests[0])().agent, type(model.requests[0])().step) == (None, None)


async def test_captured_runs_say_who_wrote_what() -> None:
    """Requests, their agents and steps, and their assemblies."""
    root = LlmAgent(name="root", model=FunctionModel(lambda _: "done"), tools=[look])
    with capture_run() as captured:
        await InMemoryRunner(root).run_to_result(user_id="u", session_id="s", new_message="go")
    [request], [assembly] = captured.requests, captured.assemblies
    assert (request.agent, request.step, captured.calls[0].step, captured.calls[0].agent) == ("root", 0, 0, "root")
    assert assembly.view == RequestView(request)
    assert (assembly.written_by("contents[0]"), assembly.sent) == ("contents", True)
    assert "Nothing was sent." not in str(assembly)


SNAPSHOTS = """
from flowloom import InMemoryRunner, LlmAgent
from flowloom.testing import ScriptedModel, call

def look() -> str:
    return "seen"

def run():
    model = ScriptedModel([call("look"), "done"])
    root = LlmAgent(name="root", model=model, instruction="Look.", tools=[look])
    list(InMemoryRunner(root).run(user_id="u", session_id="s", new_message="go"))
    return model.requests

def test_of_the_model(request_snapshot):
    assert run() == request_snapshot

def test_captured(request_snapshot, captured_run):
    run()
    assert captured_run.requests == request_snapshot

def test_as_assemblies(request_snapshot, captured_run):
    run()
    assert captured_run.assemblies == request_snapshot
"""


def test_a_snapshot_of_them_has_the_authors(pytester: pytest.Pytester) -> None:
    """The requests that a model keeps, those of a captured run and its assemblies give the same file."""
    pytester.makepyfile(test_it=SNAPSHOTS)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.runpytest_inprocess("--snapshot-update", "-p", "no:cacheprovider").assert_outcomes(passed=3)
    files = list((pytester.path / "__snapshots__" / "test_it").iterdir())
    [text] = {path.read_text(encoding="utf-8") for path in files}
    lines = text.splitlines()
    assert 'requests[0].config.system_instruction[0] = "Look."  ← instructions' in lines
    assert "requests[1].contents[2]  ← contents" in lines
