"""The commands, by the modules that have them. Each is loaded when it is asked for: a server, which is a command, too,
needs nothing of the others."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from flowloom.cli.options import plain_flag

_MODULES = {
    "mcp": "mcp",
    "worker": "worker",
    "workers": "worker",
    "web": "web",
    "api_server": "web",
    "schema": "schema",
    "run": "asking",
    "explain": "asking",
    "bench": "asking",
    "sessions": "sessions",
    "runs": "runs",
    "schedules": "schedules",
}
"""Where each command is, in the order of the help: a function of that name, or a `Typer` of commands below it."""


class _WhenUsed(UserDict[str, Any]):
    """Commands by their names; one stands for its module until it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(self.data[name], str):
            self.data[name] = _command(name, self.data[name])
        return self.data[name]


def _command(name: str, module_name: str) -> Any:
    module = import_module(f"flowloom.cli.{module_name}")
    found, holder = getattr(module, name), typer.Typer()
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name, cls=getattr(module, "COMMAND", None))(found)
    return get_group(holder).commands[name]


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _WhenUsed(_MODULES)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={  # which the commands inherit
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": plain_flag,
    },
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"flowloom {version('flowloom')}")
        raise typer.Exit


@app.callback()
def flowloom(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """A fast, small, transparent flow engine for LLM agents."""
