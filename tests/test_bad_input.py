"""Bad input is a typed error that names what was wrong and what to do, as early as it can be known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, no_op

from flowloom import (
    AgentTool,
    App,
    BaseAgent,
    BaseLlm,
    BasePlugin,
    ConfigurationError,
    Flow,
    FlowloomError,
    FunctionTool,
    Gemini,
    InMemoryRunner,
    InMemorySessionService,
    InputValidationError,
    Limits,
    LlmAgent,
    LlmResponse,
    LocalCodeExecutor,
    LoopAgent,
    RunConfig,
    Runner,
    Session,
    SessionNotFoundError,
    SqliteSessionService,
    StreamingMode,
    Template,
    answers,
    explain,
    measure,
    pending_calls,
)
from flowloom.errors import (
    AgentNameError,
    DuplicateAgentError,
    DuplicateToolError,
    MissingVariableError,
    ModelNotConfiguredError,
    ModelNotFoundError,
    NotSupportedError,
    PipelineError,
    TemplateError,
    ToolSignatureError,
)
from flowloom.inspection import EventsView
from flowloom.plugins import PluginManager
from flowloom.run_stream import run_stream_of
from flowloom.sessions import DatabaseSessionService
from flowloom.testing import ScriptedModel, assert_symmetric
from flowloom.wrappers import FallbackModel, RetryModel


def note() -> None:
    """Note."""


def untyped_varargs(*things: int) -> None:
    """Take many."""


CONSTRUCTIONS: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "two sub-agents of one name",
        lambda: agent("root", sub_agents=[agent("a"), agent("a")]),
        DuplicateAgentError,
        "`a`",
    ),
    (
        "two agents of one name, further apart",
        lambda: InMemoryRunner(agent("root", sub_agents=[agent("a"), agent("b", sub_agents=[agent("a")])])),
        DuplicateAgentError,
        "`a`.*rename one",
    ),
    ("the reserved name", lambda: agent("user"), AgentNameError, "`user`"),
    ("a name with a space", lambda: agent("my agent"), AgentNameError, "letters, digits"),
    (
        "two tools of one name",
        lambda: agent(tools=[note, FunctionTool(note)]),
        DuplicateToolError,
        "`note`.*Rename one",
    ),
    ("something that is no tool", lambda: agent(tools=[7]), ConfigurationError, "7 among its tools"),
    ("a signature that cannot be described", lambda: agent(tools=[untyped_varargs]), ToolSignatureError, "things"),
    ("an unknown field", lambda: LlmAgent(name="a", instrucion="x"), ConfigurationError, "closest is `instruction`"),
    ("an unknown setting", lambda: RunConfig(max_calls=3), ConfigurationError, "closest is `max_llm_calls`"),
    (
        "an unknown field of an object in a field",
        lambda: LlmAgent(name="a", generate_content_config={"temprature": 1}),  # type: ignore[arg-type]
        ConfigurationError,
        "`generate_content_config.temprature` is no field; the closest is `temperature`",
    ),
    (
        "an unknown field of a setting of a setting",
        lambda: RunConfig(limits={"agents": {"tools": {"modl_calls": 3}}}),  # type: ignore[arg-type]
        ConfigurationError,
        r"`agents.tools`: .*`modl_calls` is no field; the closest is `model_calls`\.$",
    ),
    ("an unknown field of a model", lambda: Gemini(modle="gemini-2.5-pro"), ConfigurationError, "closest is `model`"),
    ("an unknown setting of a script", lambda: ScriptedModel(stream_chunk=True), ConfigurationError, "`stream_chunks`"),
    (
        "a script of one answer",
        lambda: ScriptedModel("hello"),
        ConfigurationError,
        r"list of answers, as `\['hello'\]`",
    ),
    (
        "a part of a config for the config",
        lambda: agent(generate_content_config=types.ThinkingConfig(thinking_budget=1)),
        ConfigurationError,
        "`generate_content_config`",
    ),
    ("an unknown setting of an executor", lambda: LocalCodeExecutor(timeout=3), ConfigurationError, "timeout_seconds"),
    ("a tool of what is no agent", lambda: AgentTool("helper"), ConfigurationError, "not a str"),  # type: ignore[arg-type]
    ("a class for a plugin", lambda: InMemoryRunner(agent(), plugins=[BasePlugin]), ConfigurationError, "is no plugin"),  # type: ignore[list-item]
    ("a field like none", lambda: Limits(xyz=1), ConfigurationError, "the fields are `agents`, .*`tools`"),
    ("an unknown model", lambda: LlmAgent(name="a", model="nothing-7b"), ModelNotFoundError, "nothing-7b"),
    ("a broken template", lambda: Template("{% if x %}"), TemplateError, "line 1"),
    (
        "an instruction hidden in the config",
        lambda: agent(generate_content_config=types.GenerateContentConfig(system_instruction="x")),
        ConfigurationError,
        "`system_instruction`.*`instruction`",
    ),
    ("a negative number of rounds", lambda: LoopAgent(name="l", max_iterations=-1), ConfigurationError, "-1"),
    ("two processors of one name", lambda: Flow([no_op, no_op]), PipelineError, "`no_op`"),
    ("a place that is not there", lambda: Flow().with_processor(no_op, before="contens"), PipelineError, "`contents`"),
    ("a processor of one argument", lambda: Flow([lambda ctx: None]), PipelineError, r"`\(ctx, request\)`"),
    (
        "a request processor for responses",
        lambda: Flow().with_response_processor(no_op),
        PipelineError,
        r"`no_op` takes `.*` but is called with `\(ctx, request, response\)`",
    ),
    ("a class for a processor", lambda: Flow([Flow]), PipelineError, "as an instance"),
    ("a class for a tool", lambda: agent(tools=[FunctionTool]), ConfigurationError, "FunctionTool.*or an object"),
    ("a class for a flow", lambda: agent(flow=Flow), ConfigurationError, "`flow` takes a `Flow`, not the class `Flow`"),
    ("a number for limits", lambda: agent(limits=3), ConfigurationError, "`root` cannot be made: `limits`"),
    ("an agent for a list of them", lambda: agent(sub_agents=agent()), ConfigurationError, "`sub_agents`: .* list.$"),
    ("an app without a good name", lambda: App(name="my app", root_agent=agent()), ConfigurationError, "my app"),
    (
        "a runner with the address of a store",
        lambda: Runner(app_name="app", agent=agent(), session_service="sqlite:///s.db"),  # type: ignore[arg-type]
        ConfigurationError,
        "`session_service` takes a `BaseSessionService`, not a `str`",
    ),
    (
        "a runner with the class of a store",
        lambda: Runner(app_name="app", agent=agent(), session_service=InMemorySessionService),  # type: ignore[arg-type]
        ConfigurationError,
        "`session_service` takes a `BaseSessionService`, not the class",
    ),
    ("a URL for a file", lambda: SqliteSessionService("postgresql://ann:pw@db/x"), ConfigurationError, "postgresql://"),
    ("a runner of nothing", lambda: Runner(session_service=InMemorySessionService()), ConfigurationError, "`agent`"),
]


@pytest.mark.parametrize(("build", "error", "match"), [c[1:] for c in CONSTRUCTIONS], ids=[c[0] for c in CONSTRUCTIONS])
def test_what_cannot_run_is_refused_when_it_is_built(
    build: Callable[[], Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match) as raised:
        build()
    assert isinstance(raised.value, FlowloomError)


@pytest.mark.parametrize("method", ["run", "run_to_result_sync", "run_stream_sync", "start"])
def test_arguments_of_a_run_are_named_by_the_runner(method: str) -> None:
    """What is missing or unknown; no class is spoken of that users do not know."""
    for arguments, named in (
        ({"new_message": "x"}, "user_id"),
        ({"user_id": "u", "session_id": "s", "mesage": 1}, "mesage"),
    ):
        with pytest.raises(TypeError, match=rf"^Runner\.run\w*\(\) .*'{named}'"):
            getattr(InMemoryRunner(agent()), method)(**arguments)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"streaming_mode": StreamingMode.BIDI}, "`StreamingMode.BIDI`"),
        ({"response_modalities": ["AUDIO"]}, "`response_modalities`"),
        ({"speech_config": types.SpeechConfig()}, "`speech_config`"),
        ({"support_cfc": True}, "`support_cfc`"),
    ],
)
def test_settings_of_live_runs_are_refused_and_not_ignored(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(NotSupportedError, match=named):
        RunConfig(**settings)


async def test_a_run_config_that_is_none_is_refused() -> None:
    """Before anything is stored, whichever way the run is started."""
    runner = InMemoryRunner(agent("root", "done"))
    with pytest.raises(ConfigurationError, match="`run_config` takes a `RunConfig`, not a `dict`"):
        await runner.run_to_result(user_id="u", session_id="s", new_message="go", run_config={"max_llm_calls": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", [explain, measure])
async def test_what_is_no_agent_cannot_be_explained_or_measured(entry: Any) -> None:
    with pytest.raises(ConfigurationError, match="not a `str`"):
        await entry("root", "go")


async def test_a_callback_that_takes_other_arguments_is_told_which_it_is_given() -> None:
    chat = Chat(agent("root", "done", before_model_callback=lambda ctx, request: None))
    with pytest.raises(TypeError) as caught:
        await chat.say("go")
    assert "which is given `llm_request`, `callback_context` by name" in caught.value.__notes__[0]


async def test_a_missing_variable_names_agent_variable_and_line() -> None:
    with pytest.raises(MissingVariableError, match=r"`root`.*line 2.*`city`"):
        await Chat(agent("root", instruction="Help.\nThe city is {city}.")).say("go")


async def test_an_agent_without_any_model_is_named() -> None:
    with pytest.raises(ModelNotConfiguredError, match=r"`lonely`.*Set `model`"):
        await Chat(LlmAgent(name="lonely")).say("go")


async def test_an_unknown_session_is_named_with_the_remedy() -> None:
    runner = Runner(app_name="app", agent=agent(), session_service=InMemorySessionService())
    with pytest.raises(SessionNotFoundError, match=r"`nope`.*create_session"):
        async for _ in runner.run_async(user_id="ann", session_id="nope", new_message="go"):
            pass


@pytest.mark.parametrize("message", [7, {"role": "user", "parts": 3}, [7]])
async def test_a_message_that_is_none_is_refused(message: Any) -> None:
    with pytest.raises(InputValidationError, match="message"):
        await Chat(agent("root", "x")).say(message)


@pytest.mark.parametrize("wrong", [{"user_id": 42}, {"user_id": ["ann"]}, {"session_id": 7}, {"state_delta": ["a"]}])
async def test_names_and_state_of_a_run_have_their_types(wrong: dict[str, Any]) -> None:
    """A key of a database among them: it would be another user's after a reload."""
    arguments: dict[str, Any] = {"user_id": "ann", "session_id": "s1", "new_message": "go"}
    with pytest.raises(InputValidationError, match=next(iter(wrong))):
        await anext(InMemoryRunner(agent()).run_async(**(arguments | wrong)))


@pytest.mark.parametrize(
    "wrong", [{"user_id": 42}, {"user_id": ["ann"]}, {"session_id": 7}, {"state": ["a"]}, {"state": {1: 2}}]
)
async def test_names_and_state_of_a_session_have_their_types(wrong: dict[str, Any], tmp_path: Path) -> None:
    """Wherever it is stored; and a database writes what comes after that."""
    arguments: dict[str, Any] = {"app_name": "app", "user_id": "ann"}
    async with SqliteSessionService(tmp_path / "sessions.db") as database:
        for service in (InMemorySessionService(), database):
            with pytest.raises(InputValidationError, match="(?i)" + next(iter(wrong))):
                await service.create_session(**(arguments | wrong))
            with pytest.raises(InputValidationError):
                await service.get_or_create_session(**(arguments | {"session_id": "s1"} | wrong))
        with pytest.raises(TypeError):
            await database.delete_session(app_name="app", user_id=["ann"], session_id="s1")  # type: ignore[arg-type]
        assert (await database.create_session(**arguments)).user_id == "ann"


@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite+aiosqlite:///{}?mode=rwc"])
async def test_a_sqlite_file_may_be_named_by_its_url(url: str, tmp_path: Path) -> None:
    """As google-adk's service takes it."""
    file = tmp_path / "sessions.db"
    async with SqliteSessionService(url.format(file)) as by_url, SqliteSessionService(file) as by_path:
        made = await by_url.create_session(app_name="app", user_id="ann")
        assert await by_path.get_session(app_name="app", user_id="ann", session_id=made.id)


@pytest.mark.parametrize("service", [SqliteSessionService, DatabaseSessionService])
@pytest.mark.parametrize("url", ["sqlite://sessions.db", "sqlite+aiosqlite://sessions.db?mode=rwc", "mysql://host/db"])
def test_a_url_that_names_no_sqlite_file_is_refused(service: Any, url: str) -> None:
    """With two slashes, a file would be a host: nothing would be kept."""
    with pytest.raises(ConfigurationError, match="sqlite:///"):
        service(url)


def test_answers_without_their_star_are_refused() -> None:
    with pytest.raises(InputValidationError, match="is no message"):
        answers([types.Part(text="yes")])  # type: ignore[arg-type]


async def test_one_text_is_neither_a_history_nor_a_script() -> None:
    """It has letters, which are not what was meant."""
    with pytest.raises(InputValidationError, match="`history` takes a list"):
        await explain(agent(), "go", history="Hello.")
    with pytest.raises(ConfigurationError, match="takes a list of answers"):
        await assert_symmetric(agent(), "Hello.")


class Silent(BaseAgent):
    async def _run_async_impl(self, ctx: Any) -> Any:
        return "done"


class Wordy(BaseAgent):
    async def _run_async_impl(self, ctx: Any) -> Any:
        yield "done"


class Answering(BaseLlm):
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        return LlmResponse()


class Texting(BaseLlm):
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        yield "hi"


class Drafting(BaseLlm):
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        yield types.Content(role="model", parts=[types.Part(text="hi")])


class Drifting(BaseLlm):
    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="h")]), partial=True)
        yield "hi"


async def passed_on(call_next: Any, callback_context: Any, llm_request: Any) -> Any:
    async for response in call_next(llm_request):
        yield response


class Renaming(BasePlugin):
    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        return "done"


@pytest.mark.parametrize(
    ("root", "plugins", "told"),
    [
        (Silent(name="root"), [], "`_run_async_impl` of agent `root` gives a coroutine.*`yield`"),
        (Wordy(name="root"), [], "Wordy yielded 'done'"),
        (LlmAgent(name="root", model=Answering(model="m")), [], "of model `m` gives a coroutine.*`yield`"),
        (LlmAgent(name="root", model=Texting(model="m")), [], "Model `m` yields a str. .*`LlmResponse`s"),
        (LlmAgent(name="root", model=Drafting(model="m")), [], "Model `m` yields a Content. .*`LlmResponse`s"),
        (LlmAgent(name="root", model=Drifting(model="m")), [], "Model `m` yields a str."),
        (LlmAgent(name="root", model=Texting(model="m"), around_model=passed_on), [], "Model `m` yields a str."),
        (LlmAgent(name="root", model=RetryModel(Drifting(model="m"))), [], "yields a str."),
        (LlmAgent(name="root", model=FallbackModel([Drifting(model="m"), "offline"])), [], "yields a str."),
        (LlmAgent(name="root", model=RetryModel(Texting(model="m"))), [], "Model `m` yields a str."),
        (LlmAgent(name="root", model=FallbackModel([Texting(model="m"), "offline"])), [], "Model `m` yields a str."),
        (agent("root", "hi"), [Renaming("r")], "`on_event` of a plugin answered str"),
    ],
)
async def test_code_of_ones_own_that_gives_something_else_is_named(root: Any, plugins: Any, told: str) -> None:
    with pytest.raises(FlowloomError, match=told):
        await Chat(root, plugins=plugins).say("go")


def test_words_are_said_to_a_runner_and_not_to_an_agent() -> None:
    with pytest.raises(InputValidationError, match=r"an `InvocationContext`; to say .* given a str"):
        agent("root").run_async("Hi")  # type: ignore[arg-type]


@pytest.mark.parametrize("read", [pending_calls, EventsView, lambda events: [*run_stream_of(events)]])
@pytest.mark.parametrize("given", [Session(id="s", app_name="a", user_id="u"), None, "events", {}])
def test_a_session_is_not_its_events(read: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(InputValidationError, match="reads a list of events: those of a session are its `events`"):
        read(given)


def test_a_plugin_beside_a_list_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes a list of plugins"):
        PluginManager(BasePlugin("p"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["before_modell_callback", "before_model_calback", "before_model"])
def test_a_hook_that_is_misspelt_is_told_of(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """It would never be called."""

    class Mistyped(BasePlugin):
        def my_callback(self) -> None: ...

        def after_all(self) -> None: ...

    setattr(Mistyped, name, lambda self, **_: None)
    PluginManager([Mistyped("p")])
    [told] = caplog.messages
    assert told == f"Plugin `p` has `{name}`, which is never called. Is it `before_model_callback`?"
