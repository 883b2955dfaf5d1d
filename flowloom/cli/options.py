"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

USER_ID = "user"
"""Whose session it is, if no option says so."""
AGENT_HELP = "A .py file or a package folder with `root_agent` or `app`, or a root_agent.yaml."
AgentPath = Annotated[Path, typer.Argument(metavar="PATH", help=AGENT_HELP, show_default=False)]
ModelName = Annotated[
    str | None, typer.Option(help="The model of all agents; `offline` needs no key.", show_default=False)
]

_STORE = "{} Default: $FLOWLOOM_STORE, or .flowloom/sessions.db in this folder."
StoreName = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help=_STORE.format("Where sessions are kept: a SQLite file, `postgresql://...`, or `memory`."),
        show_default=False,
    ),
]
FleetStoreName = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help=_STORE.format("Where runs and sessions are kept: a SQLite file, or `postgresql://...`."),
        show_default=False,
    ),
]
User = Annotated[str, typer.Option(metavar="ID", help="Whose session it is.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AllowImports = Annotated[
    list[str] | None,
    typer.Option(
        "--allow_import",
        metavar="PACKAGE",
        help="A package that a root_agent.yaml may import; may be repeated.",
        show_default=False,
    ),
]
AllowStdio = Annotated[
    bool, typer.Option("--allow_stdio", help="A root_agent.yaml may start the MCP servers that it names.")
]


def plain_flag(name: str) -> str:
    """The name of a flag or command, whichever of `_` and `-` it was written with."""
    return name.replace("-", "_")
