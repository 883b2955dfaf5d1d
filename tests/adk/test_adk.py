"""`flowloom.adk`: google-adk's module paths, so that one word is the whole change of imports."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import subprocess
import sys
from types import ModuleType

import pytest
from adk.stubs import found, stubs
from adk_names import EXPORTED, MODULES, NAMES

import flowloom
from flowloom.adk.table import HOMES, INSTEAD, PATHS
from flowloom.errors import FlowloomError, NotInFlowloomError


def module_at(path: str) -> ModuleType:
    return importlib.import_module(f"flowloom.adk.{path}".rstrip("."))


def refused(code: str) -> str:
    """What an import is refused with."""
    with pytest.raises(NotInFlowloomError) as raised:
        exec(code, {})
    assert isinstance(raised.value, ImportError)
    assert isinstance(raised.value, FlowloomError)
    return str(raised.value)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_has_its_names(path: str) -> None:
    """Each is the object that flowloom has, by whichever path it comes."""
    module = module_at(path)
    for name in PATHS[path]:
        home, own_name = HOMES[name]
        assert getattr(module, name) is getattr(importlib.import_module(home), own_name)
    star: dict[str, object] = {}
    exec(f"from {module.__name__} import *", star)
    assert {*PATHS[path]} == {*star} - {"__builtins__"}
    assert {*PATHS[path]} <= {*dict(inspect.getmembers(module))}


def test_no_name_is_left_out() -> None:
    """What users of google-adk import is at one of its paths, or what to use instead is said."""
    of_workflow = "BaseNode Node node FunctionNode JoinNode Edge START DEFAULT_ROUTE".split()
    assert [name for name in (*NAMES, *EXPORTED) if name not in HOMES and name not in INSTEAD] == of_workflow
    assert {name for names in PATHS.values() for name in names} == {*HOMES}
    paths = [path.removeprefix("google.adk").lstrip(".") for path in MODULES]
    assert [path for path in paths if path not in PATHS and path.partition(".")[0] not in INSTEAD] == []


def test_all_ways_to_import_lead_to_the_same_class() -> None:
    """By the package, by the module, as a module, and as an attribute of what was imported."""
    import flowloom.adk.agents.llm_agent as module
    from flowloom.adk import Agent
    from flowloom.adk.agents import LlmAgent, llm_agent

    assert module is llm_agent
    assert flowloom.adk.agents.llm_agent is module
    assert Agent is LlmAgent is module.LlmAgent is flowloom.LlmAgent
    assert flowloom.adk.sessions.state.State is flowloom.State  # without an import of its own


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runners", "RunConfig"),
        ("agents.llm_agent", "CallbackContext"),
        ("plugins.base_plugin", "CallbackContext"),
        ("auth.credential_service.base_credential_service", "CallbackContext"),
        ("sessions.in_memory_session_service", "Session"),
        ("tools.mcp_tool.mcp_toolset", "StdioConnectionParams"),
        ("tools.mcp_tool.mcp_toolset", "SseServerParams"),
    ],
)
def test_a_module_gives_what_it_works_with(path: str, name: str) -> None:
    """As google-adk's do, whose users import it from there; a package gives its own names only."""
    home, own_name = HOMES[name]
    assert getattr(module_at(path), name) is getattr(importlib.import_module(home), own_name)
    assert name not in module_at(path).__all__
    assert not hasattr(module_at("planners"), name)


def test_the_programs_of_mcp_servers_are_described_by_the_name_of_the_sdk() -> None:
    """`StdioServerParameters` comes by google-adk's modules, without the SDK."""
    from flowloom.adk.tools.mcp_tool.mcp_session_manager import StdioConnectionParams, StdioServerParameters

    given = StdioConnectionParams(server_params=StdioServerParameters(command="npx", args=["-y", "server"]))
    assert [given.server.command, *given.server.args] == ["npx", "-y", "server"]


def test_nothing_is_loaded_before_it_is_used() -> None:
    """A path costs nothing, a name what its own room costs; and who does not ask for it, never meets it."""
    code = (
        "import sys, flowloom.adk.agents.llm_agent, flowloom.adk.models\n"
        "print({'google.genai', 'flowloom.agents', 'flowloom.events'} & {*sys.modules})\n"
        "import flowloom; flowloom.LlmAgent; print('flowloom.adk.table' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["set()", "True"]
    ran = subprocess.run(
        [sys.executable, "-c", "import sys, flowloom; flowloom.LlmAgent; print('flowloom.adk' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["False"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("from flowloom.adk.agents import LangGraphAgent", "`BaseAgent`"),
        ("import flowloom.adk.workflow", "`SequentialAgent`"),
        ("from flowloom.adk.workflow import node", "`SequentialAgent`"),
        ("from flowloom.adk import Workflow", "`SequentialAgent`"),
        ("from flowloom.adk.flows.llm_flows.base_llm_flow import BaseLlmFlow", "`Flow.with_processor`"),
        ("from flowloom.adk.models.lite_llm import LiteLlm", "`flowloom.OpenAIModel`"),
        ("from flowloom.adk.sessions import Runner", "in `flowloom.adk`"),
        ("from flowloom.adk.agents import LlmAgnt", "there is: `LlmAgent`"),
        ("import flowloom.adk.agnts", "there is: `agents`"),
        ("from flowloom.adk.tools.example_tool import ExampleTool", "`LlmAgent(instruction=)`"),
        ("from flowloom.adk.tools.get_user_choice_tool import get_user_choice", "`flowloom.adk.tools.request_input`"),
        ("from flowloom.adk.tools.bigquery.bigquery_toolset import BigQueryToolset", "of your own"),
        ("from flowloom.adk.tools.langchain_tool import LangchainTool", "a function"),
        ("from flowloom.adk.tools.google_api_tool import GoogleApiToolset", "OpenAPIToolset`"),
        ("from flowloom.adk.tools.openapi_tool.auth.auth_helpers import token_to_scheme_credential", "AuthScheme`"),
        ("from flowloom.adk.artifacts.gcs_artifact_service import GcsArtifactService", "or `BaseArtifactService`"),
        ("from flowloom.adk.sessions.vertex_ai_session_service import VertexAiSessionService", "a store of your own"),
        ("from flowloom.adk.code_executors import ContainerCodeExecutor", "of your own"),
        (
            "from flowloom.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin",
            "(global_instruction=)`",
        ),
        ("from flowloom.adk.plugins import SaveFilesAsArtifactsPlugin", "(save_input_blobs_as_artifacts=True)`"),
        ("from flowloom.adk.events.request_input import RequestInput", "`Context.request_input`"),
        ("from flowloom.adk.errors.not_found_error import NotFoundError", "`SessionNotFoundError`"),
        ("from flowloom.adk.examples import Example", "`LlmAgent(instruction=)`"),
        ("from flowloom.adk.cli.utils import envs", "`flowloom web`"),
        ("from flowloom.adk.version import __version__", "`flowloom.__version__`"),
    ],
)
def test_what_is_not_there_says_where_the_thing_is(code: str, told: str) -> None:
    """Of a path as well as of a name; it is an `ImportError`, as code expects that tries one."""
    assert told in refused(code)


def test_looking_for_a_name_is_no_import() -> None:
    """`hasattr` and `pydoc` work on every path."""
    module = module_at("agents")
    assert not hasattr(module, "LangGraphAgent")
    with pytest.raises(AttributeError, match="`BaseAgent`"):
        _ = module.LangGraphAgent
    assert pydoc.locate("flowloom.adk.agents.LlmAgent") is flowloom.LlmAgent
    assert "LlmAgent" in pydoc.render_doc(module_at("agents.llm_agent"), renderer=pydoc.plaintext)


def test_what_is_loaded_again_is_the_same() -> None:
    """A reload makes no second finder of modules, and the classes stay those that they were."""
    finders = len(sys.meta_path)
    for path in ("agents", "agents.llm_agent", ""):
        module = module_at(path)
        assert importlib.reload(module) is module
        assert module.LlmAgent is flowloom.LlmAgent if path else module.Agent is flowloom.LlmAgent
    assert len(sys.meta_path) == finders


def test_what_stands_in_place_of_others_exists() -> None:
    """Each name in backticks that is flowloom's can be had."""
    for text in INSTEAD.values():
        for code in (each for each in text.split("`")[1::2] if each.startswith("flowloom.")):
            assert pydoc.locate(code) is not None, code


def test_type_checkers_see_the_same_table() -> None:
    """The stubs are made from it: `python tests/adk/stubs.py`."""
    assert found() == stubs()
