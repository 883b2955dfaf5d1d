"""Requests and events as data and text: what they hold, and what is different between two."""

from flowloom.views.changes import Change
from flowloom.views.difference import Difference, RequestDiff, assert_prefix_extends, diff
from flowloom.views.event_view import EventsView
from flowloom.views.request_view import RequestView
from flowloom.views.sections import Section
from flowloom.views.text import read_sections, write_sections

__all__ = [
    "Change",
    "Difference",
    "EventsView",
    "RequestDiff",
    "RequestView",
    "Section",
    "assert_prefix_extends",
    "diff",
    "read_sections",
    "write_sections",
]
