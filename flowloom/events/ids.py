"""Identifiers: UUIDs (version 4) made from the system's randomness, many at a time.

`uuid.uuid4` makes one system call and one object per id; a step needs several ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable

CLIENT_CALL_PREFIX = "adk-"
"""Marks function-call ids that were minted here and not by a model (decision 16)."""

_BATCH = 128
_pool: list[str] = []
_source: Callable[[], str] | None = None


def new_id() -> str:
    """A random UUID, version 4, as text. Safe in threads and after a fork."""
    if _source is not None:
        return _source()
    try:
        digits = _pool.pop()
    except IndexError:
        random = os.urandom(16 * _BATCH).hex()
        _pool.extend(random[i : i + 32] for i in range(32, len(random), 32))
        digits = random[:32]
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def set_source(source: Callable[[], str] | None) -> Callable[[], str] | None:
    """Take ids from elsewhere, or with None from the system's randomness again; returns the source before."""
    global _source
    before, _source = _source, source
    return before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.clear)

INPUT_ID_PREFIX = "adk-input-"
"""How the ids of calls begin by which a tool asks for input; models see those no more than requests to confirm."""
