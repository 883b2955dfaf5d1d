"""What a file may say: the form of each kind of agent (protocols spec §6). The published schema is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(extra="forbid", strict=True)
DOTTED = r"^\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$"
_NAME = r"^[A-Za-z0-9_-]+$"
_NOT_BOTH = {"not": {"required": ["model", "model_code"]}}
_ONE_OF_TWO = {"oneOf": [{"required": ["config_path"]}, {"required": ["code"]}]}
_SCHEMA_WORDS = ("type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "$defs")

Dotted = Annotated[str, Field(pattern=DOTTED)]
"""The full name of something in a Python package: `my_package.module.thing`; `.module.thing` for the file's own."""


class CodeConfig(BaseModel):
    """Something of a Python package, by its full name."""

    model_config = _STRICT
    name: Annotated[Dotted, Field(description="`my_package.module.thing`, of a package that may be imported.")]


class AgentRefConfig(BaseModel):
    """An agent that is described in another file, or made in Python."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_ONE_OF_TWO)  # pyright: ignore[reportArgumentType]
    config_path: Annotated[
        str | None, Field(min_length=1, description="A file in the folder of the root's, from here.")
    ] = None
    code: Annotated[Dotted | None, Field(description="The full name of an agent.")] = None


class ToolArgsConfig(BaseModel):
    """What a tool is made with; any keys."""

    model_config = ConfigDict(extra="allow")


class ToolConfig(BaseModel):
    """A tool by its name, with what it is made with."""

    model_config = _STRICT
    name: Annotated[
        str, Field(min_length=1, description="`load_memory`, one of the program's own, or `my_package.module.tool`.")
    ]
    args: Annotated[
        ToolArgsConfig | None, Field(description="What a class, or a function that makes tools, takes.")
    ] = None


Secrets = dict[str, str]
"""Values that may hold `${VARIABLE}`s of the environment."""


class McpServerConfig(BaseModel):
    """An MCP server: a `command` that is started, or a `url`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"oneOf": [{"required": ["command"]}, {"required": ["url"]}]},  # pyright: ignore[reportArgumentType]
    )
    command: Annotated[str | None, Field(min_length=1, description="Started for each user; needs leave.")] = None
    args: list[str] = []
    env: Annotated[Secrets | None, Field(description="Variables of the command; `${NAME}` is filled in.")] = None
    cwd: str | None = None
    url: Annotated[str | None, Field(pattern="^https?://")] = None
    headers: Annotated[Secrets | None, Field(description="Headers of each request; `${NAME}` is filled in.")] = None
    transport: Literal["http", "sse"] = "http"
    timeout: Annotated[float, Field(gt=0, description="Seconds for start, listing and each call.")] = 5.0
    tool_filter: Annotated[list[str] | None, Field(description="The tools to take; all by default.")] = None
    tool_name_prefix: str | None = None
    require_confirmation: bool | Literal["destructive"] = False
    pin_tools: Annotated[bool | str, Field(description="Whether changed tools wait for a person, or a lock file.")] = (
        False
    )
    on_unavailable: Literal["error", "skip"] = "error"
    use_mcp_resources: bool = False
    use_server_instructions: bool = False


class McpEntry(BaseModel):
    """The tools of an MCP server."""

    model_config = _STRICT
    mcp: McpServerConfig


class OpenApiDocumentConfig(BaseModel):
    """An OpenAPI document, by its file."""

    model_config = _STRICT
    spec_path: Annotated[str, Field(min_length=1, description="The document's file, from this one.")]
    base_url: Annotated[str | None, Field(pattern="^https?://")] = None
    server_variables: dict[str, str] | None = None
    credentials: Annotated[Secrets | None, Field(description="By security scheme; `${NAME}` is filled in.")] = None
    headers: Annotated[Secrets | None, Field(description="Headers of each request; `${NAME}` is filled in.")] = None
    timeout: Annotated[float, Field(gt=0, description="Seconds.")] = 30.0
    tool_filter: list[str] | None = None
    tool_name_prefix: str | None = None
    require_confirmation: bool | Literal["unsafe"] = False
    allow_private_network_access: bool = False


class OpenApiEntry(BaseModel):
    """The operations of an OpenAPI document."""

    model_config = _STRICT
    openapi: OpenApiDocumentConfig


class SkillsEntry(BaseModel):
    """The skills of a folder."""

    model_config = _STRICT
    skills: Annotated[str, Field(min_length=1, description="A folder of skills, from this file.")]


ToolEntry = str | ToolConfig | McpEntry | OpenApiEntry | SkillsEntry
CodeEntry = str | CodeConfig
"""A function or a class, by its full name."""


class InlineSchema(BaseModel):
    """A JSON schema, written in the file."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"anyOf": [{"required": [word]} for word in _SCHEMA_WORDS]},  # pyright: ignore[reportArgumentType]
    )


class BaseAgentConfig(BaseModel):
    """What every kind of agent has."""

    model_config = _STRICT
    schema_address: Annotated[str | None, Field(alias="$schema", description="For editors.")] = None
    agent_class: Annotated[str, Field(description="The kind of agent, or the full name of a class of your own.")]
    name: Annotated[str, Field(pattern=_NAME, json_schema_extra={"not": {"const": "user"}})]
    description: Annotated[str, Field(description="What the agent is for; other agents decide by it.")] = ""
    sub_agents: list[str | AgentRefConfig] | None = None
    before_agent_callbacks: list[CodeEntry] | None = None
    after_agent_callbacks: list[CodeEntry] | None = None


class LlmAgentConfig(BaseAgentConfig):
    """An agent that a model speaks for."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra=_NOT_BOTH)  # pyright: ignore[reportArgumentType]
    agent_class: str = "LlmAgent"
    model: Annotated[str | None, Field(min_length=1, description="By default that of the agent above.")] = None
    model_code: Annotated[CodeEntry | None, Field(description="A model that is made in Python.")] = None
    instruction: Annotated[str, Field(description="What the agent is to do; `{key}` is filled in from the state.")]
    static_instruction: Annotated[
        str | dict[str, Any] | None, Field(description="What never changes, so that it can be cached.")
    ] = None
    tools: list[ToolEntry] | None = None
    generate_content_config: Annotated[dict[str, Any] | None, Field(description="Settings of the model's calls.")] = (
        None
    )
    input_schema: CodeEntry | InlineSchema | None = None
    output_schema: CodeEntry | InlineSchema | None = None
    output_key: Annotated[str | None, Field(min_length=1, description="The state key of the final answer.")] = None
    include_contents: Literal["default", "none"] = "default"
    disallow_transfer_to_parent: bool | None = None
    disallow_transfer_to_peers: bool | None = None
    before_model_callbacks: list[CodeEntry] | None = None
    after_model_callbacks: list[CodeEntry] | None = None
    before_tool_callbacks: list[CodeEntry] | None = None
    after_tool_callbacks: list[CodeEntry] | None = None


class SequentialAgentConfig(BaseAgentConfig):
    """An agent that runs its sub-agents one after the other."""


class ParallelAgentConfig(BaseAgentConfig):
    """An agent that runs its sub-agents at once."""


class LoopAgentConfig(BaseAgentConfig):
    """An agent that runs its sub-agents again and again."""

    max_iterations: Annotated[int | None, Field(ge=1)] = None


class RemoteA2aAgentConfig(BaseAgentConfig):
    """An agent that is served elsewhere, by A2A."""

    agent_card: Annotated[str, Field(min_length=1, description="The address, or the file, of the agent's card.")]
    timeout: Annotated[float, Field(gt=0, description="Seconds.")] = 600.0
    headers: Annotated[Secrets | None, Field(description="Headers of each request; `${NAME}` is filled in.")] = None


class CustomAgentConfig(LlmAgentConfig):
    """An agent of a class of your own, which may have other keys."""

    model_config = ConfigDict(extra="allow", strict=True, json_schema_extra=_NOT_BOTH)  # pyright: ignore[reportArgumentType]
    agent_class: Annotated[str, Field(pattern=DOTTED, description="The full name of the class.")] = ...  # pyright: ignore[reportAssignmentType]
    instruction: str = ""


FORMS: dict[str, type[BaseAgentConfig]] = {
    "LlmAgent": LlmAgentConfig,
    "Agent": LlmAgentConfig,
    "SequentialAgent": SequentialAgentConfig,
    "ParallelAgent": ParallelAgentConfig,
    "LoopAgent": LoopAgentConfig,
    "RemoteA2aAgent": RemoteA2aAgentConfig,
}
"""The form of each kind of agent, by its `agent_class`."""
