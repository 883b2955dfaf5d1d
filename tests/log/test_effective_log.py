"""What counts of a log: rewinds, and summaries that were made here or elsewhere."""

from __future__ import annotations

import pytest
from google.genai import types
from growing_logs import shown_of
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
    return at_times(*((float(number), each) for number, each in enumerate(events)))


def at_times(*events: tuple[float, Event]) -> list[Event]:
    """Events with ids of their own, at these times."""
    for number, (time, each) in enumerate(events):
        each.id, each.timestamp = f"e{number}", time
    return [each for _, each in events]


def summary(first: float, last: float, words: str = "<in short>", *, here: bool = False, **fields: object) -> Event:
    """A summary of the events from one place through another, made here or elsewhere."""
    compaction = EventCompaction(start_timestamp=first, end_timestamp=last, compacted_content=said(words))
    span = Span(f"e{first}", f"e{last}").to_metadata() if here else None
    return Event(author="user", actions=EventActions(compaction=compaction), custom_metadata=span, **fields)  # type: ignore[arg-type]


def rewind(invocation_id: str) -> Event:
    return Event(author="user", actions=EventActions(rewind_before_invocation_id=invocation_id))


def texts(log: list[Event], viewer: Viewer = ROOT) -> list[str]:
    """What is shown, a line for each content; the same when the log is read event by event."""
    shown = shown_of(log, viewer).contents
    return ["".join(part.text or "?" for part in content.parts or ()) for content in shown]


def oldest(log: list[Event]) -> str | None:
    """The words of the first event that no summary stands for."""
    it = EffectiveLog()
    it.read(log)
    found = it.oldest()
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


def test_what_came_behind_a_rewind_can_be_rewound() -> None:
    """And a call that was rewound with its summary is shown no more, though an answer to it comes."""
    one, two, three = (event("user", word, invocation_id=word) for word in ("one", "two", "three"))
    assert texts(log_of(one, two, rewind("two"), three, rewind("three"))) == ["one"]
    waits = event("root", named_call("c1", "look"), long_running_tool_ids=["c1"], invocation_id="two")
    answer = event("user", result("c1", "look", {}))
    assert texts(log_of(one, waits, summary(1, 1, invocation_id="two"), rewind("two"), answer)) == ["one"]


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


FOUR = event("root", "four")
WAITS = event("root", text("let me look"), named_call("c1", "look"), long_running_tool_ids=["c1"])
OPEN = event("root", text("let me look"), named_call("c1", "look"))
ANSWER = event("user", result("c1", "look", {"n": 1}))


def test_a_summary_stands_for_what_was_said_between_its_times_wherever_that_stands() -> None:
    """Though the log is not in the order of its times: two processes append to it, say, or a call is shown again."""
    log = at_times((0, ONE), (2, TWO), (1, THREE), (3, summary(0, 1)))
    assert texts(log) == ["<in short>", "two"]
    assert texts(at_times((5, ONE), (3, TWO), (6, summary(4, 5)))) == ["<in short>", "two"]
    log = at_times((0, ONE), (5, TWO), (3, THREE), (9, summary(1, 2)))
    assert texts(log) == ["one", "<in short>", "two", "three"]
    log = at_times((0, ONE), (5, TWO), (3, THREE), (9, summary(-2, -1, "<old>")), (9, summary(3, 4)))
    assert texts(log) == ["<old>", "one", "two", "<in short>"]
    last = [
        ONE,
        summary(50, 60),
        event("user", "two", invocation_id="i2"),
        summary(2, 2, here=True, invocation_id="i2"),
    ]
    assert texts(log_of(*last[:2])) == ["one", "<in short>"]
    assert texts(log_of(*last)) == ["one", "<in short>", "<in short>"]
    assert texts(log_of(*last, rewind("i2"), FOUR, summary(5, 5, here=True))) == ["one", "<in short>", "<in short>"]
    shown_again = [ONE, WAITS, TWO, summary(0, 2), THREE, ANSWER, summary(4, 5, "<later>")]
    assert texts(log_of(*shown_again)) == ["<in short>", "<later>", "let me look?"]
    shown_again[-1] = summary(4, 5, "<later>", here=True)
    assert texts(log_of(*shown_again)) == ["<in short>", "<later>"]


def test_a_summary_of_what_is_not_there_stands_where_that_would() -> None:
    """One made here tells of what was not loaded, whatever its times say, and stands before all that was. A later one
    from the beginning on has taken it in."""
    here = summary(50, 60, here=True)
    here.custom_metadata = Span("x", "y").to_metadata()
    assert texts(log_of(ONE, TWO, here)) == ["<in short>", "one", "two"]
    assert texts(log_of(ONE, here, TWO, summary(0, 2, "<later>"))) == ["<in short>", "<later>"]
    old = summary(-5, -1, "<old>")
    assert texts(log_of(ONE, TWO, THREE, old, summary(0, 1, here=True))) == ["<in short>", "three"]
    assert texts(log_of(THREE, FOUR, here), NOW) == ["three", "four"]
    assert texts(log_of(ONE, here, TWO, summary(0, 2, "<later>", here=True))) == ["<in short>", "<later>"]
    other = summary(70, 80, "<other>", branch="side.a")
    other.custom_metadata = here.custom_metadata
    assert texts(log_of(ONE, here, other, summary(0, 0, "<later>"))) == ["<in short>", "<other>", "<later>"]


def test_of_summaries_of_what_is_not_there_one_that_another_holds_is_not_shown() -> None:
    """One that reaches further at either end is, and one of another scope."""
    wide = (-5, -2)
    held, beside = [(-4, -3), (-5, -2), (-4, -2), (-5, -3)], [(-6, -3), (-4, -1), (-9, -7)]
    for other, shown in [*((each, 1) for each in held), *((each, 2) for each in beside)]:
        assert len(texts(log_of(ONE, summary(*wide), summary(*other)))) == 1 + shown
    elsewhere = [summary(-2, -1, "<a>"), summary(-2, -1, "<b>", isolation_scope="task")]
    assert texts(log_of(ONE, *elsewhere), ROOT._replace(isolation_scope="task")) == ["<b>"]


def test_a_summary_made_elsewhere_stands_for_what_is_in_its_scope() -> None:
    """On every branch."""
    log = log_of(event("user", "one", isolation_scope="c1"), TWO, event("root", "on a branch", branch="side.a"))
    scoped = [*log, *log_of(summary(0, 2, isolation_scope="c1"))]
    assert texts(scoped, ROOT._replace(isolation_scope="c1")) == ["<in short>"]
    assert texts(scoped) == ["two", "on a branch"]
    assert texts([*log, *log_of(summary(0, 2))]) == ["<in short>"]


def test_a_rewind_of_nothing_but_a_summary_shows_again_what_it_stood_for() -> None:
    """One that was made in a turn of its own."""
    log = log_of(ONE, TWO, summary(0, 1, invocation_id="i2"), THREE)
    for seen in (3, 4):
        assert texts([*log[:seen], rewind("i2")]) == ["one", "two"]
    gone = log_of(event("user", "one", invocation_id="i1"), summary(0, 0, invocation_id="i1"), rewind("i1"))
    assert texts(gone, NOW) == texts(gone) == []


@pytest.mark.parametrize("viewer", [ROOT, NOW])
def test_a_summary_of_what_was_rewound_meanwhile_is_void(viewer: Viewer) -> None:
    """It was made while that was there, and is stored behind the rewind."""
    two = event("root", "two", invocation_id="i2")
    log = log_of(ONE, two, rewind("i2"), summary(0, 1, here=True), FOUR)
    assert texts(log, viewer) == ["one", "four"]


def test_an_answer_that_is_rewound_hides_the_call_that_it_had_shown_again() -> None:
    """Until it is answered again."""
    answers = [event("user", result("c1", "look", {"n": n}), invocation_id=f"i{n}") for n in (1, 2)]
    log = log_of(ONE, WAITS, TWO, summary(0, 2), answers[0], rewind("i1"))
    assert texts(log) == ["<in short>"]
    assert texts([*log, answers[1], FOUR]) == ["<in short>", "let me look?", "?", "four"]


@pytest.mark.parametrize(
    ("summarised", "shown"),
    [
        ([WAITS, TWO], ["let me look?", "?"]),
        ([OPEN, TWO], ["let me look?", "?"]),
        ([OPEN, ANSWER], []),
        ([WAITS, ANSWER], ["let me look?", "?"]),
        ([OPEN, event("root", text("again"), named_call("c1", "look")), ANSWER], ["let me look?", "?"]),
    ],
    ids=["waits", "is open", "was answered", "reports again", "and another of its id, which was answered"],
)
def test_a_summarised_call_is_shown_again_with_an_answer_to_it(summarised: list[Event], shown: list[str]) -> None:
    """If it may be answered still."""
    log = [*summarised, summary(0, len(summarised) - 1), THREE, ANSWER, FOUR]
    assert texts(log_of(*[each.model_copy() for each in log])) == ["<in short>", "three", *shown, "four"]


@pytest.mark.parametrize("between", [[], [THREE]], ids=["at once", "later"])
def test_an_answer_that_came_before_the_summary_of_its_call_is_shown_with_the_call(between: list[Event]) -> None:
    """The summary tells of what stands before it, and the answer behind that."""
    log = log_of(ONE, WAITS, *between, ANSWER, FOUR, summary(0, 1, here=True))
    shown = ["<in short>", *(each.text for each in between), "let me look?", "?", "four"]
    assert texts(log) == shown
    assert texts(log_of(*log, TWO, summary(len(log), len(log), "<later>", here=True))) == [*shown, "<later>"]


def test_calls_and_answers_in_the_words_of_a_summary_are_none() -> None:
    """As one has them that another program made: neither is it shown again, nor does it show a call again."""

    def of(first: float, last: float, part: types.Part) -> Event:
        made = summary(first, last)
        assert made.actions.compaction is not None
        made.actions.compaction.compacted_content = said("<in short>", part)
        return made

    log = log_of(ONE, of(0, 0, named_call("c1", "look")), TWO, summary(0, 2, "<later>"), ANSWER, FOUR)
    assert texts(log) == ["<later>", "four"]
    log = log_of(ONE, WAITS, THREE, of(2, 2, result("c1", "look", {})), FOUR, summary(0, 1, "<early>", here=True))
    assert texts(log) == ["<early>", "<in short>", "four"]


def test_a_summarised_call_without_an_id_is_shown_no_more() -> None:
    """What comes without an id behind the summary is no answer to it."""
    nameless = event("root", text("let me look"), named_call("", "look"))
    log = log_of(ONE, nameless, summary(0, 1), event("user", result(None, "look", {})), FOUR)
    assert texts(log) == ["<in short>", "four"]


def test_another_call_behind_a_summarised_one_is_shown_as_ever() -> None:
    """The summarised one is answered behind it all the same, unless both have one id: the later one has the answer."""
    other = event("root", named_call("c2", "look"))
    log = log_of(ONE, WAITS, TWO, summary(0, 2), other, event("user", result("c2", "look", {})), THREE, ANSWER, FOUR)
    assert texts(log) == ["<in short>", "?", "?", "three", "let me look?", "?", "four"]
    again = event("root", text("again"), named_call("c1", "look"), long_running_tool_ids=["c1"])
    assert texts(log_of(ONE, WAITS, TWO, summary(0, 2), again, ANSWER)) == ["<in short>", "again?", "?"]


def test_a_summary_takes_the_place_of_all_that_it_stands_for() -> None:
    """In number, too: what waits for a summary of its own is counted without those that have one."""
    log = log_of(ONE, TWO, THREE, summary(0, 1))
    read = EffectiveLog()
    read.read(log)
    assert read.size() == 2
    assert [(entry.first, entry.last, entry.is_summary) for entry in read.entries()] == [(0, 1, True), (2, 2, False)]
    read.read(log[:2])
    assert read.size() == 2
    assert [(entry.first, entry.last) for entry in read.entries()] == [(0, 0), (1, 1)]


def test_a_view_knows_of_each_change_since_it_was_looked_at() -> None:
    """Of a step back, though a summary of earlier turns, which changes nothing here, came behind it."""
    history = History()
    log = log_of(
        event("user", "one", invocation_id="i1"),
        summary(-2, -1),
        event("user", "two", invocation_id="i2"),
        rewind("i2"),
        summary(-4, -3),
    )
    for seen in (3, 5):
        shown = history.contents(log[:seen], NOW).contents
        assert shown == project(log[:seen], NOW).contents


def test_so_many_views_of_a_log_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was made first goes first."""
    monkeypatch.setattr(History, "MAX_VIEWS", 2)
    history, log = History(), [ONE]
    viewers = [Viewer(name) for name in ("a", "b", "c")]
    first, second, _ = [history.contents(log, viewer) for viewer in viewers]
    assert history.contents(log, viewers[1]) is second
    assert history.contents(log, viewers[0]) is not first


@pytest.mark.parametrize(("last", "rest"), [(1, ["three"]), (3, [])])
def test_a_later_summary_takes_in_one_of_no_more_than_it_is_of_itself(last: int, rest: list[str]) -> None:
    """Of just as much, or of more, but not of less."""
    assert texts(log_of(ONE, TWO, summary(0, 1), THREE, summary(0, last, "<later>"))) == ["<later>", *rest]
    for here in (True, False):
        short = summary(0, 0, "<later>", here=here)
        assert texts(log_of(ONE, TWO, summary(0, 1, here=here), THREE, short)) == ["<in short>", "three"]


def test_a_call_that_is_shown_again_is_seen_by_those_who_do_not_see_its_answer() -> None:
    """On another branch, say."""
    answer = event("user", result("c1", "look", {}), branch="side.b")
    log = log_of(ONE, WAITS, TWO, summary(0, 2), THREE, answer, FOUR)
    assert texts(log, ROOT._replace(branch="side.a")) == ["<in short>", "three", "let me look?", "four"]


def test_summaries_stand_in_the_order_of_what_they_are_of() -> None:
    """Of what is there and of what is not."""
    assert texts(log_of(summary(-5, -4, "<a>"))) == ["<a>"]
    assert texts(log_of(ONE, summary(-5, -4, "<a>"), summary(-3, -2, "<b>"))) == ["<a>", "<b>", "one"]
    log = at_times((0, ONE), (5, TWO), (6, summary(0, 1, here=True)), (7, summary(1, 2, "<b>")))
    assert texts(log) == ["<in short>", "<b>"]


def test_a_summary_stands_before_one_that_begins_after_it_ends() -> None:
    """Of two that overlap, or meet at one time, the one that was made first stands first."""
    for last, shown in ((-0.5, ["<b>", "<a>"]), (0, ["<a>", "<b>"]), (0.5, ["<a>", "<b>"])):
        assert texts(log_of(ONE, TWO, summary(0, 1, "<a>"), summary(-1, last, "<b>"))) == shown


def test_a_later_summary_finds_what_it_is_of_behind_ones_that_have_no_event_to_stand_for() -> None:
    """One made elsewhere has taken in the events of one made here on their branch, which is put behind it."""
    said = [event("root", word, branch="side.a") for word in ("one", "two")]
    here = summary(0, 1, here=True, branch="side.a")
    log = log_of(*said, summary(0, 1, "<elsewhere>"), here, THREE, summary(0, 4, "<later>", here=True))
    assert texts(log[:-1]) == ["<elsewhere>", "<in short>", "three"]
    assert texts(log) == ["<later>", "<in short>"]


def test_a_call_that_is_shown_again_stands_where_its_answer_does() -> None:
    """So that positions rise, and what a later summary is of is found by them."""
    read = EffectiveLog()
    read.read(log_of(ONE, WAITS, ANSWER, FOUR, summary(0, 1, here=True)))
    assert [(entry.first, entry.last) for entry in read.entries()] == [(0, 1), (2, 2), (2, 2), (3, 3)]


def test_a_summary_made_here_is_seen_where_its_events_were() -> None:
    """On their branch."""
    said = [event("root", word, branch="side.a") for word in ("one", "two")]
    log = log_of(*said, THREE, summary(0, 1, here=True, branch="side.a"))
    assert texts(log, ROOT._replace(branch="side.a")) == ["<in short>", "three"]
    assert texts(log, ROOT._replace(branch="side.b")) == ["three"]


def test_a_summary_stands_for_what_has_an_empty_branch_or_scope_as_for_what_has_none() -> None:
    """As another program may have stored it."""
    empty = [event("user", "one", branch=""), event("root", "two", isolation_scope="")]
    for short in (summary(0, 1), summary(0, 1, here=True), summary(0, 1, isolation_scope="", branch="")):
        assert texts(log_of(*empty, THREE, short)) == ["<in short>", "three"]


def test_a_call_behind_a_summary_waits_for_its_answer_as_ever() -> None:
    """What stands before it stays."""
    log = log_of(ONE, TWO, summary(0, 0), event("root", named_call("c1", "look")), ANSWER)
    assert texts(log[:-1]) == ["<in short>", "two"]
    assert texts(log) == ["<in short>", "two", "?", "?"]
