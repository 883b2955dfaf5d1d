"""From a Python function to what a model is told about it, and to checked arguments (spec §14.10).

pydantic describes and validates. What is ours: which parameters a model sees, how annotations are resolved, and a
schema without noise.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, NotRequired, Optional, Union, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from flowloom.context import Context, ReadonlyContext
from flowloom.errors import ToolSignatureError
from flowloom.tools.validation import read_again

Schema = dict[str, Any]
_log = logging.getLogger("flowloom.tools")
_EMPTY: Any = inspect.Parameter.empty
_OF_ANY_CALL = inspect.getdoc(type.__call__)
"""What `inspect` says of a `__call__` without a docstring."""
# Known in every annotation: these are often imported for type checkers only.
_CONTEXTS = dict.fromkeys(("CallbackContext", "Context", "ToolContext"), Context)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CallableSchema:
    """How a function is described to a model, and how its arguments are checked. `describe_callable` makes it."""

    name: str
    description: str
    parameters: Schema
    """JSON schema of an object, its properties in the order of the parameters. Shared: not to be changed."""
    context_parameter: str | None
    """The parameter that takes the tool context, which is not in `parameters`."""
    is_async: bool
    is_async_generator: bool
    is_generator: bool
    _known: frozenset[str] = field(repr=False)
    _hidden: frozenset[str] | None = field(repr=False)
    """Where any argument is taken: those that are not the model's to give."""
    _adapter: TypeAdapter[Any] = field(repr=False)
    _check: Callable[[Any], dict[str, Any]] = field(repr=False)

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them, by keyword: validated, and converted to the annotated types.

        What `args` leaves out is left out, so that the function's own defaults apply; what the function does not
        take is dropped. `args` is not changed. Raises `ToolArgumentsError`, with one line for each problem.
        """
        if not self._known.issuperset(args):
            args = self._without_strays(args)
        try:
            return self._check(args)
        except ValidationError as error:
            heading = f"The arguments do not fit the parameters of `{self.name}`:"
            return read_again(self._adapter, args, error, heading)

    def _without_strays(self, args: Mapping[str, Any]) -> dict[str, Any]:
        hidden = self._hidden
        fitting = {
            name: value
            for name, value in args.items()
            if (name in self._known if hidden is None else name not in hidden)
        }
        if len(fitting) < len(args):
            strays = [name for name in args if name not in fitting]
            _log.debug("`%s` has no parameters %s, which a model gave: they are dropped.", self.name, strays)
        return fitting


def describe_callable(
    func: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> CallableSchema:
    """Describe `func`: a function, a method, a class, a `functools.partial`, or an object with `__call__`.

    `name` and `description` stand in for the function's own name and docstring. The context parameter and those that
    a `partial` fixes by keyword are neither shown to a model nor taken from it. A parameter's description comes from
    `Field(description=...)`, or else from the docstring (Google, NumPy, reST or epydoc style).

    Raises `ToolSignatureError` for a parameter that cannot be described, or cannot be given by name.
    """
    target, hidden = func, set[str]()
    while isinstance(target, functools.partial):
        hidden |= target.keywords.keys()
        target = cast(Callable[..., Any], target.func)
    title: str = getattr(target, "__name__", type(target).__name__).strip("<>")
    signature = _signature_of(func, title)
    called = target if inspect.isroutine(target) or inspect.isclass(target) else cast(Any, type(target)).__call__
    written = inspect.getdoc(called), inspect.getdoc(target)
    docstrings: Any = import_module("flowloom.tools.docstrings")  # its patterns wait for a first function
    prose, explained = docstrings.split_docstring(next((t for t in written if t and t != _OF_ANY_CALL), ""))
    names = _names_around(inspect.unwrap(called))
    context: str | None = None
    takes_any = False
    hints: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.name in hidden:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            kind = parameter.kind.description
            raise _refused(title, parameter, f"is {kind}, but a model names its arguments. Drop the `*` or `/`.")
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
            continue
        try:
            hint = _hint_of(parameter, names, explained.get(parameter.name))
        except Exception as error:  # whatever evaluating a user's text may raise
            remedy = "Import the name where the module sees it when it runs, not under `TYPE_CHECKING` alone."
            raise _refused(title, parameter, f"has an annotation that cannot be resolved: {error}. {remedy}") from error
        if hint is not Context:
            hints[parameter.name] = hint
        elif context is None:
            context = parameter.name
        else:
            raise _refused(title, parameter, f"is a second context, beside `{context}`. Keep one of them.")
    adapter, raw = _compiled(title, signature, hints, takes_any)
    parameters = _parameters(raw, signature)
    return CallableSchema(
        name=name or title,
        description=prose if description is None else description,
        parameters=parameters,
        context_parameter=context,
        is_async=inspect.iscoroutinefunction(called),
        is_async_generator=inspect.isasyncgenfunction(called),
        is_generator=inspect.isgeneratorfunction(called),
        _known=frozenset(parameters["properties"]),
        _hidden=frozenset(hidden | {context or ""}) if takes_any else None,
        _adapter=adapter,
        _check=adapter.validator.validate_python,
    )


def _signature_of(func: Callable[..., Any], title: str) -> inspect.Signature:
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError, NameError) as error:
        raise ToolSignatureError(
            f"The signature of `{title}` cannot be read: {error}. Wrap it in a function with annotated parameters."
        ) from error
    first = next(iter(signature.parameters.values()), None)
    if first is not None and first.name in ("self", "cls") and first.annotation is _EMPTY:
        raise _refused(title, first, "is not filled. Pass the method of an instance, not the one of the class.")
    return signature


def _refused(title: str, parameter: inspect.Parameter, problem: str) -> ToolSignatureError:
    return ToolSignatureError(f"Function `{title}`: the parameter `{parameter.replace(default=_EMPTY)}` {problem}")


# -- annotations -------------------------------------------------------------------------------


def _names_around(home: Any) -> dict[str, Any]:
    """The names that an annotation of `home` may use when it is text (`from __future__ import annotations`)."""
    module = sys.modules.get(getattr(home, "__module__", None) or "", builtins)
    known: dict[str, Any] = getattr(home, "__globals__", vars(module))
    # A local class that only an annotation mentions is not in the closure, but in the frame of the enclosing
    # function, which usually still runs when the tool is made.
    outer = home.__qualname__.rpartition(".<locals>.")[0]
    local: dict[str, Any] = {}
    frame = inspect.currentframe() if outer else None
    while frame is not None:
        if f"{outer}.".startswith(f"{frame.f_code.co_qualname}.") and frame.f_globals is known:
            local = {**frame.f_locals, **local}
        frame = frame.f_back
    if inspect.isfunction(home):
        for name, cell in zip(home.__code__.co_freevars, home.__closure__ or (), strict=True):
            with suppress(ValueError):  # not assigned yet
                local[name] = cell.cell_contents
    return {**_CONTEXTS, **known, **local}


def _hint_of(parameter: inspect.Parameter, names: dict[str, Any], about: str | None) -> Any:
    """The type of a parameter as pydantic is given it; `Context` for the one that takes the context."""
    written = SimpleNamespace(__annotations__={"it": Any if parameter.annotation is _EMPTY else parameter.annotation})
    annotation = get_type_hints(written, names, include_extras=True)["it"]
    if _takes_context(parameter, annotation):
        return Context
    base, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    metadata = [Field(description=item) if isinstance(item, str) else item for item in metadata]
    if about:
        metadata.insert(0, Field(description=about))  # what comes later wins
    default = parameter.default
    if isinstance(default, FieldInfo):
        metadata.append(default)
        default = _EMPTY if default.is_required() else default.default
    if default is None and base is not Any:
        base = Optional[base]  # noqa: UP045 - `|` does not take every annotation
    hint = Annotated[(base, *metadata)] if metadata else base
    return hint if default is _EMPTY else NotRequired[hint]


def _takes_context(parameter: inspect.Parameter, annotation: Any) -> bool:
    if annotation is Any:
        return parameter.name == "tool_context"
    members = get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else (annotation,)
    return any(inspect.isclass(member) and issubclass(member, ReadonlyContext) for member in members)


# -- compiling ---------------------------------------------------------------------------------


class _Describer(GenerateJsonSchema):
    # A default or a union member that JSON schema cannot express is left out without a warning.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def _compiled(
    title: str, signature: inspect.Signature, hints: Mapping[str, Any], takes_any: bool
) -> tuple[TypeAdapter[Any], Schema]:
    """The validator and the schema of an object with these fields."""
    try:
        # Not a model: a parameter may have any name (`json`, `_x`), and only what was given is to come back.
        fields = cast(Any, TypedDict)(title, hints)
        fields.__pydantic_config__ = ConfigDict(extra="allow" if takes_any else "ignore")
        adapter = TypeAdapter[Any](fields)
        return adapter, adapter.json_schema(schema_generator=_Describer)
    except Exception as error:  # pydantic, or a user's schema hook
        if len(hints) > 1:
            for name, hint in hints.items():  # find out which of them it is
                _compiled(title, signature, {name: hint}, False)
        reason = str(error).partition("\n")[0].partition(". ")[0]  # the rest is advice for authors of models
        raise _refused(
            title,
            signature.parameters[next(iter(hints))],
            f"has a type that pydantic cannot describe ({reason}). Use one that it can (a JSON type, a model, a "
            f"dataclass, an enum, ...), or `ToolContext` for the context.",
        ) from error


def _parameters(raw: Schema, signature: inspect.Signature) -> Schema:
    """pydantic's schema as a model is shown it."""
    properties: dict[str, Schema] = raw.get("properties", {})
    for name in properties.keys() & signature.parameters.keys():
        default = signature.parameters[name].default
        if default is not _EMPTY:
            with suppress(PydanticSerializationError, ValueError):  # nothing that JSON can say
                properties[name].setdefault("default", to_jsonable_python(default, inf_nan_mode="null"))
    recursive: dict[str, Schema] = {}
    inside = {name: _shown(held, raw.get("$defs", {}), recursive) for name, held in properties.items()}
    shown: Schema = {"type": "object", "properties": inside, "required": raw.get("required"), "$defs": recursive}
    return {key: value for key, value in shown.items() if value or key == "properties"}


def _shown(schema: Schema, definitions: Schema, recursive: Schema, above: tuple[str, ...] = ()) -> Schema:
    """A schema with definitions in their places, and without what tells a model nothing.

    Definitions that contain themselves stay, and are collected in `recursive`; `above` are those around `schema`.
    """
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in above and name not in recursive:
        recursive[name] = {}  # so that it is not done again inside itself
        recursive[name] = _shown(definitions[name], definitions, recursive, (name,))
    elif name and name not in above:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        whole = _shown(definitions[name] | beside, definitions, recursive, (*above, name))
        if name not in recursive:
            return whole
    shown: Schema = {}
    for key, value in schema.items():
        if key in ("title", "discriminator") or (key, value) in (("additionalProperties", True), ("default", None)):
            continue  # titles repeat names; a discriminator points at definitions that are gone
        if key == "const":  # not every provider knows it
            key, value = "enum", [value]
        elif key in ("properties", "patternProperties"):
            value = {name: _shown(held, definitions, recursive, above) for name, held in value.items()}
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            value = [_shown(held, definitions, recursive, above) for held in value]
        elif key in ("items", "additionalProperties", "propertyNames") and not isinstance(value, bool):
            value = _shown(value, definitions, recursive, above)
        shown[key] = value
    return shown
