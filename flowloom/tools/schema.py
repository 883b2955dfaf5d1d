"""From a Python function to what a model is told about it, and to checked arguments (spec §14.10).

pydantic describes and validates. What is ours: which parameters a model sees, how annotations are resolved, a schema
without noise, and errors that the model (or whoever wrote the function) can act on.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, ForwardRef, NotRequired, Optional, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict, is_typeddict

from flowloom.errors import ToolArgumentsError, ToolSignatureError, closest_first, quoted_list
from flowloom.tools.argument_errors import problem_lines
from flowloom.tools.docstrings import documentation

MAX_PROBLEMS = 20
"""How many problems one `ToolArgumentsError` spells out."""

Schema = dict[str, Any]
_Check = Callable[[Any], dict[str, Any]]
_EMPTY: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True, eq=False)
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
    _reserved: frozenset[str] = field(repr=False)
    """Parameters that are not the model's to give."""
    _check: _Check = field(repr=False)
    _check_json: Callable[[str], dict[str, Any]] = field(repr=False)
    _check_extra: _Check | None = field(repr=False)
    """Checks undeclared arguments; None if the function takes none."""

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them, by keyword: validated, and converted to the annotated types.

        What `args` leaves out is left out, so that the function's own defaults apply. `args` is not changed.
        Raises `ToolArgumentsError`, with one line for each problem.
        """
        if not self._known.issuperset(args):
            return self._bind_undeclared(args)
        try:
            return self._checked(args)
        except ValidationError as error:
            raise self._refusal(args, error.errors(include_url=False)) from error

    def _checked(self, args: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._check(args)
        except ValidationError as error:
            # A strict model reads some types, such as dates, from JSON text only, and the arguments come from there.
            try:
                text = json.dumps(args)
            except (TypeError, ValueError):
                raise error from None
            return self._check_json(text)

    def _bind_undeclared(self, args: Mapping[str, Any]) -> dict[str, Any]:
        extra = {name: value for name, value in args.items() if name not in self._known}
        unknown = [name for name in extra if self._check_extra is None or name in self._reserved]
        bound: dict[str, Any] = {}
        problems: list[ErrorDetails] = []
        for check, values in ((self._checked, args), (self._check_extra, extra)):
            if check is not None:
                try:
                    bound |= check(values)
                except ValidationError as error:
                    problems += error.errors(include_url=False)
        if unknown or problems:
            raise self._refusal(args, problems, unknown)
        return bound

    def _refusal(
        self, args: Mapping[str, Any], problems: Sequence[ErrorDetails], unknown: Sequence[str] = ()
    ) -> ToolArgumentsError:
        lines = [
            f"- `{name}`: is not a parameter; the parameters are: {quoted_list(closest_first(name, self._known))}"
            for name in unknown
        ]
        lines += problem_lines(args, problems, self.parameters)
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"- and {len(lines) - MAX_PROBLEMS} more"]
        return ToolArgumentsError("\n".join([f"The arguments do not fit the parameters of `{self.name}`:", *lines]))


def describe_callable(
    func: Callable[..., Any], *, name: str | None = None, description: str | None = None, skip: Collection[str] = ()
) -> CallableSchema:
    """Describe `func`: a function, a method, a class, a `functools.partial`, or an object with `__call__`.

    `name` and `description` stand in for the function's own name and docstring. The context parameter, the parameters
    in `skip`, and those that a `partial` fixes by keyword are neither shown to a model nor taken from it. A
    parameter's description comes from `Field(description=...)`, or else from the docstring (Google style or reST).

    Raises `ToolSignatureError` for a parameter that cannot be described, or cannot be given by name.
    """
    title = _name_of(func)
    signature = _signature_of(func, title)
    resolve = _resolver(func)
    prose, explained = documentation(func)
    hidden = {*skip, *_fixed_keywords(func)}
    context: str | None = None
    check_extra: _Check | None = None
    fields: dict[str, _Field] = {}
    for parameter in signature.parameters.values():
        if parameter.name in hidden:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise _refused(title, parameter, "takes unnamed arguments, which a model cannot give. Take a list instead.")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise _refused(title, parameter, "is positional-only, but a model gives arguments by name. Drop the `/`.")
        annotation = _annotation_of(parameter, resolve, title)
        if parameter.kind is parameter.VAR_KEYWORD:
            extras: Any = dict[str, annotation]
            check_extra = _compiled(title, parameter, extras)[0].validator.validate_python
        elif not _takes_context(parameter, annotation):
            try:
                fields[parameter.name] = _Field.of(parameter, annotation)
            except TypeError as error:
                raise _refused(title, parameter, f"has an annotation that is no type: {error}") from error
        elif context is None:
            context = parameter.name
        else:
            raise _refused(title, parameter, f"is a second context, beside `{context}`. Keep one of them.")
    adapter, raw = _compiled_fields(title, fields)
    parameters = _parameters(raw, fields, explained)
    called = _called(func)
    return CallableSchema(
        name=name or title,
        description=prose if description is None else description,
        parameters=parameters,
        context_parameter=context,
        is_async=inspect.iscoroutinefunction(called),
        is_async_generator=inspect.isasyncgenfunction(called),
        is_generator=inspect.isgeneratorfunction(called),
        _known=frozenset(parameters["properties"]),
        _reserved=frozenset(hidden if context is None else {*hidden, context}),
        _check=adapter.validator.validate_python,
        _check_json=adapter.validator.validate_json,
        _check_extra=check_extra,
    )


# -- the function ------------------------------------------------------------------------------


def _name_of(func: Callable[..., Any]) -> str:
    while isinstance(func, functools.partial):
        func = func.func
    name = getattr(func, "__name__", None)
    return name.strip("<>") if isinstance(name, str) else type(func).__name__


def _called(func: Callable[..., Any]) -> Any:
    """The function that a call of `func` runs first, or a class."""
    while isinstance(func, functools.partial):
        func = func.func
    if isinstance(func, staticmethod):
        return func.__func__
    return func if inspect.isclass(func) or inspect.isroutine(func) else type(func).__call__


def _fixed_keywords(func: Callable[..., Any]) -> Iterator[str]:
    while isinstance(func, functools.partial):
        yield from func.keywords
        func = func.func


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
    shown = parameter.replace(default=_EMPTY)
    return ToolSignatureError(f"Function `{title}`: the parameter `{shown}` {problem}")


# -- annotations -------------------------------------------------------------------------------


def _resolver(func: Callable[..., Any]) -> Callable[[Any], Any]:
    """Resolves annotations that are text, where `func` was written: its closure and enclosing functions included."""
    home = _home_of(func)
    local = _enclosing_names(home) if home is not None else {}
    globals_: dict[str, Any] = home.__globals__ if home is not None else {}
    while isinstance(func, functools.partial):
        func = func.func
    bound = getattr(func, "__self__", func)
    owner: type[Any] = cast(Any, bound if inspect.isclass(bound) else type(bound))
    if inspect.isclass(func) and func.__module__ in sys.modules:
        # The constructor may have been generated, in a namespace that holds nothing.
        globals_ = {**vars(sys.modules[func.__module__]), **globals_, "__builtins__": builtins}

    def resolve(annotation: Any) -> Any:
        def holder() -> None: ...

        holder.__annotations__ = {"it": annotation}
        try:
            return get_type_hints(holder, globals_, local, include_extras=True)["it"]
        except NameError:
            # A class nested in the method's own class. Tried last: the class may have a method named `list`.
            return get_type_hints(holder, globals_, {**vars(owner), **local}, include_extras=True)["it"]

    return resolve


def _home_of(func: Any) -> FunctionType | None:
    """The Python function whose annotations `inspect.signature` shows."""
    while True:
        if isinstance(func, functools.partial):
            func = cast(Any, func.func)
        elif inspect.ismethod(func):
            func = func.__func__
        elif hasattr(func, "__wrapped__"):
            func = getattr(func, "__wrapped__")  # noqa: B009 - the type of functions does not tell that it is there
        elif isinstance(func, FunctionType):
            return func
        elif inspect.isclass(func):
            func = func.__new__ if "__new__" in vars(func) and "__init__" not in vars(func) else func.__init__
            return func if isinstance(func, FunctionType) else None
        else:
            func = cast(Any, type(func)).__call__
            if not isinstance(func, FunctionType):
                return None


def _enclosing_names(home: FunctionType) -> dict[str, Any]:
    """Names that are neither global nor built in: of running functions around `home`, its closure, its type variables.

    A local class that only an annotation mentions is not in the closure, but it is in the frame of the enclosing
    function, which is usually still running when the tool is made.
    """
    around = home.__qualname__.split(".<locals>.")[:-1]
    outer = {".<locals>.".join(around[: depth + 1]) for depth in range(len(around))}
    found: list[dict[str, Any]] = []
    frame = inspect.currentframe() if outer else None
    while frame is not None and outer:
        if frame.f_code.co_qualname in outer and frame.f_globals is home.__globals__:
            outer.discard(frame.f_code.co_qualname)
            found.append(dict(frame.f_locals))
        frame = frame.f_back
    names: dict[str, Any] = {}
    for inner in reversed(found):
        names |= inner
    for name, cell in zip(home.__code__.co_freevars, home.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names | {variable.__name__: variable for variable in getattr(home, "__type_params__", ())}


def _annotation_of(parameter: inspect.Parameter, resolve: Callable[[Any], Any], title: str) -> Any:
    if parameter.annotation is _EMPTY:
        return Any
    try:
        return resolve(parameter.annotation)
    except Exception as error:  # whatever evaluating somebody's text may raise
        if _names_context(parameter.annotation):  # imported for type checkers only
            return parameter.annotation
        raise _refused(
            title,
            parameter,
            f"has an annotation that cannot be resolved: {error}. Import the name where the module sees it when it "
            f"runs (not under `TYPE_CHECKING` alone), or define it before the tool is made.",
        ) from error


def _takes_context(parameter: inspect.Parameter, annotation: Any) -> bool:
    return parameter.name == "tool_context" if annotation is Any else _names_context(annotation)


def _names_context(annotation: Any) -> bool:
    """Whether an annotation, resolved or text, is the context's class. By name: that class stands above this module."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        words = {word.rpartition(".")[2] for word in re.findall(r"[\w.]+", annotation)} - {"Optional", "Union", "None"}
        return bool(words) and words <= {"ToolContext", "CallbackContext", "Context"}
    origin = get_origin(annotation)
    if origin is Annotated:
        return _names_context(get_args(annotation)[0])
    if origin is Union or origin is UnionType:
        members = [member for member in get_args(annotation) if member is not NoneType]
        return bool(members) and all(map(_names_context, members))
    name = getattr(annotation, "__name__", None)
    if name == "Context" and inspect.isclass(annotation):
        # The plainest of the names may also be somebody's own data.
        return not (issubclass(annotation, BaseModel) or is_dataclass(annotation) or is_typeddict(annotation))
    return name in ("ToolContext", "CallbackContext", "Context")


# -- compiling ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    """A parameter that a model fills."""

    parameter: inspect.Parameter
    hint: Any
    """Its type as pydantic is given it."""
    description: str | None

    @classmethod
    def of(cls, parameter: inspect.Parameter, annotation: Any) -> _Field:
        base, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        default = parameter.default
        if isinstance(default, FieldInfo):
            metadata.append(default)
            default = _EMPTY
        declared = [item for item in metadata if isinstance(item, FieldInfo) and not item.is_required()]
        if declared and default is not _EMPTY:
            metadata.append(Field(default=default))  # the function's own default wins
        if base is not Any and (default is None or any(item.default is None for item in declared)):
            base = Optional[base]  # noqa: UP045 - `|` does not take every annotation
        hint = Annotated[(base, *metadata)] if metadata else base
        if declared or default is not _EMPTY:
            hint = NotRequired[hint]
        return cls(parameter, hint, next((item for item in metadata if isinstance(item, str)), None))


class _Describer(GenerateJsonSchema):
    # A default or a union member that JSON schema cannot express is left out without a warning.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def _compiled_fields(title: str, fields: Mapping[str, _Field]) -> tuple[TypeAdapter[Any], Schema]:
    """The validator and the schema of an object with these fields."""
    # Not a model: a parameter may have any name (`json`, `_x`), and only what was given is to come back.
    make = cast(Callable[..., Any], TypedDict)
    try:
        return _describable(make(title, {name: entry.hint for name, entry in fields.items()}))
    except Exception:
        for name, entry in fields.items():  # find out which of them it is
            _compiled(title, entry.parameter, make(title, {name: entry.hint}))
        raise


def _compiled(title: str, parameter: inspect.Parameter, hint: Any) -> tuple[TypeAdapter[Any], Schema]:
    try:
        return _describable(hint)
    except Exception as error:  # pydantic, or a user's schema hook
        reason = str(error).partition("\n")[0].partition(". ")[0]  # the rest is advice for authors of models
        raise _refused(
            title,
            parameter,
            f"has a type that pydantic cannot describe ({reason}). Use one that it can (a JSON type, a model, a "
            f"dataclass, an enum, ...), or `ToolContext` for the context.",
        ) from error


def _describable(hint: Any) -> tuple[TypeAdapter[Any], Schema]:
    adapter = TypeAdapter[Any](hint)
    return adapter, adapter.json_schema(schema_generator=_Describer)


def _parameters(raw: Schema, fields: Mapping[str, _Field], explained: Mapping[str, str]) -> Schema:
    """pydantic's schema as a model is shown it."""
    properties: dict[str, Schema] = raw.get("properties", {})
    for name, entry in fields.items():
        described = properties.get(name)
        if described is None:  # under an alias, or not to be shown
            continue
        about = entry.description or explained.get(name)
        if about:
            described.setdefault("description", about)
        try:
            described.setdefault("default", _as_json(entry.parameter.default))
        except TypeError:
            pass  # nothing that JSON can say, or no default at all
    defs: dict[str, Schema] = raw.get("$defs", {})
    uses = {name: set(_references(schema)) for name, schema in defs.items()}
    recursive = {name: schema for name, schema in defs.items() if name in _reached(name, uses)}
    inline = {name: schema for name, schema in defs.items() if name not in recursive}
    shown: Schema = {"type": "object", "properties": {k: _cleaned(v, inline) for k, v in properties.items()}}
    if raw.get("required"):
        shown["required"] = raw["required"]
    if recursive:
        shown["$defs"] = {name: _cleaned(schema, inline) for name, schema in recursive.items()}
    return shown


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        held = cast(Schema, node)
        if isinstance(held.get("$ref"), str):
            yield _target(held)
        for value in held.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in cast(list[Any], node):
            yield from _references(value)


def _target(schema: Schema) -> str:
    """The name of the definition that a schema refers to; empty if it refers to none."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _reached(name: str, uses: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = [name]
    while ahead:
        new = uses.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    return reached


_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_NESTED_SCHEMAS = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"})


def _cleaned(schema: Any, inline: Mapping[str, Schema]) -> Any:
    """A schema with the definitions in `inline` in their places, and without what tells a model nothing."""
    if isinstance(schema, list):
        return [_cleaned(item, inline) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    written = cast(Schema, schema)
    while _target(written) in inline:
        beside = {key: value for key, value in written.items() if key != "$ref"}
        written = inline[_target(written)] | beside
    shown: Schema = {}
    for key, value in written.items():
        if key in ("title", "discriminator") or (key, value) in (("additionalProperties", True), ("default", None)):
            continue  # titles repeat names; a discriminator points at definitions that are gone
        if key == "const":  # not every provider knows it
            shown["enum"] = [value]
        elif key in _NAMED_SCHEMAS:
            shown[key] = {name: _cleaned(item, inline) for name, item in value.items()}
        elif key in _NESTED_SCHEMAS or key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            shown[key] = _cleaned(value, inline)
        else:
            shown[key] = value
    return shown


def _as_json(value: Any) -> Any:
    """A default value as JSON data. Raises `TypeError` for one that a model could not read, and for None."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in cast(Sequence[Any], value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in cast(dict[Any, Any], value)):
        return {key: _as_json(item) for key, item in cast(Schema, value).items()}
    raise TypeError
