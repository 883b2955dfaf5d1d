"""Whether asyncio runs here."""

from __future__ import annotations

import asyncio


def in_event_loop() -> bool:
    """Whether an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
