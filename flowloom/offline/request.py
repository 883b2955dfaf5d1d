"""What a request tells the offline model: what was asked, done and heard in this turn, and what it may call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from google.genai import types
from pydantic import PydanticUserError, TypeAdapter

from flowloom.errors import ModelRequestError
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest
from flowloom.schemas.keywords import keywords_of

LABEL = "[offline]"
"""How each text of the offline model begins."""
ASKS_BACK = "Please tell me"
"""How it asks for what it needs to know."""

_TOLD = re.compile(r"\[([\w-]+)\] (said:|called tool `([^`]+)` with parameters:|tool `[^`]+` returned:) ?(.*)", re.S)
_IDENTITY = re.compile(r'(?:You are the agent|[Nn]ame is) "([^"]+)"')
_PARENT = re.compile(r"hand over to `([\w-]+)`")
_TRANSFER = "transfer_to_agent"


@dataclass(slots=True)
class Function:
    """A function that may be called."""

    name: str
    description: str
    schema: dict[str, Any]
    """The JSON schema of its arguments."""

    @property
    def properties(self) -> dict[str, Any]:
        return cast(dict[str, Any], self.schema.get("properties") or {})

    @property
    def required(self) -> list[str]:
        return cast(list[str], self.schema.get("required") or [])

    @property
    def texts(self) -> list[str]:
        """What is said about its parameters."""
        texts = list(self.properties)
        for schema in map(keywords_of, self.properties.values()):
            texts += [str(schema.get("description") or ""), *map(str, schema.get("enum") or ())]
        return texts


@dataclass(slots=True)
class Done:
    """A call of this agent's and its result."""

    name: str
    args: dict[str, Any]
    result: Any


@dataclass(slots=True)
class View:
    """A request, read."""

    agent: str = ""
    instruction: str = ""
    ask: str = ""
    """The user's latest words."""
    earlier: list[str] = field(default_factory=list[str])
    """What the user said before that, the latest first."""
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values that were handed over by name: a message in JSON."""
    done: list[Done] = field(default_factory=list[Done])
    """The calls since the user's latest words."""
    unreported: list[Done] = field(default_factory=list[Done])
    """Those of them whose results nothing has been said about."""
    previous: Done | None = None
    """The last call before the user's latest words."""
    own_texts: list[str] = field(default_factory=list[str])
    heard: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Who else said what since the user's latest words."""
    visited: set[str] = field(default_factory=set[str])
    """The agents that have had their turn since then."""
    handed_over: bool = False
    """Whether another agent chose this one for the user's latest words."""
    asked_back: bool = False
    """Whether this agent's last words before that were a question."""
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    targets: dict[str, str] = field(default_factory=dict[str, str])
    """The agents that can be handed over to, with their descriptions."""
    parent: str = ""
    response_schema: dict[str, Any] | None = None


def read(request: LlmRequest) -> View:
    """The request as the offline model sees it; nothing in it is changed."""
    view = View()
    system = _text_of(cast(Any, request.config).system_instruction)
    identity = _IDENTITY.search(system)
    view.agent = identity.group(1) if identity else ""
    view.instruction = system[: identity.start()].strip() if identity else system
    parent = _PARENT.search(system)
    view.parent = parent.group(1) if parent else ""
    for function in _functions(request):
        view.functions[function.name] = function
    transfer = view.functions.pop(_TRANSFER, None)
    if transfer is not None:
        names = keywords_of(transfer.properties.get("agent_name")).get("enum") or ()
        view.targets = {name: _description_of(name, system) for name in names}
    view.response_schema = _response_schema(request.config)
    contents = request.contents
    _read_contents(view, contents.plain() if isinstance(contents, SharedContents) else contents)
    return view


def _read_contents(view: View, contents: Iterable[types.Content]) -> None:
    open_calls: list[types.FunctionCall] = []
    for content in contents:
        told: list[re.Match[str]] = []
        texts: list[str] = []
        answers = False
        for part in content.parts or ():
            answers = answers or part.function_response is not None
            if part.function_call is not None:
                open_calls.append(part.function_call)
            elif part.function_response is not None:
                _take_result(view, open_calls, part.function_response)
            elif part.text and not part.thought:
                match = _TOLD.fullmatch(part.text) if content.role == "user" else None
                told += [match] if match else []
                texts += [] if match else [part.text]
        if told:
            _take_told(view, told)
        elif texts and content.role == "user":
            if not answers:  # a text beside a result tells about that result
                _begin_turn(view, texts)
        elif texts:
            view.own_texts.append("".join(texts))
            view.unreported = []


def _begin_turn(view: View, texts: list[str]) -> None:
    if view.ask:
        view.earlier.insert(0, view.ask)
    view.asked_back = bool(view.own_texts) and ASKS_BACK in view.own_texts[-1]
    view.previous = view.done[-1] if view.done else view.previous
    view.done, view.unreported, view.own_texts, view.heard = [], [], [], []
    view.visited, view.handed_over = set(), False
    view.ask, view.given = " ".join(texts).strip(), {}
    data = _json_object(texts[0])
    if data is not None:
        view.given = data
        view.ask = " ".join(str(value) for value in data.values() if isinstance(value, str | int | float))


def _take_result(view: View, open_calls: list[types.FunctionCall], answer: types.FunctionResponse) -> None:
    for index, call in enumerate(open_calls):
        if call.id == answer.id and call.name == answer.name:
            del open_calls[index]
            done = Done(call.name or "", call.args or {}, answer.response)
            view.done.append(done)
            view.unreported.append(done)
            return


def _take_told(view: View, told: list[re.Match[str]]) -> None:
    for match in told:
        author, what, tool, rest = match.groups()
        view.visited.add(author)
        if what == "said:":
            view.heard.append((author, rest.removeprefix(LABEL).strip()))
        elif tool == _TRANSFER:
            view.handed_over = (_json_object(rest) or {}).get("agent_name") == view.agent


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], data) if isinstance(data, dict) else None


def _text_of(instruction: Any) -> str:
    """A system instruction in any of its forms as one text."""
    if instruction is None or isinstance(instruction, str):
        return instruction or ""
    if isinstance(instruction, list | tuple):
        return "\n\n".join(_text_of(item) for item in cast(Iterable[Any], instruction))
    parts: Iterable[Any] = getattr(instruction, "parts", None) or (instruction,)
    return "\n\n".join(str(getattr(part, "text", None) or "") for part in parts)


def _functions(request: LlmRequest) -> Iterable[Function]:
    groups: list[Any] = cast(Any, request.config).tools or []
    for group in groups:
        for declared in (group.function_declarations or ()) if isinstance(group, types.Tool) else ():
            schema: Any = declared.parameters_json_schema
            if schema is None and declared.parameters is not None:
                schema = _as_json_schema(declared.parameters)
            yield Function(declared.name or "", declared.description or "", keywords_of(schema))


def _response_schema(config: types.GenerateContentConfig) -> dict[str, Any] | None:
    """What the answer has to be like, if the request says so. Raises `ModelRequestError` for what is no schema."""
    for setting in ("response_schema", "response_json_schema"):
        given: Any = getattr(config, setting)
        if given is None:
            continue
        try:
            return _as_json_schema(given)
        except PydanticUserError as error:
            raise ModelRequestError(
                f"The request to the offline model cannot be read: `config.{setting}` is {given!r:.100}, of which no "
                f"JSON schema can be made. Give a JSON schema (an object), a `types.Schema` or a type.",
                model="offline",
            ) from error
    return None


def _as_json_schema(given: Any) -> dict[str, Any]:
    if isinstance(given, dict | bool):
        return keywords_of(given)
    if isinstance(given, types.Schema):
        return given.json_schema.model_dump(mode="json", exclude_none=True)
    return TypeAdapter(given).json_schema()


def _description_of(name: str, system: str) -> str:
    """What the system instruction says about an agent that can be handed over to."""
    match = re.search(rf"(?:^|\n)(?:- |Agent name: ){re.escape(name)}(?::|\n(?:Agent description:)?)(.*)", system)
    return match.group(1).strip() if match else ""
