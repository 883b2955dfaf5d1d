"""`${NAME}`: variables of the environment, in the values that hold secrets, and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, cast

from flowloom.config.documents import Document
from flowloom.config.problems import KeyPath

SECRET_KEYS = ("env", "headers", "credentials")
"""Below these keys variables are filled in, and no value is told in an error."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_secret(path: KeyPath) -> bool:
    """Whether what is at a path may be a secret."""
    return any(part in SECRET_KEYS for part in path)


def filled_in(document: Document, path: KeyPath, value: Any) -> Any:
    """A value with the variables of the environment in it; one that is not set is a problem of the document."""
    if isinstance(value, dict):
        mapping = cast(dict[Any, Any], value)
        return {key: filled_in(document, (*path, key), each) for key, each in mapping.items()}
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [filled_in(document, (*path, position), each) for position, each in enumerate(items)]
    if not isinstance(value, str) or not is_secret(path):
        return value

    def variable(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            document.note(path, f"The variable `{name}` is not set in the environment.")
        return os.environ.get(name, "")

    return _VARIABLE.sub(variable, value)


def always(headers: dict[str, str]) -> Callable[[object], dict[str, str]]:
    """A provider of headers that are the same in every run."""

    def provider(_context: object) -> dict[str, str]:
        return headers

    return provider
