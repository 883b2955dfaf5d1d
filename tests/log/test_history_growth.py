"""What a history looks at as its log grows: what is new, and the rest only where something is to be put elsewhere."""

from __future__ import annotations

import pytest
from google.genai import types
from kit import event, named_call, result, said

from flowloom import Event, EventActions
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.history import History

ROOT = Viewer("root")
CURRENT = Viewer("root", current_turn_only=True)


def looked_at(steps: list[list[Event]], viewer: Viewer) -> list[list[Event]]:
    """The events that a history looks at when it is asked for contents behind each step of a log."""
    history, log, looks = History(), list[Event](), list[list[Event]]()

    def rule(event: Event, viewer: Viewer) -> bool:
        looks[-1].append(event)
        return True

    for step in steps:
        looks.append([])
        for each in step:
            each.timestamp = float(len(log))
            log.append(each)
        history.contents(log, viewer, rule)
    return looks


def summary(first: float, last: float) -> Event:
    """A summary of what was said between two times."""
    compaction = EventCompaction(start_timestamp=first, end_timestamp=last, compacted_content=said("<in short>"))
    return Event(author="user", actions=EventActions(compaction=compaction))


BACK = Event(author="user", actions=EventActions(rewind_before_invocation_id="i0"))
IMAGE = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
ASKED = event("root", named_call("c1", "look"), named_call("c2", "look"))
ORDERED = event("root", named_call("c3", "order"), long_running_tool_ids=["c3"])
PLAIN = [
    [event("user", "one")],
    [],
    [event("root", "two"), event("root", IMAGE)],
    [ASKED, event("root", result("c1", "look", {}), result("c2", "look", {}))],
    [event("helper", "three")],
    [event("helper", named_call("c4", "look")), event("helper", result("c4", "look", {}))],
    [Event(author="root"), event("root", "")],
    [ORDERED],
    [event("root", result("c3", "order", {}))],
    [event("root", named_call("c5", "order"), long_running_tool_ids=["c5"])],
    [event("root", "on it")],
    [event("user", "four"), event("user", IMAGE)],
]


@pytest.mark.parametrize("viewer", [ROOT, CURRENT])
def test_each_event_is_looked_at_once(viewer: Viewer) -> None:
    """Answers right behind their calls as well, and what starts a turn."""
    assert looked_at(PLAIN, viewer) == PLAIN


def test_a_summary_of_earlier_turns_is_nothing_to_who_is_shown_the_current_one() -> None:
    """It costs no look, however many there are, and whatever was rewound before."""
    turns = [[event("user", "wrong", invocation_id="i0")], [BACK, event("user", "one"), event("root", "two")]]
    behind = [
        [event("user", "three")],
        [summary(2, 3)],
        [event("root", "four")],
        [summary(2, 3), event("root", "five")],
    ]
    words = [[each for each in step if each.actions.compaction is None] for step in behind]
    assert looked_at([*turns, *behind], CURRENT)[2:] == words


def test_a_rewind_and_a_summary_have_the_log_looked_at_anew_once() -> None:
    """What counts of it, that is."""
    one, short = event("user", "one"), summary(0, 0)
    steps = [[one], [event("user", "wrong", invocation_id="i0")], [BACK], [event("root", "two")], [short]]
    more = [[event("root", "three")], [event("root", "four")]]
    looks = looked_at([*steps, *more], ROOT)
    assert looks[:4] == [*steps[:2], [one], steps[3]]
    assert [each.author for each in looks[4]] == ["user", "root"]
    assert looks[5:] == more


def test_a_late_answer_has_the_log_looked_at_anew_until_the_next_event() -> None:
    """Which brings back what the answer left out."""
    log = [event("user", "one"), ORDERED, event("root", "on it"), event("root", result("c3", "order", {}))]
    more = [event("root", "there"), event("root", "you"), event("root", "are")]
    steps = [*([each] for each in log), [], *([each] for each in more)]
    assert looked_at(steps, ROOT) == [*steps[:3], [log[3], *log], [], [*log, more[0]], *steps[6:]]
