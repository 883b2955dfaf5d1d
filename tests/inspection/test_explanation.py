"""`explain`: what an agent would send, found out without sending it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from kit import agent, context, event, model, named_call, result, said, shown, system_text, text, user

from flowloom import (
    App,
    BaseAgent,
    BasePlugin,
    Event,
    Flow,
    InMemoryMemoryService,
    InMemorySessionService,
    InputValidationError,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    Session,
    explain,
)
from flowloom.errors import Halt, MissingVariableError, ModelNotConfiguredError
from flowloom.testing import ScriptedModel


def add(a: int) -> int:
    """Add."""
    raise AssertionError("a rehearsal runs no tool")


async def test_the_model_is_not_asked() -> None:
    asked = model()
    assembly = await explain(LlmAgent(name="root", model=asked, instruction="Be kind."), "hi")
    assert asked.requests == []
    assert assembly.reaches_model
    assert (assembly.agent, assembly.request.model) == ("root", "scripted")


async def test_every_processor_has_its_time_and_its_changes() -> None:
    assembly = await explain(agent("root", instruction="Be kind.", tools=[add]), "hi")
    paths = {step.name: [change.path for change in step.changes] for step in assembly.steps}
    assert list(paths) == [step.name for step in Flow().request_steps]
    assert paths["instructions"] == ["config.system_instruction[0]"]
    assert paths["contents"] == ["contents[0]"]
    assert paths["tool_declarations"] == ["config.tools[0].function_declarations[add]", "tools_dict[add]"]
    assert paths["auth"] == []
    assert all(step.seconds > 0 for step in assembly.steps)


async def test_every_section_has_its_author() -> None:
    assembly = await explain(agent("root", instruction="Be kind.", tools=[add]), "hi")
    assert {section.path: section.by for section in assembly.sections} == {
        "model": "basic",
        "config.system_instruction[0]": "instructions",
        "config.system_instruction[1]": "identity",
        "config.tools[0].function_declarations[add]": "tool_declarations",
        "contents[0]": "contents",
    }
    assert assembly.written_by("contents[0]") == "contents"
    assert assembly.written_by("contents[7]") is None


async def test_the_author_is_the_one_who_wrote_last() -> None:
    """Entries keep their authors when others are put before them."""

    def first(ctx: Any, request: LlmRequest) -> None:
        request.contents.insert(0, user("before"))

    async def last(ctx: Any, request: LlmRequest) -> None:
        await asyncio.sleep(0)
        request.contents[1].parts[0].text = "changed"  # type: ignore[index]

    file = types.Part(file_data=types.FileData(file_uri="f", mime_type="text/plain", display_name="a.txt"))
    flow = Flow().with_processor(first, after="contents").with_processor(last)
    history = [("user", "old"), ("root", "answer")]
    assembly = await explain(agent("root", flow=flow), user("hi", file), history=history)
    authors = [section.by for section in assembly.sections if section.path.startswith("contents")]
    assert authors == ["first", "last", "contents", "contents"]


async def test_the_upload_names_that_are_cleared_are_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor that touched an entry last is its author, and the change says what was there."""
    monkeypatch.setattr(ScriptedModel, "backend", "gemini_api")
    file = types.Part(file_data=types.FileData(file_uri="f", mime_type="text/plain", display_name="a.txt"))
    assembly = await explain(agent("root"), user("hi", file))
    (change,) = assembly.steps[-1].changes
    assert change.path == "contents[0].parts[1].file_data.display_name"
    assert (change.before, change.after) == ("a.txt", None)
    assert assembly.written_by("contents[0]") == "file_uploads"


async def test_a_session_is_not_changed() -> None:
    """Nor the one who is explained: the same again gives the same."""
    session = Session(id="s1", app_name="app", user_id="ann", state={"n": 1}, events=[event("user", "old")])
    before = session.model_dump_json()
    root = agent("root", instruction="It is {n}.", before_agent_callback=count)
    first, second = [await explain(root, "hi", session=session) for _ in range(2)]
    assert session.model_dump_json() == before
    assert system_text(first.request).startswith("It is 2.")
    assert first.view == second.view


def count(*, callback_context: Any) -> None:
    callback_context.state["n"] = callback_context.state["n"] + 1


async def test_history_and_state_are_added_to_the_session() -> None:
    session = Session(id="s1", app_name="app", user_id="ann", state={"a": 1}, events=[event("user", "one")])
    history: list[Any] = [said("two"), user("three"), ("other", "four"), event("root", "five")]
    said_by_us = ["one", "two", "three", "five", "six"]
    root = agent("root", instruction="{a} {b} {user:c}")
    assembly = await explain(root, "six", session=session, state={"b": 2, "user:c": 3}, history=history)
    assert system_text(assembly.request).startswith("1 2 3")
    words = [part.text for content in assembly.request.contents for part in content.parts or ()]
    assert [word for word in words if word in said_by_us] == said_by_us


async def test_messages_in_a_history_are_taken_as_a_runner_takes_them() -> None:
    """A text is the user's; data is read as content."""
    history: list[Any] = ["one", {"role": "model", "parts": [{"text": "two"}]}]
    assembly = await explain(agent("root"), "three", history=history)
    assert shown(assembly.request) == ["user: one", "model: two", "user: three"]


@pytest.mark.parametrize("entry", [1, ("user",), ("user", 1), None])
async def test_an_entry_of_a_history_that_is_none_is_refused(entry: Any) -> None:
    with pytest.raises(InputValidationError, match="no entry of a history"):
        await explain(agent("root"), "hi", history=[entry])


async def test_calls_in_a_history_are_the_agents() -> None:
    """The user has made none."""
    called, answered = named_call("c1", "add", a=1), result("c1", "add", {"result": 2})
    assembly = await explain(agent("root"), "so?", history=[said(called), user(answered)])
    assert [content.role for content in assembly.request.contents] == ["model", "user", "user"]
    with pytest.raises(InputValidationError, match="calls the function `add`"):
        await explain(agent("root"), "so?", history=[user(called)])


async def test_without_a_message_the_agent_goes_on_from_the_history() -> None:
    assembly = await explain(agent("root"), history=[("user", "hi")])
    assert [content.role for content in assembly.request.contents] == ["user"]


async def test_a_confirmed_tool_is_not_run() -> None:
    """What it would have given is not known, and the assembly says so."""
    asked = types.FunctionCall(id="c1", name="add", args={"a": 1})
    original = asked.model_dump(exclude_none=True)
    confirmation = {"originalFunctionCall": original, "toolConfirmation": {"confirmed": False}}
    history = [
        event("user", "add it"),
        event("root", types.Part(function_call=asked)),
        event("root", named_call("r1", "adk_request_confirmation", **confirmation), long_running_tool_ids=["r1"]),
    ]
    message = user(result("r1", "adk_request_confirmation", {"confirmed": True}))
    assembly = await explain(agent("root", tools=[add]), message, history=history)
    assert assembly.tools_not_run == ["add"]
    assert [step.name for step in assembly.steps if step.events] == ["confirmation"]


async def test_a_processor_that_halts_is_named() -> None:
    def stop(ctx: Any, request: LlmRequest) -> None:
        raise Halt("enough")

    assembly = await explain(agent("root", flow=Flow().with_processor(stop, before="contents")), "hi")
    assert (assembly.halted_by, assembly.reaches_model) == ("stop", False)
    assert assembly.steps[-1].name == "stop"


async def test_a_callback_that_answers_keeps_the_model_from_being_reached() -> None:
    root = agent("root", before_agent_callback=lambda callback_context: said("No."))
    assembly = await explain(root, "hi")
    assert not assembly.reaches_model
    assert assembly.steps == []


async def test_callbacks_and_wrappers_have_a_step_of_their_own() -> None:
    def warn(*, callback_context: Any, llm_request: LlmRequest) -> None:
        llm_request.append_instructions(["Careful."])

    def warm(*, call_next: Any, callback_context: Any, llm_request: LlmRequest) -> Any:
        llm_request.config.temperature = 1.0
        return call_next(llm_request)

    assembly = await explain(agent("root", before_model_callback=warn, around_model=warm), "hi")
    assert assembly.steps[-1].name == "(callbacks)"
    assert assembly.written_by("config.temperature") == "(callbacks)"
    assert assembly.written_by("config.system_instruction[1]") == "(callbacks)"


async def test_the_plugins_of_an_app_take_part() -> None:
    class Louder(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
            llm_request.config.temperature = 1.0

    app = App(name="app", root_agent=agent("root"), plugins=[Louder("louder")])
    assert (await explain(app, "hi")).request.config.temperature == 1.0


async def test_a_sub_agent_is_explained_at_its_place_in_the_tree() -> None:
    """It can hand back to its parent, and the root's global instruction is its own, too."""
    child = agent("child", description="Below.")
    LlmAgent(name="root", model=model(), global_instruction="Be kind.", sub_agents=[child])
    assembly = await explain(child, "hi")
    assert assembly.agent == "child"
    assert system_text(assembly.request).startswith("Be kind.")
    assert "transfer_to_agent" in assembly.request.tools_dict


async def test_the_agent_that_would_answer_is_explained() -> None:
    child = agent("child", description="Below.")
    root = agent("root", sub_agents=[child])
    assembly = await explain(root, "hi", history=[("user", "a"), ("child", "b")])
    assert assembly.agent == "child"


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_the_first_model_call_of_a_workflow_is_explained(kind: Any) -> None:
    root = kind(name="root", sub_agents=[agent("one"), agent("two")])
    assembly = await explain(root, "hi")
    assert assembly.agent == "one"
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def test_of_a_custom_agent_it_is_said_why_there_is_no_request() -> None:
    class Echo(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            for child in self.sub_agents:
                async for each in child.run_async(ctx):
                    yield each

    found = await explain(Echo(name="echo"), "hi")
    assert (found.agent, found.reaches_model, found.without_flow) == ("echo", False, "Echo")
    assert "`echo` (Echo) works without a flow" in str(found)
    assert "`echo` (Echo) works without a flow" in found.to_html()
    below = await explain(Echo(name="echo", sub_agents=[agent("root", "never")]), "hi")
    assert (below.agent, below.reaches_model, below.without_flow) == ("root", True, None)


async def test_errors_of_the_way_are_raised() -> None:
    """With the notes that a run would give."""
    with pytest.raises(MissingVariableError) as caught:
        await explain(agent("root", instruction="{nobody}"), "hi")
    assert any("processor `instructions`" in note for note in caught.value.__notes__)
    with pytest.raises(ModelNotConfiguredError):
        await explain(LlmAgent(name="root"), "hi")


async def test_user_written_processors_are_traced_without_their_help() -> None:
    """A callable object, and a generator that writes between its events."""

    class Stamp:
        name = "stamp"

        async def __call__(self, ctx: InvocationContext, request: LlmRequest) -> Any:
            request.append_instructions(["one"])
            yield ctx.new_event({"content": said("note")})
            request.append_instructions(["two"])

    assembly = await explain(agent("root", flow=Flow().with_processor(Stamp())), "hi")
    step = assembly.steps[-1]
    assert step.name == "stamp"
    assert [change.after for change in step.changes] == ["one\n\ntwo"]
    assert [each.text for each in step.events] == ["note"]
    assert assembly.events == step.events


async def test_memory_and_run_config_can_be_given() -> None:
    config = RunConfig(labels={"team": "a"})
    assembly = await explain(agent("root"), "hi", run_config=config, memory_service=InMemoryMemoryService())
    assert assembly.request.config.labels == {"team": "a"}
    assert assembly.written_by("config.labels") == "basic"


async def test_a_flow_assembles_in_a_run_without_disturbing_it() -> None:
    """The context's own run counts nothing, and goes on."""
    root = agent("root", "ok")
    ctx = context(root, event("user", "hi"))
    assembly = await root.flow.assemble(ctx)
    assert assembly.reaches_model
    assert ctx.run.totals.model_calls == 0
    assert [each.text async for each in root.flow.run(ctx)] == ["ok"]


async def test_data_of_an_assembly_holds_the_same() -> None:
    assembly = await explain(agent("root", instruction="Be kind."), "hi")
    data = assembly.to_dict()
    assert data["request"] == assembly.view.data
    assert data["sections"][1] == {"path": "config.system_instruction[0]", "by": "instructions", "value": "Be kind."}
    step = next(step for step in data["steps"] if step["name"] == "instructions")
    assert step["changes"] == [
        {"path": "config.system_instruction[0]", "kind": "added", "before": None, "after": "Be kind."}
    ]


async def test_explaining_in_parallel_does_not_mix() -> None:
    roots = [agent(f"root{number}", instruction=f"Number {number}.") for number in range(8)]
    for number, assembly in enumerate(await asyncio.gather(*(explain(root, "hi") for root in roots))):
        assert system_text(assembly.request).startswith(f"Number {number}.")


async def test_a_session_of_a_service_can_be_explained() -> None:
    service = InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="ann", state={"app:firm": "Flows"})
    await service.append_event(session, Event(author="user", content=user(text("hello"))))
    assembly = await explain(agent("root", instruction="For {app:firm}."), "again", session=session)
    assert system_text(assembly.request).startswith("For Flows.")
    assert len(assembly.request.contents) == 2
