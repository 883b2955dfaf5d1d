"""Looking at the engine: requests and events as data and text, differences, what a request costs, what wrote it.

It imports `runner` and the rooms below; running an agent loads nothing of it. Begin with `explanation.py`, which uses
`assembly.py`: a request, and how it came about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.inspection.assembly import Assembly, AssemblyStep
    from flowloom.inspection.changes import Change
    from flowloom.inspection.difference import Difference, RequestDiff, assert_prefix_extends, diff
    from flowloom.inspection.event_view import EventsView
    from flowloom.inspection.explanation import explain
    from flowloom.inspection.profile import CostChange, ProcessorCost, ProcessorProfile, measure
    from flowloom.inspection.request_view import RequestView
    from flowloom.inspection.sections import Section
    from flowloom.inspection.text import read_sections, write_sections

_HOMES = {
    "assembly": "Assembly AssemblyStep",
    "changes": "Change",
    "difference": "Difference RequestDiff assert_prefix_extends diff",
    "event_view": "EventsView",
    "explanation": "explain",
    "profile": "CostChange ProcessorCost ProcessorProfile measure",
    "request_view": "RequestView",
    "sections": "Section",
    "text": "read_sections write_sections",
}

__all__ = [
    "Assembly",
    "AssemblyStep",
    "Change",
    "CostChange",
    "Difference",
    "EventsView",
    "ProcessorCost",
    "ProcessorProfile",
    "RequestDiff",
    "RequestView",
    "Section",
    "assert_prefix_extends",
    "diff",
    "explain",
    "measure",
    "read_sections",
    "write_sections",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
