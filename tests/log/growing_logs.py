"""A log as it grows: what is shown of it is what is shown of it when it is read at once."""

from __future__ import annotations

from flowloom import Event
from flowloom.log import Viewer
from flowloom.log.history import History, Projection, project


def shown_of(log: list[Event], viewer: Viewer) -> Projection:
    """What a viewer is shown; looked at after each event, after each second and third one, and at the end."""
    whole = [project(log[:seen], viewer) for seen in range(len(log) + 1)]
    for step in (3, 2, 1):
        history = History()
        for seen in (*range(0, len(log), step), len(log)):
            grown = history.contents(log[:seen], viewer)
            for field in ("contents", "special", "orphans"):
                assert getattr(grown, field) == getattr(whole[seen], field), (step, seen, field)
    return whole[-1]
