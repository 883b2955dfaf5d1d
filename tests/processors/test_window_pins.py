"""What stays in a window because it is pinned, where it stands beside instructions, and how often is asked."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import agent, context, event, named_call, result, shown, system_text, text, user
from window_logs import request_of, round_of

from flowloom import Event, Flow, LlmAgent, RunConfig
from flowloom.events import EventCompaction
from flowloom.processors import DropToolPayloads, KeepTurns, TokenWindow
from flowloom.testing import ScriptedModel

PINNED = {"custom_metadata": {"pinned": True}}
LEAD_IN = "user: For context, this happened elsewhere in the conversation:"


def ten(_: types.Content) -> int:
    """Ten tokens for each content."""
    return 10


def talk(turns: int, first: int = 0) -> list[Event]:
    """Turns of two contents: m0, a0, m1, a1 and so on, the last one without an answer."""
    numbers = range(2 * first, 2 * (first + turns) - 1)
    return [event(("user", "root")[at % 2], f"{'ma'[at % 2]}{at // 2}") for at in numbers]


each_window = pytest.mark.parametrize("make", [lambda: TokenWindow(15, count=ten), lambda: KeepTurns(1)])


def answer_of(author: str, *parts: types.Part, **fields: Any) -> Event:
    made = event(author, *parts, **fields)
    assert made.content is not None
    made.content.role = "user"
    return made


# -- pinned events ---------------------------------------------------------------------------------


@each_window
@pytest.mark.parametrize(
    ("part", "told"),
    [
        (text("aisle"), "[helper] said: aisle"),
        (text("aisle", thought=True), "[helper] said: aisle"),
        (named_call("h1", "seat", row=1), '[helper] called tool `seat` with parameters: {"row":1}'),
    ],
    ids=["words", "thought", "call"],
)
async def test_what_another_agent_has_said_stays_alone_where_it_is_pinned(
    make: Any, part: types.Part, told: str
) -> None:
    """Without the message before it, which it does not answer; other words of that agent go."""
    said = [event("helper", "window"), event("helper", part, **PINNED), event("helper", "exit")]
    if part.function_call is not None:
        said.append(answer_of("helper", result("h1", "seat", {"free": True})))
    flow = Flow().with_processor(make(), after="contents")
    config = RunConfig(include_thoughts_from_other_agents=True)
    log = [*talk(1), event("root", "a0"), *said, *talk(2, first=1)]
    request = (await flow.assemble(context(agent("root", flow=flow), *log, run_config=config))).request
    assert shown(request) == [LEAD_IN, f"user: {told}", "user: m2"]


@each_window
async def test_pinned_words_before_the_first_message_stay_alone(make: Any) -> None:
    """A greeting, say."""
    for turns in (0, 3):
        log = [event("root", "hi", **PINNED), event("root", "ho"), *talk(turns)]
        assert shown(await request_of(log, make()))[0] == "model: hi"
        assert shown(await request_of(log, make()))[1:] == (["user: m2"] if turns else ["model: ho"])


@each_window
@pytest.mark.parametrize("call_id", ["adk-c1", "c1"])
@pytest.mark.parametrize("said", [{"n": 1}, {}], ids=["some", "nothing"])
async def test_a_pinned_call_or_result_keeps_its_group_and_no_other(make: Any, call_id: str, said: Any) -> None:
    """Ids that the engine gave are not shown, so that the contents are copies; however little is in them."""
    for pinned in (1, 2):
        log = [event("user", "look"), event("root", named_call(call_id, "look", **said))]
        log += [answer_of("root", result(call_id, "look", {**said}))]
        log += [event("root", named_call("adk-c2", "look")), answer_of("root", result("adk-c2", "look", {}))]
        log += [*round_of(2, 1, minted=True), *talk(2, first=1)]
        log[pinned].custom_metadata = {"pinned": True}
        expected = ["user: look", "model: look()", f"user: look -> {said}", "user: m2"]
        assert shown(await request_of(log, make())) == expected


@each_window
async def test_a_pinned_call_or_result_of_nothing_pins_no_other_of_nothing(make: Any) -> None:
    """A call may have no arguments, and a result no response; they have none in common."""

    def look(number: int) -> list[Event]:
        bare = types.FunctionCall(id=f"c{number}", name=f"look{number}")
        return [
            event("root", types.Part(function_call=bare)),
            answer_of("root", result(bare.id, f"look{number}", None)),
        ]

    for pinned in (1, 2):
        log = [event("user", "look"), *look(1), *look(2), *talk(2, first=1)]
        log[pinned].custom_metadata = {"pinned": True}
        contents = (await request_of(log, make())).contents
        called = [part.function_call for each in contents for part in each.parts or () if part.function_call]
        assert [each.name for each in called] == ["look1"]


@each_window
@pytest.mark.parametrize("pinned", [1, 2])
@pytest.mark.parametrize("bare", [1, 2])
async def test_a_pinned_call_or_result_of_nothing_is_known_under_an_id_of_the_engines(
    make: Any, pinned: int, bare: int
) -> None:
    """That id is not shown; what it answers, or is answered by, tells."""

    def look(number: int) -> list[Event]:
        called = types.FunctionCall(id=f"adk-c{number}", name=f"look{number}", args=None if bare == 1 else {})
        answer = result(called.id, f"look{number}", None if bare == 2 else {})
        return [event("root", types.Part(function_call=called)), answer_of("root", answer)]

    log = [event("user", "look"), *look(1), *look(2), *talk(2, first=1)]
    log[pinned].custom_metadata = {"pinned": True}
    contents = (await request_of(log, make())).contents
    called = [part.function_call for each in contents for part in each.parts or () if part.function_call]
    assert [each.name for each in called] == ["look1"]


@pytest.mark.parametrize("before", [False, True])
@each_window
async def test_pins_are_those_of_the_log_that_is_there_now(make: Any, before: bool) -> None:
    """Also if that says word for word what another one said that had others."""
    window, seen = make(), []
    for pinned in (before, not before):
        log = [event("user", "aisle", **(PINNED if pinned else {})), *talk(2, first=1)]
        seen.append(shown(await request_of(log, window)))
    stays, goes = ["user: aisle", "user: m2"], ["user: m2"]
    assert seen == ([stays, goes] if before else [goes, stays])


async def test_payloads_are_dropped_by_the_pins_that_are_there_now() -> None:
    """A result that is pinned no more gives way, and one that is pinned since comes back."""
    drop, said = DropToolPayloads(keep_last=1, max_chars=10), []
    for pinned in (True, False, True):
        log = [event("user", "m0"), *round_of(1, 50), *round_of(2, 50), *round_of(3, 50)]
        log[2].custom_metadata = {"pinned": pinned}
        said.append("left out" in shown(await request_of(log, drop))[2])
    assert said == [False, True, False]


@each_window
async def test_a_pin_that_the_history_has_lost_keeps_nothing(make: Any) -> None:
    """Not the same words said again, either."""
    window = make()
    log = [event("user", "m0"), event("helper", "aisle", **PINNED), *talk(2, first=1)]
    assert shown(await request_of(log, window)) == [LEAD_IN, "user: [helper] said: aisle", "user: m2"]
    log = [event("user", "n0"), event("helper", "aisle"), *talk(2, first=1)]
    assert shown(await request_of(log, window)) == ["user: m2"]


@each_window
@pytest.mark.parametrize(
    "part",
    [
        result("c1", "look", {"found": "b"}),
        types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")),
    ],
    ids=["result", "output"],
)
async def test_words_beside_a_result_begin_no_turn(make: Any, part: types.Part) -> None:
    """It belongs to the turn whose call it answers."""
    answered = answer_of("root", text("Here it is."), part)
    log = [event("user", "go"), event("root", named_call("c1", "look")), answered]
    assert shown(await request_of(log, make()))[0] == "user: go"


@each_window
async def test_a_group_that_is_pinned_once_and_again_is_shown_once_with_the_one_that_follows(make: Any) -> None:
    """In their order, whatever stands between them."""
    log = [event("user", "look"), *round_of(1, 1), event("root", "well"), *round_of(2, 2), *talk(2, first=1)]
    for place in (1, 2, 4):
        log[place].custom_metadata = {"pinned": True}
    looked = ["model: look()", "user: look -> {'found': 'b'}", "model: look()", "user: look -> {'found': 'bb'}"]
    assert shown(await request_of(log, make())) == ["user: look", *looked, "user: m2"]


@each_window
async def test_only_what_is_true_pins(make: Any) -> None:
    """Nor do events that say nothing, or nothing that is told."""
    marks: list[Any] = [{"pinned": False}, {"pinned": None}, {"other": True}, {}]
    log = [event("user", f"m{n}", custom_metadata=mark) for n, mark in enumerate(marks)]
    log += [event("helper", **PINNED), event("root", **PINNED), event("helper", text(""), **PINNED)]
    log.append(Event(author="helper", content=types.Content(role="model"), **PINNED))
    assert shown(await request_of([*log, event("user", "now")], make())) == ["user: now"]


@each_window
async def test_words_of_the_user_or_the_agent_are_pinned_by_their_event_and_not_by_their_letters(make: Any) -> None:
    """Those of another agent as the told ones, and not as the user's."""
    log = [event("user", "same", **PINNED), event("root", "same"), event("user", "same"), event("helper", "same")]
    assert shown(await request_of([*log, *talk(1)], make())) == ["user: same", "user: m0"]
    log = [event("user", "same"), event("root", "same", **PINNED), event("user", "same"), *talk(1)]
    assert shown(await request_of(log, make())) == ["user: same", "model: same", "user: m0"]


@each_window
async def test_what_a_user_answers_to_another_agents_call_stays_where_it_is_pinned(make: Any) -> None:
    """As it is told; other answers go."""
    log = [event("user", "m0"), event("helper", named_call("h1", "seat"), named_call("h2", "meal"))]
    log[1].long_running_tool_ids = ["h1", "h2"]
    log += [event("user", result("h1", "seat", {"row": 1}), **PINNED), event("user", result("h2", "meal", {"n": 2}))]
    kept = [LEAD_IN, 'user: [user] tool `seat` returned: {"row":1}']
    assert shown(await request_of([*log, *talk(2, first=1)], make())) == [*kept, "user: m2"]


def spoken(author: str, words: str, **fields: Any) -> Event:
    heard = {"input_transcription" if author == "user" else "output_transcription": types.Transcription(text=words)}
    return Event(author=author, **heard, **fields)


@each_window
async def test_what_was_spoken_stays_where_any_of_it_is_pinned(make: Any) -> None:
    """As the history tells it: what one speaker said in one go; words are not pinned because they begin as those do."""
    window = make()
    quiet = event("root", actions={"state_delta": {"a": 1}})
    log = [spoken("root", "hello"), event("user", "no"), spoken("user", "no "), quiet, spoken("user", "nu", **PINNED)]
    for words in ("no nu", "no nuts"):
        assert shown(await request_of([*log, event("user", "now")], window)) == [f"user: {words}", "user: now"]
        log.append(spoken("user", "ts"))
    log = [*log[:-1], event("root", actions={"state_delta": {"a": 1}}), spoken("root", "none"), spoken("user", "no nu")]
    log += [
        spoken("root", "as "),
        spoken("root", "you say", **PINNED),
        event("root", "well"),
        spoken("root", "you say"),
    ]
    kept = ["user: no nuts", "user: no nu", "model: as you say"]
    assert shown(await request_of([*log, event("user", "now")], window)) == [*kept, "user: now"]


@each_window
async def test_what_is_spoken_after_a_pinned_piece_is_pinned_with_it(make: Any) -> None:
    """All of it together, and the piece alone no more."""
    window = make()
    log = [spoken("user", "no ", **PINNED)]
    for piece in ("nu", "ts"):
        log.append(spoken("user", piece))
        await request_of([*log, event("user", "now")], window)
    log += [event("root", "well"), spoken("user", "no "), event("root", "hm"), event("user", "now")]
    assert shown(await request_of(log, window)) == ["user: no nuts", "user: now"]


@each_window
@pytest.mark.parametrize("again", [{}, PINNED], ids=["said", "pinned"])
async def test_what_was_spoken_stays_pinned_where_it_is_said_again_and_gone_on_with(make: Any, again: Any) -> None:
    log = [
        spoken("user", "no", **PINNED),
        event("root", "well"),
        spoken("user", "no", **again),
        spoken("user", " nuts"),
    ]
    kept = ["user: no", *(["user: no nuts"] if again else [])]
    assert shown(await request_of([*log, event("user", "now")], make())) == [*kept, "user: now"]


@each_window
@pytest.mark.parametrize(
    "between",
    [
        event("helper", "aside", isolation_scope="t1"),
        spoken("user", "aside", isolation_scope="t1"),
        event("root", named_call("r1", "adk_request_confirmation"), long_running_tool_ids=["r1"]),
        Event(author="root", content=types.Content(role="model")),
        Event(author="root", content=types.Content(parts=[text("aside")])),
    ],
    ids=["elsewhere", "spoken elsewhere", "request", "no parts", "no role"],
)
async def test_what_was_spoken_stays_pinned_whatever_is_not_shown_between(make: Any, between: Event) -> None:
    log = [spoken("user", "no ", **PINNED), between, spoken("user", "nuts", content=types.Content())]
    log += [event("root", "ok"), event("user", "now")]
    assert shown(await request_of(log, make())) == ["user: no nuts", "user: now"]


@each_window
async def test_a_call_that_the_model_is_shown_ends_what_is_spoken(make: Any) -> None:
    """Though it is made by the name of a request to a person."""
    name = "adk_request_confirmation"
    log = [spoken("user", "no ", **PINNED), event("root", named_call("c1", name)), spoken("user", "nuts")]
    log += [answer_of("root", result("c1", name, {"error": "no tool"})), event("root", "ok"), event("user", "now")]
    assert shown(await request_of(log, make())) == ["user: no ", "user: now"]


@each_window
@pytest.mark.parametrize("pinned", [1, 2])
async def test_a_call_or_result_with_words_behind_it_keeps_its_group(make: Any, pinned: int) -> None:
    log = [event("user", "go"), event("root", named_call("c1", "look"), text("I look."))]
    log += [answer_of("root", result("c1", "look", {"n": 1}), text("There.")), *talk(2, first=1)]
    log[pinned].custom_metadata = {"pinned": True}
    assert [each.role for each in (await request_of(log, make())).contents] == ["user", "model", "user", "user"]


@each_window
async def test_a_pin_may_come_later_and_a_summary_too(make: Any) -> None:
    """What was known of the log does not stand in the way; a summary brings no message along."""
    window = make()
    log = [event("user", "m0"), event("root", "a0")]
    assert shown(await request_of([*log, event("user", "m1")], window)) == ["user: m1"]
    log += [event("user", "m1"), event("root", "a1", **PINNED), *talk(2, first=2)]
    assert shown(await request_of(log, window)) == ["user: m1", "model: a1", "user: m3"]
    for number, each in enumerate(log):
        each.timestamp = float(number)
    summary = EventCompaction(start_timestamp=1, end_timestamp=3, compacted_content=user("In short."))
    log.append(event("root", actions={"compaction": summary}))
    log.append(event("user", "m4"))
    assert shown(await request_of(log, window)) == ["user: In short.", "user: m4"]


@each_window
async def test_a_pin_is_still_known_where_a_summary_comes_before_it(make: Any) -> None:
    window = make()
    log = [event("user", "m0"), event("root", "a0"), event("user", "m1", **PINNED), event("root", "a1")]
    log += [event("helper", "told", **PINNED), event("user", "m2")]
    for at, each in enumerate(log):
        each.timestamp = float(at)
    root = agent("root", flow=Flow().with_processor(window, after="contents"))
    place = context(root, *log)
    kept = ["user: m1", LEAD_IN, "user: [helper] said: told"]
    assert shown((await root.flow.assemble(place)).request) == [*kept, "user: m2"]
    summary = EventCompaction(start_timestamp=0, end_timestamp=1, compacted_content=user("In short."))
    place.session.events.extend([event("root", actions={"compaction": summary}), event("user", "m3")])
    assert shown((await root.flow.assemble(place)).request) == ["user: In short.", *kept, "user: m3"]


# -- instructions among the contents ---------------------------------------------------------------

CHANGING = {"static_instruction": "Be kind.", "instruction": "It is Monday."}


@each_window
async def test_instructions_before_several_messages_keep_their_place_when_some_of_those_go(make: Any) -> None:
    """They stand before all that the user has said last, also before what is left out; pinned things before them."""
    log = [event("user", "first", **PINNED), *talk(2, first=1), event("user", "m3", **PINNED), event("user", "m4")]
    log.insert(-1, event("user", "and"))
    flow = Flow().with_processor(make(), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow, **CHANGING), *log))).request
    assert system_text(request).startswith("Be kind.")
    assert shown(request) == ["user: first", "user: It is Monday.", "user: m3", "user: m4"]
    log[3].custom_metadata = {"pinned": True}
    flow = Flow().with_processor(make(), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow, **CHANGING), *log))).request
    assert shown(request) == ["user: first", "user: It is Monday.", "user: m2", "user: m3", "user: m4"]


@each_window
async def test_instructions_before_the_first_message_stay(make: Any) -> None:
    """Where the user has said all there is."""
    log = [event("user", f"m{number}") for number in range(3)]
    flow = Flow().with_processor(make(), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow, **CHANGING), *log))).request
    assert shown(request) == ["user: It is Monday.", "user: m2"]


async def test_instructions_of_several_pieces_are_no_turn() -> None:
    """They are one content, with an empty line between the pieces."""

    def remind(ctx: Any, request: Any) -> None:
        request.dynamic_instructions.append("Be brief.")

    flow = Flow().with_processor(remind, before="contents").with_processor(KeepTurns(2, step=1), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow, **CHANGING), *talk(4)))).request
    assert shown(request) == ["user: m2", "model: a2", "user: It is Monday.\n\nBe brief.", "user: m3"]


async def test_instructions_behind_results_are_no_turn() -> None:
    flow = Flow().with_processor(KeepTurns(2, step=1), after="contents")
    log = [*talk(3), *round_of(1, 1)]
    request = (await flow.assemble(context(agent("root", flow=flow, **CHANGING), *log))).request
    assert shown(request)[0] == "user: m1"
    assert shown(request)[-1] == "user: It is Monday."


@pytest.mark.parametrize("words", [[], ["and", "then"]], ids=["behind", "among"])
async def test_payloads_are_dropped_around_instructions(words: list[str]) -> None:
    """Each content stays where it was."""
    log = [event("user", "m0"), *round_of(1, 600), *(event("user", each) for each in words), *round_of(2, 1)]
    flow = Flow().with_processor(DropToolPayloads(keep_last=1), after="contents")
    asked = agent("root", flow=flow, **CHANGING)
    whole = shown((await Flow().assemble(context(agent("root", **CHANGING), *log))).request)
    found = shown((await flow.assemble(context(asked, *log))).request)
    marker = "user: look -> {'omitted': 'The result of `look` (613 characters) is old and was left out.'}"
    assert found == [marker if "bbbbb" in line else line for line in whole]


class OfTheGeminiApi(ScriptedModel):
    """A model that the processor of file names takes for one of the Gemini API."""

    @property
    def backend(self) -> Any:
        return "gemini_api"


def named(name: str) -> types.Part:
    return types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png", display_name=name))


@each_window
@pytest.mark.parametrize("fields", [{}, CHANGING], ids=["plain", "instructed"])
async def test_later_processors_find_files_that_stay_before_the_window_begins(make: Any, fields: Any) -> None:
    """Those that are pinned, those behind them, and no others; the session's keep their names."""
    log = [event("user", "m0"), event("user", named("gone.png")), event("user", named("cat.png"), **PINNED)]
    log += [event("root", "a cat"), *talk(2, first=1), event("user", named("dog.png"))]
    flow = Flow().with_processor(make(), after="contents")
    root = LlmAgent(name="root", model=OfTheGeminiApi(["ok"]), flow=flow, **fields)
    request = (await flow.assemble(context(root, *log))).request
    files = [part.inline_data for content in request.contents for part in content.parts or () if part.inline_data]
    assert [(file.data, file.display_name) for file in files] == [(b"x", None)] * 2
    names = [part.inline_data.display_name for each in log for part in each.content.parts if part.inline_data]  # type: ignore[union-attr]
    assert names == ["gone.png", "cat.png", "dog.png"]


# -- how often is asked ----------------------------------------------------------------------------


class Asked:
    """A predicate that notes what it is asked of."""

    def __init__(self) -> None:
        self.of: list[str | None] = []

    def __call__(self, content: types.Content) -> bool:
        self.of.append((content.parts or [types.Part()])[0].text)
        return False


@pytest.mark.parametrize(
    "make",
    [
        lambda asked: KeepTurns(1, pinned=asked),
        lambda asked: TokenWindow(20, count=ten, pinned=asked),
        lambda asked: DropToolPayloads(keep_last=1, pinned=asked),
    ],
)
async def test_whether_a_content_is_pinned_is_asked_once_and_of_the_history_alone(make: Any) -> None:
    """Also while the history grows; what the run puts before it stays without being asked for."""
    asked = Asked()
    window = make(asked)
    flow = Flow().with_processor(window, after="contents")
    config = RunConfig(model_input_context=[user("About the house.")])
    for turns in range(1, 5):
        await flow.assemble(context(agent("root", flow=flow), *talk(turns), run_config=config))
    assert asked.of == ["m0", "a0", "m1", "a1", "m2", "a2", "m3"]
    for place in ({"branch": "root.a"}, {"isolation_scope": "t1"}):
        asked.of.clear()
        log = talk(2)
        for each in log:
            each.branch, each.isolation_scope = place.get("branch"), place.get("isolation_scope")
        for _ in range(2):
            await flow.assemble(context(agent("root", flow=flow), *log, run_config=config, **place))
        assert asked.of == ["m0", "a0", "m1"]


async def test_a_window_remembers_the_sessions_it_saw_last() -> None:
    """Of sixty-four it asks nothing anew, of the one before them it does."""
    asked = Asked()
    flow = Flow().with_processor(KeepTurns(1, pinned=asked), after="contents")
    root = agent("root", flow=flow)

    async def ask(number: int) -> int:
        before = len(asked.of)
        place = context(root, event("user", "m"))
        place.run.session.id = f"s{number}"
        await flow.assemble(place)
        return len(asked.of) - before

    assert [await ask(number) for number in range(64)] == [1] * 64
    assert [await ask(number) for number in (0, 63, 1)] == [0, 0, 0]
    assert [await ask(64), await ask(0), await ask(2)] == [1, 0, 1]


# -- budgets ---------------------------------------------------------------------------------------


def number(content: types.Content) -> int:
    """As many tokens as the number in the text says."""
    return int("".join(filter(str.isdigit, (content.parts or [types.Part()])[0].text or "0")))


async def test_a_pinned_payload_stays_whole_where_a_run_before_put_something_before_the_history() -> None:
    """Each run puts its own there."""
    flow = Flow().with_processor(DropToolPayloads(keep_last=1, max_chars=0), after="contents")
    root = agent("root", flow=flow)
    log = [event("user", "go"), *round_of(1, 3), *round_of(2, 3)]
    log[2].custom_metadata = {"pinned": True}
    config = RunConfig(model_input_context=[user("The house."), user("The garden."), user("The street.")])
    for run_config in (config, RunConfig()):
        request = (await flow.assemble(context(root, *log, run_config=run_config))).request
        assert "user: look -> {'found': 'bbb'}" in shown(request)[:-1]


async def test_what_a_run_adds_before_the_history_is_no_turn() -> None:
    """The window moves by turns of the history alone."""
    added = RunConfig(model_input_context=[user("The house.")])
    flow = Flow().with_processor(KeepTurns(2, step=2), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow), *talk(4), run_config=added))).request
    assert shown(request) == ["user: The house.", "user: m2", "model: a2", "user: m3"]


@pytest.mark.parametrize(("budget", "first"), [(65, "user: 5"), (64, "user: 20")])
async def test_what_a_run_adds_before_the_history_is_counted_with_it(budget: int, first: str) -> None:
    """To the token."""
    added = RunConfig(model_input_context=[user("7"), user("8")])
    log = [event("user", "5"), event("root", "15"), event("user", "20"), event("root", "9"), event("user", "1")]
    flow = Flow().with_processor(TokenWindow(budget, count=number, cut_to=1), after="contents")
    request = (await flow.assemble(context(agent("root", flow=flow), *log, run_config=added))).request
    assert shown(request)[:3] == ["user: 7", "user: 8", first]


@pytest.mark.parametrize("make", [lambda n: TokenWindow(7 * n, count=number), lambda n: KeepTurns(n, step=1)])
async def test_a_window_forgets_what_the_history_has_lost(make: Any) -> None:
    """Each history is shown as a new window shows it, whichever came before: a shorter one, another end, one more."""
    texts = ["3", "10", "8", "2", "13", "4", "6", "9", "5", "7", "11", "1", "12"]
    whole = [event(("user", "root")[at % 2], each) for at, each in enumerate(texts)]
    whole[2].custom_metadata = {"pinned": True}
    for size in (1, 3, 4):
        window = make(size)
        for length, end in ((9, "20"), (11, "1"), (5, "30"), (13, "2"), (3, "2"), (12, "14")):
            log = [*whole[: length - 1], event("user", end)]
            assert shown(await request_of(log, window)) == shown(await request_of(log, make(size)))


async def test_markers_are_forgotten_with_what_the_history_has_lost() -> None:
    """Also where the history goes back into calls that were made at once, one of whose results was pinned."""

    def long(content: types.Content) -> bool:
        return any("bbbb" in str(part.function_response) for part in content.parts or ())

    rounds = [round_of(n, 60 if n == 1 else 3) for n in range(6)]
    whole = [event("user", "go"), *(each for made in rounds for each in made)]
    other = [*whole[:4], round_of(1, 3)[1], *whole[5:]]
    assert [len(each) for each in (whole, other)] == [13, 13]
    window = DropToolPayloads(keep_last=1, max_chars=0, pinned=long)
    for log in (whole, whole[:9], other, whole, whole[:5], other, whole[:3], whole):
        found = await request_of(log, window)
        fresh = await request_of(log, DropToolPayloads(keep_last=1, max_chars=0, pinned=long))
        assert found.contents == fresh.contents
