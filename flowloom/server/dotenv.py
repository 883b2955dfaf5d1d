"""`.env` files: the variables of an agent's folder, or of the nearest one above it (server spec §1)."""

from __future__ import annotations

import os
import re
from pathlib import Path

DISABLED = "ADK_DISABLE_LOAD_DOTENV"
"""The variable that switches this off."""
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*")
_COMMENT = re.compile(r"\s+#.*")
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\\\": "\\", "\\r": "\r"}
_loaded: set[str] = set()
"""The variables that came from files: a later file may change them."""


def load_dotenv(folder: Path) -> Path | None:
    """Set the variables of the nearest `.env` at or above `folder`; never those that were set before.

    Returns the file, None if there is none or `ADK_DISABLE_LOAD_DOTENV` says so.
    """
    if os.environ.get(DISABLED, "").lower() in ("1", "true", "yes"):
        return None
    file = next((path for each in (folder, *folder.parents) if (path := each / ".env").is_file()), None)
    if file is None:
        return None
    for name, value in read_dotenv(file.read_text(encoding="utf-8", errors="replace")).items():
        if name not in os.environ or name in _loaded:
            _loaded.add(name)
            os.environ[name] = value
    return file


def read_dotenv(text: str) -> dict[str, str]:
    """The variables of a file: `NAME=value`, with `export`, quotes and `# comments` as shells have them."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        matched = _LINE.fullmatch(line)
        if matched is not None and not line.lstrip().startswith("#"):
            found[matched[1]] = _value_of(matched[2])
    return found


def _value_of(written: str) -> str:
    quote = written[:1]
    end = -1 if quote not in ("'", '"') else _end_of(written, quote)
    if end < 0:
        return _COMMENT.sub("", f" {written}").strip()
    inner = written[1:end]
    return inner if quote == "'" else re.sub(r"\\[ntr\"\\]", lambda found: _ESCAPES[found[0]], inner)


def _end_of(written: str, quote: str) -> int:
    """Where a quoted value ends; -1 if it does not."""
    at = 1
    while at < len(written):
        if written[at] == "\\" and quote == '"':
            at += 1
        elif written[at] == quote:
            return at
        at += 1
    return -1
