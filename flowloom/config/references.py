"""From a full name in a file to what it stands for, if its package may be imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flowloom.errors import ConfigurationError, FlowloomError, quoted_list

_NEVER = frozenset(sys.stdlib_module_names) | frozenset(sys.builtin_module_names) | {"flowloom", "google", "yaml"}


class LookupProblem(ConfigurationError):
    """A name cannot be looked up."""


class Imports:
    """What files may import: the packages in `allow`, by their exact names, with all below them.

    Raises `ConfigurationError` for a name that no file may import: of the standard library, or of flowloom itself.
    """

    def __init__(self, allow: Collection[str]) -> None:
        if isinstance(allow, str):
            allow = [allow]
        self._allowed = frozenset(allow)
        never = sorted(name for name in self._allowed if name.partition(".")[0] in _NEVER)
        if never:
            raise ConfigurationError(
                f"`allow_imports` names {quoted_list(never)}, which no file may import. Name the packages of your own "
                f"code, and wrap in a function there what an agent needs of others."
            )

    def find(self, name: str, folder: Path) -> Any:
        """What a full name stands for; one that begins with a dot is of the package that is the file's `folder`.

        Raises `ConfigurationError`, which says why there is nothing.
        """
        full = f"{folder.name}{name}" if name.startswith(".") else name
        module_name, _, attribute = full.rpartition(".")
        if not module_name:
            raise LookupProblem(f"`{name}` is no full name. Write `my_package.module.{name}`.")
        if not self._may_import(module_name):
            raise LookupProblem(self._refusal(full))
        try:
            module = importlib.import_module(module_name)
        except FlowloomError as error:
            raise LookupProblem(f"`{module_name}` could not be imported: {error}") from error
        except (Exception, SystemExit) as error:
            raise LookupProblem(f"`{module_name}` could not be imported: {type(error).__name__}: {error}") from error
        try:
            return getattr(module, attribute)
        except AttributeError:
            raise LookupProblem(f"The module `{module_name}` has no `{attribute}`.") from None

    def _may_import(self, module_name: str) -> bool:
        parts = module_name.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return parts[0] not in _NEVER and any(name in self._allowed for name in above)

    def _refusal(self, full: str) -> str:
        package = full.partition(".")[0]
        if package in _NEVER:
            return f"`{full}` is of `{package}`, which no file may import. Wrap it in a function of your own package."
        return (
            f"`{full}` is of the package `{package}`, which this file has no leave to import: "
            f'`allow_imports=["{package}"]`, or `--allow_import {package}` on the command line, gives it.'
        )
