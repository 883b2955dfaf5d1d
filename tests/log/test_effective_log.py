"""What counts of a log: rewinds, and summaries that were made here or elsewhere."""

from __future__ import annotations

from kit import event, named_call, result, said, text

from flowloom import Event, EventActions
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.effective_log import EffectiveLog, Span
from flowloom.log.history import History, project

ROOT = Viewer("root", keeps_call_ids=True)
NOW = Viewer("root", current_turn_only=True)


def log_of(*events: Event) -> list[Event]:
    """Events with ids and times of their own: 0.0, 1.0, ..."""
    for number, each in enumerate(events):
        each.id, each.timestamp = f"e{number}", float(number)
    return [*events]


def summary(first: int, last: int, *, here: bool = False, **fields: object) -> Event:
    """A summary of the events from one place through another, made here or elsewhere."""
    compaction = EventCompaction(start_timestamp=first, end_timestamp=last, compacted_content=said("<in short>"))
    span = Span(f"e{first}", f"e{last}").to_metadata() if here else None
    return Event(author="user", actions=EventActions(compaction=compaction), custom_metadata=span, **fields)  # type: ignore[arg-type]


def rewind(invocation_id: str) -> Event:
    return Event(author="user", actions=EventActions(rewind_before_invocation_id=invocation_id))


def texts(log: list[Event], viewer: Viewer = ROOT) -> list[str]:
    """What is shown, a line for each content."""
    shown = project(log, viewer).contents
    return ["".join(part.text or "?" for part in content.parts or ()) for content in shown]


def oldest(log: list[Event]) -> str | None:
    """The words of the first event that no summary stands for."""
    it = EffectiveLog()
    it.read(log)
    found = it.oldest(log)
    return None if found is None else found.text


ONE, TWO, THREE = (event("user", "one"), event("root", "two"), event("user", "three"))


def test_a_log_that_is_another_one_is_read_anew_each_time() -> None:
    """A session that was loaded again, say."""
    history = History()
    for word in ("one", "two", "three"):
        shown = history.contents(log_of(event("user", word), event("root", word)), ROOT).contents
        assert [content.parts[0].text for content in shown if content.parts] == [word, word]


def test_an_invocation_is_rewound_once() -> None:
    """A second rewind to it finds nothing to take away."""
    log = log_of(
        event("user", "one", invocation_id="i1"),
        event("user", "two", invocation_id="i2"),
        rewind("i2"),
        event("user", "three", invocation_id="i3"),
        rewind("i2"),
        event("root", "four", invocation_id="i3"),
    )
    assert texts(log) == ["one", "three", "four"]


def test_the_ids_of_all_calls_that_were_rewound_stay_taken() -> None:
    """By however many rewinds."""
    calls = [event("root", named_call(f"c{n}", "look"), invocation_id=f"i{n}") for n in (1, 2)]
    log = log_of(calls[0], rewind("i1"), calls[1], rewind("i2"))
    history = History()
    assert [history.claim_call_id(log, call_id) for call_id in ("c1", "c2", "c3")] == [False, False, True]


def test_the_oldest_event_is_the_first_that_no_summary_stands_for() -> None:
    """None of an empty log, or of one that is summarised whole."""
    assert oldest([]) is None
    assert oldest(log_of(ONE, TWO)) == "one"
    assert oldest(log_of(ONE, TWO, THREE, summary(0, 1))) == "three"
    assert oldest(log_of(ONE, TWO, summary(0, 1))) is None


def test_a_summary_that_was_made_elsewhere_is_seen_on_every_branch() -> None:
    """Its own branch is that of whoever made it; what it tells of is not."""
    log = log_of(ONE, TWO, THREE, summary(0, 1, branch="side.a"))
    assert texts(log, ROOT._replace(branch="side.b")) == ["<in short>", "three"]


def test_a_summary_of_earlier_turns_is_no_part_of_the_current_one() -> None:
    """Wherever it stands, and whoever made it; one of the current turn is, from its first event on."""
    for here in (False, True):
        assert texts(log_of(ONE, TWO, summary(0, 1, here=here), THREE), NOW) == ["three"]
        assert texts(log_of(ONE, TWO, THREE, summary(0, 1, here=here)), NOW) == ["three"]
        assert texts(log_of(ONE, TWO, THREE, event("root", "four"), summary(2, 3, here=here)), NOW) == ["<in short>"]


def test_a_summarised_call_that_is_answered_twice_is_shown_once() -> None:
    """With the first answer; the second one replaces that."""
    call = event("root", text("let me look"), named_call("c1", "look"), long_running_tool_ids=["c1"])
    first, second = (event("user", result("c1", "look", {"n": n})) for n in (1, 2))
    log = log_of(ONE, call, TWO, summary(0, 2), first, event("root", "so far"), second, event("root", "at last"))
    assert texts(log) == ["<in short>", "let me look?", "?", "so far", "at last"]


def test_a_summary_whose_place_cannot_be_read_is_one_from_elsewhere() -> None:
    """Its times say what it stands for."""
    for place in ({"from": "e0"}, {"through": "e1"}, {"from": "e0", "through": 1}, ["e0", "e1"], None):
        short = summary(0, 1)
        short.custom_metadata = {"flowloom.compaction": place}
        assert texts(log_of(ONE, TWO, THREE, short)) == ["<in short>", "three"]
