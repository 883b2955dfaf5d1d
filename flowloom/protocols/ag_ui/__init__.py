"""Agents for front ends that speak AG-UI (protocols spec §5).

It imports `runner`, `run_stream`, `asgi` and the rooms below. Begin with `application.py`; `telling.py` turns the typed
events of a run into the protocol's, `reading.py` a request into a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.protocols.ag_ui.application import mount_ag_ui, to_ag_ui
    from flowloom.protocols.ag_ui.telling import ag_ui_events

_HOMES = {"application": "mount_ag_ui to_ag_ui", "telling": "ag_ui_events"}

__all__ = ["ag_ui_events", "mount_ag_ui", "to_ag_ui"]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
