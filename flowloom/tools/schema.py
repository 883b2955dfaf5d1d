"""From a Python function to what a model is told about it, and to checked arguments (spec §14.10).

pydantic describes and validates. What is ours: which parameters a model sees, how annotations are resolved, a schema
without noise, and errors that a model (or whoever wrote the function) can act on.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from types import FunctionType, MethodType, NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails
from typing_extensions import NotRequired, TypedDict, is_typeddict

from flowloom.errors import ToolArgumentsError, ToolSignatureError, closest_first, quoted_list

MAX_PROBLEMS = 20
"""How many problems one `ToolArgumentsError` spells out."""

_CONTEXT_NAMES = frozenset({"ToolContext", "CallbackContext", "Context"})
_SPELLINGS_AROUND = frozenset({"Optional", "Union", "None"})
_NOT_OBJECTS = frozenset({"model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type"})
_EMPTY = inspect.Parameter.empty
_Hints = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CallableSchema:
    """How a function is described to a model, and how its arguments are checked."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of an object, properties in the order of the parameters. Shared: not to be changed."""
    context_parameter: str | None
    """The parameter that takes the tool context; it is not in `parameters`."""
    is_async: bool
    is_async_generator: bool
    is_generator: bool
    _known: frozenset[str]
    """The names that `parameters` declares."""
    _reserved: frozenset[str]
    """Parameters that are not the model's to give."""
    _check: Callable[[Any], dict[str, Any]]
    _check_extra: Callable[[Any], dict[str, Any]] | None
    """Checks undeclared arguments; None if the function takes none."""

    def bind(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them: validated, converted to the annotated types, by keyword.

        What `args` leaves out is left out, so that the function's own defaults apply. `args` is not changed.
        Raises `ToolArgumentsError` with one line for each problem.
        """
        if not self._known.issuperset(args):
            return self._bind_extra(args)
        try:
            return self._check(args)
        except ValidationError as error:
            raise self._refusal(args, error.errors(include_url=False), []) from error

    def _bind_extra(self, args: Mapping[str, Any]) -> dict[str, Any]:
        extra = {name: value for name, value in args.items() if name not in self._known}
        refused = list(extra) if self._check_extra is None else [name for name in extra if name in self._reserved]
        bound: dict[str, Any] = {}
        problems: list[ErrorDetails] = []
        for check, part in ((self._check, args), (self._check_extra, extra)):
            try:
                bound |= check(part) if check is not None else {}
            except ValidationError as error:
                problems += error.errors(include_url=False)
        if refused or problems:
            raise self._refusal(args, problems, refused)
        return bound

    def _refusal(
        self, args: Mapping[str, Any], problems: list[ErrorDetails], unknown: list[str]
    ) -> ToolArgumentsError:
        lines = [
            f"- `{name}`: is not a parameter; the parameters are {quoted_list(closest_first(name, self._known))}"
            for name in unknown
        ]
        lines += _problem_lines(args, problems, self.parameters)
        if len(lines) > MAX_PROBLEMS:
            lines[MAX_PROBLEMS:] = [f"- and {len(lines) - MAX_PROBLEMS} more problems"]
        return ToolArgumentsError("\n".join([f"The arguments of `{self.name}` do not fit its parameters:", *lines]))


def describe_callable(
    func: Callable[..., Any], *, name: str | None = None, description: str | None = None, skip: Collection[str] = ()
) -> CallableSchema:
    """Describe `func`: a function, method, class, `functools.partial` or object with `__call__`.

    `name` and `description` stand in for the function's name and docstring. The parameters in `skip`, those that a
    `partial` fixes, and the context parameter are neither shown to a model nor taken from it. Parameter descriptions
    come from `Field(description=...)`, or else from the docstring. The parameters are compiled here, once.

    Raises `ToolSignatureError` when a parameter cannot be described or passed by name.
    """
    if not callable(func):
        raise ToolSignatureError(f"{func!r} is not callable. Make a tool of a function, a method or a class.")
    title = _name_of(func)
    hints = _hints_for(func)
    prose, described = _documentation(func)
    hidden = {*skip, *_fixed_by_partial(func)}
    context: str | None = None
    extra: Callable[[Any], dict[str, Any]] | None = None
    fields: dict[str, _Field] = {}
    for parameter in _signature_of(func, title).parameters.values():
        if parameter.name in hidden:
            continue
        annotation = _resolved(parameter, hints, title)
        if _takes_context(parameter, annotation):
            if context is not None:
                raise _refused(title, parameter, f"is a second context beside `{context}`. Keep one.")
            context = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise _refused(title, parameter, "takes unnamed arguments, which a model cannot give. Take a list instead.")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise _refused(title, parameter, "is positional-only, but models give arguments by name. Remove the `/`.")
        if parameter.name == context:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = _compiled({parameter.name: dict[str, annotation]}, title, {parameter.name: parameter})[1]
            extra = _unwrapping(parameter.name, extra)
        else:
            fields[parameter.name] = _Field.of(parameter, annotation)
    schema, check = _compiled({key: field.type for key, field in fields.items()}, title, fields_parameters(fields))
    return _assemble(func, name or title, description, prose, described, fields, schema, check, extra, context, hidden)
