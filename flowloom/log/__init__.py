"""What an event log says: in what state its calls are, what was answered, and what of it a model is shown.

It imports `models`, `events` and `errors`; nothing that runs agents. Begin with `ledger.py`: in what state each call
is; `history.py` makes the contents of a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.log.history import History, Projection, Viewer, project, visible
    from flowloom.log.ledger import CallLedger

_HOMES = {"history": "History Projection Viewer project visible", "ledger": "CallLedger"}

__all__ = ["CallLedger", "History", "Projection", "Viewer", "project", "visible"]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
