"""The command line, `flowloom`. It needs the extra `cli`, loaded only when it is used.

It imports any other room but `testing` and `adk`. Begin with `commands.py`; `chat.py` is a conversation in the
terminal.
"""

from __future__ import annotations

import os
import sys

_EXTRA = ("typer", "click", "rich", "prompt_toolkit")


def main() -> None:
    """Run the command line (spec: `flowloom --help`). Exits with 2 when the extra `cli` is not installed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # a daemon was started with it closed
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    # where rich is installed, httpx, which google-genai imports, loads a command line of its own with rich, click and
    # pygments: 2 MiB for as long as a server runs. To the import system, None is a module that is not there
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        from flowloom.cli.commands import app

        app(prog_name="flowloom")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXTRA:
            raise
        print(
            f"The command line needs the package `{error.name}`. Install it with:\n\n    pip install 'flowloom[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
