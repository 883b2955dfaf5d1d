"""An `App` under test: all that belongs to it, with another model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kit import agent, hand_to

from flowloom import (
    AgentTool,
    App,
    ConfigurationError,
    Context,
    ContextCacheConfig,
    EventsCompactionConfig,
    InMemoryRunner,
    InMemorySessionService,
    LlmAgent,
    RunHandle,
    Runner,
    explain,
)
from flowloom.plugins import BasePlugin, ModelOverride
from flowloom.testing import ScriptedModel, call

WHERE: Any = {"user_id": "u", "session_id": "s"}


class Signs(BasePlugin):
    """Writes into every request."""

    async def before_model_callback(self, *, callback_context: Context, llm_request: Any) -> None:
        llm_request.append_instructions(["Signed."])


def app(**fields: Any) -> App:
    """An app whose models are hosted: the guard of these tests fails a test that asks one."""
    expert = LlmAgent(name="expert", description="Knows.", model="gemini-2.5-pro")
    root = LlmAgent(name="root", model="gemini-2.5-flash", tools=[AgentTool(expert)])
    return App(name="desk", root_agent=root, plugins=[Signs("signs")], **fields)


def runners(model: ScriptedModel, **fields: Any) -> list[Runner]:
    """All ways to put it under test."""
    return [
        InMemoryRunner(app(**fields), model=model),
        InMemoryRunner(app=app(**fields), model=model),
        InMemoryRunner(app=app(**fields), plugins=[ModelOverride(model)]),
        Runner(
            app=app(**fields),
            plugins=[ModelOverride(model)],
            session_service=InMemorySessionService(),
            auto_create_session=True,
        ),
    ]


async def test_its_plugins_and_its_name_are_kept_and_the_model_answers_for_all_agents() -> None:
    """Agents as tools, too."""
    for index in range(4):
        model = ScriptedModel([call("expert", request="?"), "!", "done"])
        runner = runners(model)[index]
        result = await runner.run_to_result(**WHERE, new_message="go")
        assert (result.text, runner.app_name) == ("done", "desk")
        assert [request.agent for request in model.requests] == ["root", "expert", "root"]
        assert all("Signed." in str(request.config.system_instruction) for request in model.requests)
        model.assert_complete()


async def test_its_compaction_and_context_cache_are_kept() -> None:
    """What sums up is asked of the given model as well, and requests say what is to be cached."""
    settings = EventsCompactionConfig(compaction_interval=1, overlap_size=0)
    model = ScriptedModel(["hi", "A summary.", "again", "Another."])
    async with InMemoryRunner(
        app(events_compaction_config=settings, context_cache_config=ContextCacheConfig()), model=model
    ) as runner:
        await runner.run_to_result(**WHERE, new_message="go")
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(model.requests) == 2
        await runner.run_to_result(**WHERE, new_message="on")
    assert model.requests[0].cache_config is not None
    assert "A summary." in str(model.requests[2].contents)


def test_a_model_may_be_named_and_an_agent_be_given() -> None:
    """By the registry's names; with an agent alone as well."""
    assert InMemoryRunner(agent("root"), model=ScriptedModel(["hi"])).run_stateless_sync("go").text == "hi"
    override = InMemoryRunner(app(), model="gemini-2.5-pro").plugin_manager.plugins[-1]
    assert isinstance(override, ModelOverride)
    assert override.model.model == "gemini-2.5-pro"


def test_an_app_and_an_agent_or_two_apps_are_refused() -> None:
    """The app holds its agent."""
    with pytest.raises(ConfigurationError, match="Two apps"):
        InMemoryRunner(app(), app=app())
    with pytest.raises(ConfigurationError, match="either `app` or `agent`"):
        InMemoryRunner(agent("root"), app=app())


async def test_explaining_an_app_takes_more_plugins() -> None:
    """Those of the app, then the given ones."""
    plugins = [ModelOverride(ScriptedModel([], model="other"))]
    assembly = await explain(app(), "hi", plugins=plugins)
    assert (assembly.request.model, assembly.written_by("config.system_instruction[1]")) == ("other", "(callbacks)")


@pytest.mark.parametrize("answers", [["on"], [hand_to("expert"), "on"]], ids=["root", "handed over to"])
async def test_a_run_that_is_resumed_asks_the_given_model(answers: list[Any]) -> None:
    """Whichever agent goes on: one whose turn had begun before, too."""
    runs: list[RunHandle] = []

    def look() -> str:
        runs[0].pause()
        return "seen"

    expert = LlmAgent(name="expert", model="gemini-2.5-pro", tools=[look])
    root = LlmAgent(name="root", model="gemini-2.5-flash", tools=[look], sub_agents=[expert])
    model = ScriptedModel([*answers[:-1], call("look"), answers[-1]])
    runner = InMemoryRunner(root, model=model)
    runs.append(runner.start(**WHERE, new_message="go"))
    paused = await runs[0].result()
    resumed = await runner.run_to_result(**WHERE, invocation_id=paused.invocation_id)
    assert (paused.status, resumed.text) == ("paused", "on")


async def test_an_override_that_replaces_nothing_leaves_a_resumed_run_the_model_of_another_one() -> None:
    runs: list[RunHandle] = []

    def look() -> str:
        runs[0].pause()
        return "seen"

    given = ModelOverride(ScriptedModel([call("look"), "on"]))
    spare = ModelOverride(ScriptedModel([], model="spare"), replaces=lambda own: False, name="spare")
    root = LlmAgent(name="root", model="gemini-2.5-flash", tools=[look])
    runner = InMemoryRunner(root, plugins=[given, spare])
    runs.append(runner.start(**WHERE, new_message="go"))
    paused = await runs[0].result()
    assert (await runner.run_to_result(**WHERE, invocation_id=paused.invocation_id)).text == "on"
