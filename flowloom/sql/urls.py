"""The URL of a database, as SQLAlchemy writes it; the name of a driver makes no difference."""

from __future__ import annotations

import re

from flowloom.errors import ConfigurationError

_URL = re.compile(r"(?P<kind>\w{2,})(\+\w+)?://(?P<rest>.*)", re.DOTALL)  # a single letter is a drive


def kind_and_rest(text: str) -> tuple[str, str] | None:
    """The kind of database that a URL names, and what stands behind `://`; None for a text that is no URL."""
    url = _URL.fullmatch(text)
    return None if url is None else (url["kind"], url["rest"])


def sqlite_path(text: str) -> str:
    """The path of a SQLite database that is given by it, or by `sqlite:///FILE`. Raises `ConfigurationError` for
    another URL."""
    kind, rest = kind_and_rest(text) or ("", "")
    path = rest.partition("?")[0]
    if not kind:
        return text
    if kind != "sqlite" or (path and not path.startswith("/")):
        raise ConfigurationError(
            f"A SQLite database has a path, or a URL of the form `sqlite:///FILE`; what was given begins with `{kind}://`."
        )
    return path[1:] or ":memory:"
