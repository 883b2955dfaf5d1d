"""What stands in a Jinja2 template for a value that is missing, and where that value should be.

It imports Jinja2: `template.py` loads it with the first template.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, cast

from jinja2 import ChainableUndefined, StrictUndefined, Template, Undefined, UndefinedError, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing


class MissingError(UndefinedError):
    """A template needs a value that is missing."""

    def __init__(self, value: _Placed, message: str) -> None:
        super().__init__(message)
        self._value = value

    def told(self, values: Mapping[str, Any]) -> str:
        """What is missing, with its place among the `values` of the template; what has none is told by Jinja2."""
        place = self._value.place_in(values)
        if self._value.is_variable:
            return f"variable `{place}`"
        return f"value of which Jinja2 says: {self}" + (f" (`{place}`)" if place else "")


class _Placed(Undefined):
    """Its errors tell what is missing."""

    __slots__ = ()

    def __init__(
        self, hint: str | None = None, obj: Any = missing, name: Any = None, exc: Any = UndefinedError
    ) -> None:
        super().__init__(hint, obj, name, cast(Any, partial(MissingError, self)) if exc is UndefinedError else exc)

    @property
    def is_variable(self) -> bool:
        """Whether it is a variable, and not something in one."""
        return self._undefined_obj is missing and self._undefined_name is not None

    def place_in(self, values: Mapping[str, Any]) -> str:
        """Where it should be, as a template writes it; nothing for what has no place, such as the first of none."""
        obj, name = self._undefined_obj, cast(Any, self._undefined_name)
        if obj is missing:
            return name or ""
        above = obj.place_in(values) if isinstance(obj, _Placed) else _place_of(obj, values)
        return (above + _step(name)).removeprefix(".")


class _Strict(_Placed, StrictUndefined):
    __slots__ = ()

    def __repr__(self) -> str:  # as a list writes what is in it
        return str(self)


class _Empty(_Placed, ChainableUndefined):
    __slots__ = ()

    def __repr__(self) -> str:
        return ""


class _Kept(_Placed):
    """Its placeholder; what is looked for in it is missing, too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # Jinja2 looks for an item, then

    def __getitem__(self, name: Any) -> Any:
        return type(self)(obj=self, name=name)

    def __str__(self) -> str:
        return _written(self, _values.get({}))

    def __repr__(self) -> str:
        return str(self)


_values: ContextVar[Mapping[str, Any]] = ContextVar("values of the template that is rendered")


class _KeepingTemplate(Template):
    """Lets what is missing know the values among which it should be, within expressions, too."""

    def render(self, values: Mapping[str, Any]) -> str:
        token = _values.set(values)
        try:
            return super().render(values)
        finally:
            _values.reset(token)

    async def render_async(self, values: Mapping[str, Any]) -> str:
        token = _values.set(values)
        try:
            return await super().render_async(values)
        finally:
            _values.reset(token)


POLICIES: Mapping[Literal["error", "empty", "keep"], type[Undefined]] = {
    "error": _Strict,
    "empty": _Empty,
    "keep": _Kept,
}


def environment(policy: Literal["error", "empty", "keep"], *, asynchronous: bool) -> ImmutableSandboxedEnvironment:
    """Where templates are compiled that write for a value that is missing what the policy says, for None nothing."""
    made = ImmutableSandboxedEnvironment(
        undefined=POLICIES[policy], finalize=_plain, enable_async=asynchronous, keep_trailing_newline=True
    )
    if policy == "keep":
        made.template_class, made.finalize = _KeepingTemplate, _kept
    return made


def _plain(value: Any) -> Any:
    return "" if value is None else value


@pass_context
def _kept(context: Context, value: Any) -> Any:  # what the template has set stands among the values here
    return _written(value, context.get_all()) if isinstance(value, _Kept) else _plain(value)


def _written(kept: _Kept, values: Mapping[str, Any]) -> str:
    return f"{{{{ {kept.place_in(values)} }}}}"


def _place_of(obj: Any, values: Mapping[str, Any]) -> str:
    """Where an object stands among the values, or in what they hold; nothing if it does not."""
    waiting: list[tuple[str, Any]] = list(values.items())
    for place, held in waiting:
        if held is obj:
            return place
        if isinstance(held, dict | list):
            inside = (
                cast("dict[Any, Any]", held).items() if isinstance(held, dict) else enumerate(cast("list[Any]", held))
            )
            waiting += [(place + _step(key), each) for key, each in inside]
    return ""


def _step(name: Any) -> str:
    return f".{name}" if isinstance(name, str) and name.isidentifier() else f"[{name!r}]"
