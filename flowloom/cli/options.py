"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from flowloom.cli.stores import USER_ID

__all__ = ["USER_ID", "AsJson", "StoreName", "User"]

StoreName = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help="Where sessions are kept: a SQLite file, `postgresql://...`, or `memory`. Default: $FLOWLOOM_STORE, or "
        ".flowloom/sessions.db in this folder.",
        show_default=False,
    ),
]
User = Annotated[str, typer.Option(metavar="ID", help="Whose session it is.")]
AsJson = Annotated[bool, typer.Option("--json", help="As data.")]
