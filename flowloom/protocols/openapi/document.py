"""An OpenAPI document, read from text, a file, an address or a dict (protocols spec §3, Reading).

This module needs the extra `openapi`, and is loaded in a thread with the first document. What a document refers to is
looked for in it, in files inside its folder, and where `allow_refs` says; any other reference makes it an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from flowloom.extras import missing_extra
from flowloom.protocols.addresses import is_same_origin, shown_address
from flowloom.protocols.openapi.schemas import DescriptionError, Place

try:
    import yaml
    from referencing import Registry, Resource, exceptions
    from referencing.jsonschema import DRAFT202012
except ImportError as error:
    raise missing_extra("OpenAPI documents need their readers", "openapi", error) from error

MAX_FILES = 500
"""How many files one document may be made of."""
_NOWHERE = "http://document.invalid/"
"""The base of a document that came from no file and no address."""
_DATA = frozenset({"example", "examples", "default", "enum", "const", "value", "mapping"})
_NAMES = frozenset(
    "properties patternProperties $defs definitions dependentSchemas schemas parameters responses headers "
    "requestBodies securitySchemes links callbacks pathItems paths encoding content variables".split()
)


class DocumentError(Exception):
    """A document cannot be used; the text says why, and at which line if it is about one."""


class Document:
    """A document that can be read: `root`, its `version`, and where what it refers to is found.

    `address` is where it came from, if that was an address of http; relative servers are relative to it.
    """

    def __init__(
        self, root: dict[str, Any], base: str | None, fetch: Callable[[str], str], allowed: Sequence[str]
    ) -> None:
        self.root = root
        self.version = _version_of(root)
        self.address = base if base is not None and base.startswith("http") else None
        self._base = base or _NOWHERE
        self._fetch = fetch
        self._allowed = list(allowed)
        registry: Registry[Any] = Registry(retrieve=self._retrieve)  # pyright: ignore[reportCallIssue]
        self._registry = registry.with_resource(self._base, DRAFT202012.create_resource(root))
        self._looked_up: dict[str, Place] = {}
        self._check_references()
        self.top = self._place(root, self._base)

    @property
    def legacy(self) -> bool:
        """Whether it is one of OpenAPI 3.0, whose schemas are not those of JSON Schema."""
        return self.version == (3, 0)

    def _place(self, value: Any, base: str) -> Place:
        def look_up(reference: str) -> Place:
            url = urljoin(base, reference)
            if url not in self._looked_up:
                document, fragment = urldefrag(url)
                try:
                    found = self._registry.resolver(document).lookup(f"#{fragment}")
                except (exceptions.Unresolvable, ValueError, LookupError, TypeError) as error:
                    raise DescriptionError(f"the reference `{reference[:200]}` leads nowhere") from error
                self._looked_up[url] = self._place(found.contents, document)
            return self._looked_up[url]

        return Place(value, look_up)

    # -- other files ------------------------------------------------------------------------------

    def _check_references(self) -> None:
        """Read all files that the document refers to. Raises `DocumentError` for one that may not be read."""
        waiting = [(self._base, self.root)]
        seen = {self._base}
        while waiting:
            base, held = waiting.pop()
            for reference in _references(held):
                url = urldefrag(urljoin(base, reference)).url
                if url in seen:
                    continue
                seen.add(url)
                if len(seen) > MAX_FILES:
                    raise DocumentError(f"It refers to more than {MAX_FILES} files.")
                contents = self._read(url, reference)
                self._registry = self._registry.with_resource(url, DRAFT202012.create_resource(contents))
                waiting.append((url, contents))

    def _read(self, url: str, reference: str) -> Any:
        shown = f"`{shown_address(reference)[:200]}`"
        if url.startswith(_NOWHERE):
            raise DocumentError(
                f"It refers to {shown}, and came from no folder: give `spec_path`, or the folder as `allow_refs`."
            )
        path = _path_of(url)
        if path is not None:
            folders = [Path(each).resolve() for each in self._folders()]
            if not any(path.resolve().is_relative_to(folder) for folder in folders):
                raise DocumentError(
                    f"It refers to {shown}, which is outside its folder: `allow_refs` may name another."
                )
        elif not any(is_same_origin(url, each) for each in self._allowed):
            raise DocumentError(f"It refers to {shown}: `allow_refs` may name that origin.")
        try:
            return parsed(path.read_text(encoding="utf-8") if path is not None else self._fetch(url))
        except (OSError, UnicodeError, DocumentError) as error:
            raise DocumentError(f"It refers to {shown}, which cannot be read: {error}") from error

    def _folders(self) -> Iterator[str]:
        own = _path_of(self._base)
        if own is not None:
            yield str(own.parent if own.is_file() else own)
        yield from (each for each in self._allowed if "://" not in each)

    @staticmethod
    def _retrieve(uri: str) -> Resource[Any]:
        raise exceptions.NoSuchResource(ref=uri)


def document_from(
    *,
    data: Mapping[str, Any] | None,
    text: str | None,
    path: str | None,
    allowed: Sequence[str],
    fetch: Callable[[str], str],
) -> Document:
    """The document that is given as `data`, as `text`, or by the `path` or address that it is at.

    `allowed` are folders and origins that it may refer to besides its own folder; `fetch` gives the text at an address.
    Raises `DocumentError`.
    """
    base: str | None = None
    if data is None and text is None and path is not None:
        is_remote = path.startswith(("http://", "https://"))
        base = path if is_remote else Path(path).resolve().as_uri()
        try:
            text = fetch(path) if is_remote else Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise DocumentError(f"It cannot be read: {error}.") from error
    root: Any = data if data is not None else parsed(text or "")
    if base is None:
        folder = next((each for each in allowed if "://" not in each), None)
        base = None if folder is None else f"{Path(folder).resolve().as_uri()}/"
    if not isinstance(root, Mapping):
        raise DocumentError("It is no OpenAPI document: there is no object at its top.")
    return Document(dict(cast(Mapping[str, Any], root)), base, fetch, allowed)


def parsed(text: str) -> Any:
    """The data in JSON or YAML text. Raises `DocumentError`, which says where it is wrong."""
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise DocumentError("It is nested too deeply.") from error
    except ValueError as error:
        reason = f"It is not JSON: {error}." if text.lstrip()[:1] in ("{", "[") else None
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        place = "" if where is None else f" at line {where.line + 1}, column {where.column + 1}"
        problem = getattr(error, "problem", None) or str(error)
        raise DocumentError(reason or f"It is neither JSON nor YAML{place}: {problem}.") from error


_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):
    """YAML as JSON has it: names are texts, and dates and `yes` stay what they look like."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        self.flatten_mapping(node)
        return {str(key.value): self.construct_object(value, deep=deep) for key, value in node.value}


for _kind, _form, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.?(?=[.eE]))(?:[eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_form})$"), list(_first))


def _version_of(root: Mapping[str, Any]) -> tuple[int, int]:
    """The version of OpenAPI that a document says it is of. Raises `DocumentError` for another than 3."""
    if "swagger" in root:
        raise DocumentError(
            f"It is a Swagger {root['swagger']} document, which is not read: convert it to OpenAPI 3 "
            f"(`swagger2openapi` does that)."
        )
    given = root.get("openapi")
    match = re.match(r"(\d+)\.(\d+)", str(given)) if given is not None else None
    if match is None:
        raise DocumentError("It is no OpenAPI document: it has no `openapi` with its version.")
    version = int(match[1]), int(match[2])
    if version[0] != 3:
        raise DocumentError(f"It is of OpenAPI {given}, but 3.0, 3.1 and 3.2 are read.")
    return version


def _references(root: Any) -> Iterator[str]:
    """All references to other files in a document, but for those in examples and other data."""
    waiting: list[tuple[Any, bool]] = [(root, False)]
    seen: set[int] = set()
    while waiting:
        held, names = waiting.pop()
        if id(held) in seen:
            continue
        if isinstance(held, dict):
            seen.add(id(cast(Any, held)))
            for key, value in cast(dict[Any, Any], held).items():
                if not names and key == "$ref" and isinstance(value, str):
                    if not value.startswith("#"):
                        yield value
                elif isinstance(value, (dict, list)) and (
                    names or (key not in _DATA and not str(key).startswith("x-"))
                ):
                    waiting.append((cast(Any, value), not names and key in _NAMES and isinstance(value, dict)))
        elif isinstance(held, list):
            seen.add(id(cast(Any, held)))
            waiting.extend((each, False) for each in cast(list[Any], held))


def _path_of(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
