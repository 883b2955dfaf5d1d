"""Instruction templates: ADK's brace dialect, and full Jinja2 (decision 17, spec §8.6).

Both compile once, to a sandboxed, strict Jinja2 template. Values go in by `str()`, None as nothing, and are never
rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from flowloom.context import InvocationContext
from flowloom.errors import InputValidationError, MissingVariableError, TemplateError
from flowloom.sessions.state import State

if TYPE_CHECKING:
    from jinja2 import TemplateSyntaxError

    from flowloom.processors.missing_values import MissingError

OnMissing = Literal["error", "empty", "keep"]

# it begins where braces begin, so that a run of them is looked at once
_PLACEHOLDER = re.compile(r"(?:[\\$]|(?<!\{))\{++[^{}]*+\}++")
_PREFIXES = ("app", "user", "temp")
_ARTIFACT = "artifact."


class _Jinja(NamedTuple):
    """What is used of Jinja2."""

    environments: dict[tuple[OnMissing, bool], Any]
    """By policy for missing names, and whether templates are asynchronous."""
    names_in: Callable[[str], set[str]]
    malformed: type[TemplateSyntaxError]
    missing: type[MissingError]


@cache
def _jinja() -> _Jinja:
    """Jinja2, loaded by the first template: most agents start without one, and it takes 15 ms."""
    from jinja2 import TemplateSyntaxError, meta

    from flowloom.processors.missing_values import POLICIES, MissingError, environment

    environments: dict[tuple[OnMissing, bool], Any] = {
        (policy, asynchronous): environment(policy, asynchronous=asynchronous)
        for policy in POLICIES
        for asynchronous in (False, True)
    }
    strict = environments["error", False]

    def names_in(source: str) -> set[str]:
        return meta.find_undeclared_variables(strict.parse(source))

    return _Jinja(environments, names_in, TemplateSyntaxError, MissingError)


class Template:
    """An instruction in Jinja2: filters, conditions, loops, `{% raw %}`.

    It is rendered over `state` (the session's), `app`, `user` and `temp` (the scopes, without their prefixes),
    `artifact(name)` (a file's text), `agent` and `session`. `source` is its text. Raises `TemplateError` for a syntax
    error.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        try:
            names = _jinja().names_in(source)
        except _jinja().malformed as error:
            raise TemplateError(
                f"The instruction template is malformed in line {error.lineno}: {error.message}"
            ) from error
        self._uses_artifacts = "artifact" in names
        self._compiled: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Template({self.source!r})"

    def render(self, ctx: InvocationContext, on_missing: OnMissing = "error") -> str | Awaitable[str]:
        """The instruction for this agent now. Raises `MissingVariableError`, which names agent, variable and line.

        `on_missing` says what becomes of a variable that is not there: `error`, `empty` for no text, or `keep` for the
        placeholder as it is.
        """
        compiled = self._compiled.get(on_missing)
        if compiled is None:
            compiled = _jinja().environments[on_missing, self._uses_artifacts].from_string(self.source)
            self._compiled[on_missing] = compiled
        state = ctx.session.state
        values = {
            "app": _scope(state, State.APP_PREFIX),
            "user": _scope(state, State.USER_PREFIX),
            "temp": _scope(state, State.TEMP_PREFIX),
            "state": state,
            "agent": ctx.agent,
            "session": ctx.session,
        }
        if self._uses_artifacts:
            return self._render_async(compiled, ctx, values, on_missing)
        try:
            return compiled.render(values)
        except _jinja().missing as error:
            raise _missing(ctx, error.told(values), _line_of(error)) from error

    async def _render_async(
        self, compiled: Any, ctx: InvocationContext, values: dict[str, Any], on_missing: OnMissing
    ) -> str:
        async def artifact(name: str) -> Any:
            text = await _load_artifact(ctx, name)
            if text is None and on_missing == "error":
                raise _missing(ctx, f"artifact `{name}`", None)
            if text is None and on_missing == "keep":
                return compiled.environment.undefined(name=f"artifact({name!r})")
            return text or ""

        try:
            return await compiled.render_async({**values, "artifact": artifact})
        except _jinja().missing as error:
            raise _missing(ctx, error.told(values), _line_of(error)) from error


class BraceTemplate:
    """A plain string in ADK's dialect: `{name}`, `{name?}`, `{app:name}`, `{artifact.file}`, spaces allowed.

    Every other use of braces stays as written, and so do `${x}` and `\\{x}`. `is_plain` tells that nothing is
    to be filled in.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._variables: list[_Variable] = []
        pieces: list[str] = []
        end, line, counted = 0, 1, 0
        for match in _PLACEHOLDER.finditer(source):
            line, counted = line + source.count("\n", counted, match.start()), match.start()
            variable = _read_variable(match.group(), line)
            if variable is None:
                continue
            pieces += [_raw(source[end : match.start()]), f"{{{{ v[{len(self._variables)}] }}}}"]
            self._variables.append(variable)
            end = match.end()
        self.is_plain = not self._variables
        self._has_artifacts = any(variable.is_artifact for variable in self._variables)
        self._compiled: Any = None
        if self._variables:
            pieces.append(_raw(source[end:]))
            self._compiled = _jinja().environments["error", False].from_string("".join(pieces))

    def render(self, ctx: InvocationContext, on_missing: OnMissing = "error") -> str | Awaitable[str]:
        """The instruction for this agent now. Raises `MissingVariableError`, which names agent, variable and line."""
        if self.is_plain:
            return self.source
        if self._has_artifacts:
            return self._render_async(ctx, on_missing)
        state = ctx.session.state
        return self._fill([_value_of(variable, ctx, state, on_missing) for variable in self._variables])

    async def _render_async(self, ctx: InvocationContext, on_missing: OnMissing) -> str:
        values: list[Any] = []
        for variable in self._variables:
            if not variable.is_artifact:
                values.append(_value_of(variable, ctx, ctx.session.state, on_missing))
                continue
            text = None
            if variable.name:
                text = await _load_artifact(ctx, variable.name)
            elif not variable.optional:
                raise InputValidationError(
                    f"The instruction of agent `{ctx.agent.name}`, line {variable.line}, names an artifact without a "
                    f"file name: {variable.written}"
                )
            values.append(_absent(variable, ctx, on_missing) if text is None else text)
        return self._fill(values)

    def _fill(self, values: list[Any]) -> str:
        return self._compiled.render(v=values)


class _Variable(NamedTuple):
    written: str
    name: str
    optional: bool
    is_artifact: bool
    line: int


def _read_variable(written: str, line: int) -> _Variable | None:
    """What a placeholder names; None if it is no placeholder and stays as written."""
    name = written.strip("{}").strip()  # what stands before the braces of ${x} and \\{x} makes it no name
    optional = name.endswith("?")
    if optional:
        name = name[:-1]
    if name.startswith(_ARTIFACT):
        return _Variable(written, name.removeprefix(_ARTIFACT), optional, True, line)
    prefix, colon, rest = name.rpartition(":")
    if (colon and prefix not in _PREFIXES) or not rest.isidentifier():
        return None
    return _Variable(written, name, optional, False, line)


def _raw(text: str) -> str:
    """Literal text in Jinja2 source, which would read braces, and carriage returns as line ends."""
    return "{{ " + repr(text) + " }}"


def _value_of(variable: _Variable, ctx: InvocationContext, state: Mapping[str, Any], on_missing: OnMissing) -> Any:
    if variable.name not in state:
        return _absent(variable, ctx, on_missing)
    return state[variable.name]


def _absent(variable: _Variable, ctx: InvocationContext, on_missing: OnMissing) -> str:
    if variable.optional or on_missing == "empty":
        return ""
    if on_missing == "keep":
        return variable.written
    kind = "artifact" if variable.is_artifact else "variable"
    raise _missing(ctx, f"{kind} `{variable.name}`", variable.line)


def _missing(ctx: InvocationContext, what: str, line: int | None) -> MissingVariableError:
    where = f", line {line}" if line else ""
    known = ", ".join(sorted(ctx.session.state)) or "none"
    return MissingVariableError(
        f"The instruction of agent `{ctx.agent.name}`{where} needs the {what}, which is not there. State keys: "
        f"{known}. Set it, write `{{name?}}` if it may be missing, or set the agent's `on_missing`.",
        variable=what.split("`")[1] if "`" in what else what,
        agent=ctx.agent.name,
        line=line,
    )


def _line_of(error: MissingError) -> int | None:
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _scope(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key[len(prefix) :]: value for key, value in state.items() if key.startswith(prefix)}


async def _load_artifact(ctx: InvocationContext, name: str) -> str | None:
    service = ctx.artifact_service
    if service is None:
        raise TemplateError(
            f"The instruction of agent `{ctx.agent.name}` names the artifact `{name}`, but there is no artifact "
            f"service. Give one to the runner."
        )
    session = ctx.session
    part = await service.load_artifact(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id, filename=name
    )
    return None if part is None else part.text or ""


async def inject_session_state(template: str, readonly_context: Any) -> str:
    """Fill `template`, a text in the brace dialect, for instruction providers that want it (spec §8.3).

    `readonly_context` is what the provider was given.
    """
    rendered = BraceTemplate(template).render(readonly_context.invocation_context)
    return rendered if isinstance(rendered, str) else await rendered
