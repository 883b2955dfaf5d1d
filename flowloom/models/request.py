"""`LlmRequest`: everything that one model call is given (spec §0.2, §3.7)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, cast

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from flowloom.errors import ConfigurationError, DuplicateToolError
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.response import LlmResponse
from flowloom.events.wire import assemble, copier, fields_of, fields_slot, replace, set_private, stored_fields
from flowloom.models.contents import SharedContents, UnreadContents

EMPTY_CONFIG = types.GenerateContentConfig.model_construct()
"""A config without settings, to be copied; made without building its validator, which costs 10 ms."""
_empty_config = copier(EMPTY_CONFIG)


class Dropped(list[LlmResponse]):
    """Answers that a model around others has not given out. Copies of a request share them."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Dropped":
        return self


class Origin(NamedTuple):
    """Whose request it is. Requests are compared without that."""

    agent: str
    step: int
    dropped: Dropped
    """Answers to it that were paid, and are no events."""
    making: Any = None
    """How the request came about (a `Making`), if that was observed."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class DeclaredTool(Protocol):
    """What a request needs to know of a tool."""

    @property
    def name(self) -> str: ...

    def __declare__(self) -> types.FunctionDeclaration | None:
        """How the tool is described to a model; None for a tool that is run but not declared."""
        ...


class ToolBlock:
    """Tools that are registered together, looked at once.

    Raises `DuplicateToolError` for two of one name, `ConfigurationError` for a reserved one.
    """

    __slots__ = ("declarations", "tools")

    def __init__(self, tools: Sequence[DeclaredTool]) -> None:
        self.tools: dict[str, DeclaredTool] = {}
        self.declarations: list[types.FunctionDeclaration] = []
        for tool in tools:
            check_name(tool)
            if tool.name in self.tools:
                raise _duplicate(tool.name, self.tools[tool.name], tool)
            self.tools[tool.name] = tool
            declaration = tool.__declare__()
            if declaration is not None:
                self.declarations.append(declaration)


def check_name(tool: DeclaredTool) -> None:
    """Raise `ConfigurationError` for a tool of a name by which only the engine asks people."""
    if tool.name in RESERVED_CALLS and not getattr(tool, "asks_people", False):
        raise ConfigurationError(
            f"{tool!r} is named `{tool.name}`, which is reserved: by that name the engine asks people. Rename the tool."
        )


def _duplicate(name: str, first: object, second: object) -> DuplicateToolError:
    return DuplicateToolError(
        f"Two tools are named `{name}`: {first!r} and {second!r}. Rename one, or give its toolset a `tool_name_prefix`."
    )


SHORT = 200
"""Up to how many contents a list of them is made at once."""


class LlmRequest(BaseModel):
    """One model call: model name, contents, generation config, and the tools behind the declarations.

    The contents of a history (`show`) become a list when they are looked at first: until then a request costs the same
    however long the history is.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, defer_build=True, protected_namespaces=())

    model: str | None = None
    contents: list[types.Content] = Field(default_factory=list[types.Content])
    config: types.GenerateContentConfig = Field(default_factory=types.GenerateContentConfig)
    live_connect_config: types.LiveConnectConfig | None = None
    tools_dict: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """Tool objects by name. Never serialised."""
    cache_config: Any | None = None
    cache_metadata: Any | None = None
    cacheable_contents_token_count: int | None = None
    previous_interaction_id: str | None = None
    service_tier: str | None = None
    server_tools: list[dict[str, Any]] | None = Field(default=None, exclude=True, repr=False)
    """Tools that the model's provider runs, beside those in `config.tools` for which google-genai has a type: each with
    its `kind` and its `options`, or as the provider has it (`raw`). Never serialised: they may hold credentials."""
    dynamic_instructions: list[str] = Field(default_factory=list[str], exclude=True)
    """Instructions that belong with the contents, because the agent's static instruction is the system's."""
    _origin: Origin | None = PrivateAttr(default=None)

    __slots__ = ("_unread",)  # beside the fields: where `contents` come from, while those are no list yet

    def show(self, contents: list[types.Content], special: list[int]) -> None:
        """Make `contents` those of a history (see `SharedContents`), which may grow meanwhile.

        `special` holds the indices of the special ones. A short history is copied at once, which costs less than a look
        later.
        """
        values, length = stored_fields(self), len(contents)
        if length <= SHORT:
            values["contents"] = SharedContents(contents, special)
        else:
            values.pop("contents", None)
            object.__setattr__(self, "_unread", UnreadContents(contents, length, special, len(special)))

    @property
    def shows_words_only(self) -> bool:
        """Whether the contents hold nothing but words, calls and results, as far as is known without a look."""
        contents = stored_fields(self).get("contents")
        if contents is None:
            return not _unread_of(self).special_length
        return isinstance(contents, SharedContents) and contents.special == () and not contents.touched

    def hand_over(self, origin: Origin) -> None:
        """Give the request to a model, which only reads: its contents as a list that copies nothing looked at."""
        set_origin(self, origin)
        values = stored_fields(self)
        contents = values.get("contents")
        if contents is None:
            object.__setattr__(self, "_unread", _unread_of(self).only_read())
        elif isinstance(contents, SharedContents):
            values["contents"] = contents.plain()

    def __getattr__(self, name: str) -> Any:
        return fields_of(self)[name] if name == "contents" else super().__getattr__(name)  # pyright: ignore

    def _whole(self) -> dict[str, Any]:
        """The field values, all of them: whatever reads, copies or serialises a request asks for its `__dict__`."""
        values = stored_fields(self)
        if "contents" not in values and hasattr(self, "_unread"):
            values["contents"] = _unread_of(self).read()
        return values

    if not TYPE_CHECKING:
        __dict__ = property(_whole, fields_slot.__set__)

    @classmethod
    def empty(cls, model: str | None) -> Self:
        """A request with nothing in it but the name of the `model`; no validation, about 2 µs."""
        fields: dict[str, Any] = _NOTHING.copy()
        fields["model"], fields["config"] = model, _empty_config()
        fields["contents"], fields["tools_dict"], fields["dynamic_instructions"] = [], {}, []
        return assemble(cls, fields, set(), None, _NO_ORIGIN)

    @property
    def agent(self) -> str | None:
        """The name of the agent whose request it is; None before its model is asked."""
        return None if self._origin is None else self._origin.agent

    @property
    def step(self) -> int | None:
        """Which of the agent's steps in the invocation it is of, counted from 0; None before its model is asked."""
        return None if self._origin is None else self._origin.step

    def append_instructions(self, instructions: str | Iterable[str] | types.Content) -> None:
        """Append `instructions` to the system instruction, a blank line between any two. Empty ones are left out."""
        if not isinstance(instructions, str):
            if isinstance(instructions, types.Content):
                instructions = [part.text or "" for part in instructions.parts or ()]
            instructions = "\n\n".join(filter(None, instructions))
        if not instructions:
            return
        values, text = stored_fields(self.config), instructions
        current: Any = values["system_instruction"]
        if current:
            text = f"{current}\n\n{text}" if isinstance(current, str) else _append_to_content(current, text)
        values["system_instruction"] = text

    def append_tools(self, tools: Sequence[DeclaredTool] | ToolBlock) -> None:
        """Register `tools`, and declare those that have a declaration in one common group.

        Raises `DuplicateToolError` when a tool of that name is registered already.
        """
        block = tools if isinstance(tools, ToolBlock) else ToolBlock(tools)
        registered = self.tools_dict
        if registered and not registered.keys().isdisjoint(block.tools):
            name = next(name for name in block.tools if name in registered)
            raise _duplicate(name, registered[name], block.tools[name])
        registered.update(block.tools)
        if not block.declarations:
            return
        config = stored_fields(self.config)
        groups: list[Any] = [*(config["tools"] or ())]
        for index, group in enumerate(groups):
            if isinstance(group, types.Tool) and group.function_declarations:
                merged = replace(group, function_declarations=[*group.function_declarations, *block.declarations])
                groups[index] = merged
                break
        else:
            groups.append(_tool(function_declarations=block.declarations.copy()))
        config["tools"] = groups

    def set_output_schema(self, output_schema: Any) -> None:
        """Ask for JSON of `output_schema`: a pydantic model, a type, a `types.Schema` or a JSON schema dict."""
        self.config.response_schema = output_schema
        self.config.response_mime_type = "application/json"


_NOTHING = {name: field.default for name, field in LlmRequest.model_fields.items()}
_NO_ORIGIN: dict[str, Any] = {"_origin": None}


def set_origin(request: LlmRequest, origin: Origin) -> None:
    """Note whose request it is. Copies share what is noted, so that it is never changed in place."""
    set_private(request, {**(request.__pydantic_private__ or _NO_ORIGIN), "_origin": origin})


def origin_of(request: LlmRequest) -> Origin | None:
    """Whose request it is; None before its model is asked."""
    return request._origin  # pyright: ignore[reportPrivateUsage]


def note_dropped(request: LlmRequest, response: LlmResponse) -> None:
    """Say that a model around others does not give out an answer to a request: whoever asked has paid it."""
    origin = origin_of(request)
    if origin is not None and response.usage_metadata is not None:
        origin.dropped.append(response)


def snapshot(request: LlmRequest) -> LlmRequest:
    """The request as it is now: later changes of its lists and config do not reach the copy."""
    contents = request.contents
    return replace(
        request,
        contents=contents.again() if isinstance(contents, SharedContents) else list(contents),
        config=replace(request.config),
        tools_dict=dict(request.tools_dict),
        server_tools=request.server_tools and list(request.server_tools),
    )


def http_options_of(request: LlmRequest) -> types.HttpOptions:
    """A copy of the request's HTTP options, or fresh ones."""
    options: Any = request.config.http_options
    if isinstance(options, Mapping):
        return types.HttpOptions.model_validate(options)
    return types.HttpOptions() if options is None else replace(cast(types.HttpOptions, options))


def _unread_of(request: LlmRequest) -> UnreadContents:
    return request._unread  # type: ignore[attr-defined] # pyright: ignore


_tool = copier(types.Tool.model_construct())


def _append_to_content(current: Any, text: str) -> types.Content:
    """Grow a system instruction that is not plain text by one text part."""
    if isinstance(current, types.Content):
        parts = list(current.parts or ())
        return types.Content(role=current.role or "user", parts=[*parts, types.Part(text=text)])
    items: list[Any] = list(current) if isinstance(current, list | tuple) else [current]  # pyright: ignore[reportUnknownArgumentType]
    parts = [types.Part(text=item) if isinstance(item, str) else types.Part.model_validate(item) for item in items]
    return types.Content(role="user", parts=[*parts, types.Part(text=text)])
