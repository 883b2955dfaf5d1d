"""Tools that a model's provider runs: what a request asks for, whoever the provider is (protocols spec §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from google.genai import types

from flowloom.errors import UnsupportedFeatureError, quoted_list
from flowloom.events.wire import fields_of
from flowloom.models.request import LlmRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool that the provider is to run, and where in the request it stands."""

    kind: str
    options: Mapping[str, Any]
    place: str
    raw: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Native:
    """How an adapter's API has a kind of tool: a row of its table.

    `make` writes the JSON from the options; of these it knows `options`, and needs those in `required`: of several
    that stand together one is enough.
    """

    make: Callable[[Mapping[str, Any]], dict[str, Any]]
    options: frozenset[str] = field(default_factory=frozenset[str])
    required: tuple[str | tuple[str, ...], ...] = ()


KIND_OF = {
    "google_search": "web_search",
    "url_context": "web_fetch",
    "google_maps": "google_maps",
    "exclude_domains": "blocked_domains",
}
"""google-genai's names of tools and options for which there is a word that all providers share."""


BESIDE = "server_tools"
"""The field of a request with the tools for which google-genai has no type."""


def asked_of(request: LlmRequest) -> list[Asked]:
    """The tools of a request that are no functions: those in `server_tools`, and those in `config.tools`."""
    groups: Any = request.config.tools or ()  # pyright: ignore[reportUnknownMemberType] - it names types that may be missing
    found = [asked for number, group in enumerate(groups) for asked in _asked_in(group, f"config.tools[{number}]")]
    for number, use in enumerate(request.server_tools or ()):
        asked = Asked(use["kind"], use["options"], f"{BESIDE}[{number}]", use.get("raw"))
        if all((each.kind, each.options, each.raw) != (asked.kind, asked.options, asked.raw) for each in found):
            found.append(asked)  # what is asked for in two ways is asked for once
    return found


def _asked_in(group: Any, place: str) -> Iterator[Asked]:
    if not isinstance(group, types.Tool):
        return
    for name, value in fields_of(group).items():
        if value is None or name == "function_declarations":
            continue
        if name == "mcp_servers":
            for server in cast(list[types.McpServer], value):
                yield Asked("remote_mcp", _mcp_options(server), f"{place}.{name}")
        else:
            given = {KIND_OF.get(key, key): each for key, each in fields_of(value).items() if each is not None}
            yield Asked(KIND_OF.get(name, name), given, f"{place}.{name}")


def _mcp_options(server: types.McpServer) -> dict[str, Any]:
    transport = server.streamable_http_transport
    given: dict[str, Any] = {"server_label": server.name, "server_url": transport and transport.url}
    if transport is not None and transport.headers:
        given["headers"] = transport.headers
    return {name: value for name, value in given.items() if value is not None}


def functions_in(request: LlmRequest) -> list[str]:
    """The names of the functions that a request declares."""
    groups: Any = request.config.tools or ()  # pyright: ignore[reportUnknownMemberType]
    declared = [each for group in groups for each in (getattr(group, "function_declarations", None) or ())]
    return [each.name or "" for each in declared]


def refusal_by(table: Mapping[str, Native], asked: Asked, api: str) -> str | None:
    """Why an `api` of that table cannot run a tool, and what to do; None if it can."""
    if asked.raw is not None:
        return None
    row = table.get(asked.kind)
    if row is None:
        return (
            f"is a tool that {api} does not run; it runs {quoted_list(sorted(table))}. Choose a model that has it, "
            f"or give a function for models without: `ServerTool({asked.kind!r}).native_or(function)`"
        )
    unknown = sorted(asked.options.keys() - row.options)
    if unknown:
        known = f"it knows {quoted_list(sorted(row.options))}" if row.options else "it knows none"
        return f"has options that {api} does not know for `{asked.kind}`: {quoted_list(unknown)}; {known}"
    for needed in row.required:
        names = (needed,) if isinstance(needed, str) else needed
        if not any(asked.options.get(name) for name in names):
            told = " or ".join(f"`{name}`" for name in names)
            return f"needs {told} to be used by {api}: `ServerTool({asked.kind!r}, {names[0]}=...)`"
    return None


def server_tool_error(model: str, asked: Asked, why: str) -> UnsupportedFeatureError:
    """The error for a tool that the provider of `model` cannot run, raised before anything is sent."""
    return UnsupportedFeatureError(
        f"The request to the model `{model}` cannot be sent: the tool `{asked.kind}` (`{asked.place}`) {why}.",
        field=asked.place,
        model=model,
    )


def taken(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Those of the options, in this order, that were given."""
    return {name: options[name] for name in names if options.get(name) is not None}
