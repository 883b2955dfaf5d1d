"""Windows on long histories: what they leave out, and what they never do."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, context, event, requests_of, shown, system_text, text, user
from window_logs import image, request_of, round_of

from flowloom import ConfigurationError, Event, Flow, InvocationContext, LlmAgent, LlmRequest, LlmResponse, RunConfig
from flowloom.events import EventCompaction
from flowloom.processors import DropToolPayloads, KeepTurns, TokenWindow
from flowloom.testing import ScriptedModel, call


class OfTheGeminiApi(ScriptedModel):
    """A model that the processor of file names takes for one of the Gemini API."""

    @property
    def backend(self) -> Any:
        return "gemini_api"


def ten(_: types.Content) -> int:
    """Ten tokens for each content."""
    return 10


def talk(turns: int, **fields: Any) -> list[Event]:
    """Turns of two contents: m0, a0, m1, a1 and so on, the last one without an answer."""
    log: list[Event] = []
    for number in range(turns):
        log += [event("user", f"m{number}", **fields), event("root", f"a{number}")]
    return log[:-1]


async def words(log: list[Event], *processors: Any) -> list[str]:
    """The texts that are shown."""
    request = await request_of(log, *processors)
    return [part.text or "" for content in request.contents for part in content.parts or ()]


# -- TokenWindow -----------------------------------------------------------------------------------


async def test_the_newest_turns_that_fit_are_shown_and_the_session_keeps_all() -> None:
    root = agent("root", *["ok"] * 9, flow=Flow().with_processor(TokenWindow(80, count=ten), after="contents"))
    chat = Chat(root)
    for number in range(9):
        await chat.say(f"m{number}")
    assert shown(requests_of(root)[-1]) == ["user: m6", "model: ok", "user: m7", "model: ok", "user: m8"]
    assert len(await chat.stored()) == 18


async def test_a_window_is_cut_to_its_share_and_grows_again() -> None:
    window = TokenWindow(100, count=ten, cut_to=0.5)
    firsts = [(await words(talk(turns), window))[0] for turns in range(1, 14)]
    assert firsts == ["m0"] * 5 + ["m3"] * 3 + ["m6"] * 3 + ["m9"] * 2


async def test_a_share_may_be_the_whole_budget() -> None:
    window = TokenWindow(50, count=ten, cut_to=1)
    assert [len(await words(talk(turns), window)) for turns in range(1, 6)] == [1, 3, 5, 5, 5]


async def test_the_latest_turn_stays_over_budget_and_that_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    window = TokenWindow(25, count=ten)
    log = [*talk(2), *round_of(1, 3), *round_of(2, 3)]
    with caplog.at_level(logging.WARNING, "flowloom.window"):
        for end in (3, 5, 7):
            assert (await words(log[:end], window))[0] == "m1"
    assert len(caplog.records) == 1
    assert "agent `root` is over its budget of 25 tokens" in caplog.text
    assert "about 30" in caplog.text


async def test_each_content_is_counted_once() -> None:
    counted: list[str | None] = []

    def count(content: types.Content) -> int:
        counted.append((content.parts or [types.Part()])[0].text)
        return 10

    window = TokenWindow(60, count=count)
    for turns in range(1, 8):
        await words(talk(turns), window)
    assert sorted(filter(None, counted)) == sorted([f"a{n}" for n in range(6)] + [f"m{n}" for n in range(7)])


async def test_what_is_counted_stays_known_when_the_history_is_changed_at_its_end() -> None:
    counted: list[types.Content] = []

    def count(content: types.Content) -> int:
        counted.append(content)
        return 10

    window = TokenWindow(60, count=count)
    await words(talk(9), window)
    counted.clear()
    log = talk(9)
    assert await words([*log[:-1], event("user", "another")], window) == [*("m6", "a6", "m7", "a7", "another")]
    assert len(counted) == 1


async def test_estimates_are_corrected_by_what_the_provider_counts() -> None:
    """The provider counts three tokens for each that is estimated; a window of 3,000 shows 1,000 by estimate."""

    def log_of(turns: int, prompt: int) -> list[Event]:
        log: list[Event] = []
        for number in range(turns):
            log.append(event("user", f"m{number} " + "x" * 387))  # 102 tokens by estimate
            usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1000 + prompt * (number + 1))
            log.append(event("root", "yes." * 98, usage_metadata=usage))  # 102 tokens
        return log[:-1]

    measured = await words(log_of(30, 612), TokenWindow(3000))
    estimated = await words(log_of(30, 204), TokenWindow(3000))
    assert len(measured) in range(6, 11)
    assert len(estimated) in range(20, 30)


@pytest.mark.parametrize(
    ("log", "tokens"),
    [
        ([text("a" * 400)], 104),
        ([text("語" * 400)], 304),
        ([image(), image()], 520),
        ([types.Part(file_data=types.FileData(file_uri="gs://a/b.pdf", mime_type="application/pdf"))], 1004),
        ([types.Part(inline_data=types.Blob(data=b"x" * 500_000, mime_type="audio/mp3"))], 1004),
        ([types.Part(inline_data=types.Blob(data=b"x" * 400, mime_type="text/plain"))], 104),
    ],
    ids=["letters", "signs", "images", "file", "sound", "text file"],
)
async def test_estimates_look_at_letters_and_files(log: list[types.Part], tokens: int) -> None:
    """A window that has room for just so many tokens shows the content before the latest message; a smaller one not."""
    said = [event("user", *log), event("user", "go")]  # the latter has 5 tokens
    assert len((await request_of(said, TokenWindow(tokens + 5))).contents) == 2
    assert len((await request_of(said, TokenWindow(tokens + 4))).contents) == 1


# -- KeepTurns -------------------------------------------------------------------------------------


async def test_the_last_turns_are_kept() -> None:
    assert await words(talk(9), KeepTurns(2)) == ["m7", "a7", "m8"]
    assert await words(talk(2), KeepTurns(2)) == ["m0", "a0", "m1"]


async def test_many_turns_are_left_out_several_at_once() -> None:
    firsts = [(await words(talk(turns), KeepTurns(8)))[0] for turns in range(7, 14)]
    assert firsts == ["m0", "m0", "m0", "m2", "m2", "m4", "m4"]
    assert (await words(talk(9), KeepTurns(8, step=1)))[0] == "m1"


async def test_words_of_other_agents_and_results_begin_no_turn() -> None:
    log = [*talk(1), event("root", "a0"), event("user", "ask"), event("helper", "I say"), *round_of(1, 3)]
    log += [event("helper", "I add")]
    assert (await words(log, KeepTurns(1)))[0] == "ask"


# -- DropToolPayloads ------------------------------------------------------------------------------


async def test_old_results_and_large_arguments_become_markers() -> None:
    log = [event("user", "go"), *round_of(1, 600, 3), *round_of(2, 600)]
    contents = (await request_of(log, DropToolPayloads(keep_last=1))).contents
    assert (contents[1].parts or [])[0].function_call.args == {  # type: ignore[union-attr]
        "text": "[602 characters, left out of an old call of `look`]"
    }
    assert (contents[2].parts or [])[0].function_response.response == {  # type: ignore[union-attr]
        "omitted": "The result of `look` (613 characters) is old and was left out."
    }
    assert [part.function_response.response for part in (contents[2].parts or [])[1:]] == [{"found": "bbb"}]  # type: ignore[union-attr]
    assert (contents[4].parts or [])[0].function_response.response == {"found": "b" * 600}  # type: ignore[union-attr]


async def test_small_arguments_beside_a_large_one_stay() -> None:
    log = [event("user", "go"), *round_of(1, 600), *round_of(2, 1)]
    assert log[1].content is not None
    assert log[1].content.parts is not None
    given = log[1].content.parts[0].function_call
    assert given is not None
    given.args = {"path": "notes.txt", "text": "a" * 600, "line": 3}
    contents = (await request_of(log, DropToolPayloads(keep_last=1))).contents
    short = (contents[1].parts or [])[0].function_call
    assert short is not None
    assert short.args == {
        "path": "notes.txt",
        "text": "[602 characters, left out of an old call of `look`]",
        "line": 3,
    }


async def test_files_in_old_results_are_left_out_however_small() -> None:
    log = [event("user", "go"), *round_of(1, 3), *round_of(2, 3)]
    assert log[2].content is not None
    assert log[2].content.parts is not None
    answer = log[2].content.parts[0].function_response
    assert answer is not None
    answer.parts = [types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(data=b"x", mime_type="a/b"))]
    contents = (await request_of(log, DropToolPayloads(keep_last=1))).contents
    dropped = (contents[2].parts or [])[0].function_response
    assert dropped is not None
    assert dropped.parts is None
    marker = "The result of `look` (16 characters with 1 file(s)) is old and was left out."
    assert dropped.response == {"omitted": marker}


async def test_payloads_are_dropped_several_rounds_at_once() -> None:
    drop, counts = DropToolPayloads(keep_last=4), list[int]()
    log = [event("user", "go")]
    for number in range(9):
        log += round_of(number, 600)
        contents = (await request_of(log, drop)).contents
        answers = [part.function_response for content in contents for part in content.parts or ()]
        counts.append(sum("omitted" in (answer.response or {}) for answer in answers if answer is not None))
    assert counts == [0, 0, 0, 0, 0, 2, 2, 4, 4]


async def test_payloads_are_dropped_before_turns_are() -> None:
    log = [event("user", "m0"), *round_of(1, 9000), event("root", "a0"), event("user", "m1"), *round_of(2, 90)]
    drop = DropToolPayloads(keep_last=1)
    assert "m0" not in await words(log, TokenWindow(1000))
    assert "m0" in await words(log, drop, TokenWindow(1000))


# -- what is always kept ---------------------------------------------------------------------------

each_window = pytest.mark.parametrize("window", [TokenWindow(25, count=ten), KeepTurns(1)], ids=["tokens", "turns"])


@each_window
async def test_a_run_can_pin_what_is_said_in_it(window: Any) -> None:
    chat = Chat(agent("root", *["ok"] * 5, flow=Flow().with_processor(window, after="contents")))
    await chat.say("I am allergic to nuts.", run_config=RunConfig(custom_metadata={"pinned": True}))
    for number in range(4):
        await chat.say(f"m{number}")
    assert shown(requests_of(chat.runner.agent)[-1]) == [  # type: ignore[arg-type]
        "user: I am allergic to nuts.",
        "model: ok",
        "user: m3",
    ]


@each_window
async def test_a_pinned_result_brings_its_call_and_the_message_before(window: Any) -> None:
    log = [event("user", "look it up"), event("root", "well"), *round_of(1, 1), event("root", "done"), *talk(4)]
    log[3].custom_metadata = {"pinned": True}
    assert shown(await request_of(log, window))[:4] == [
        "user: look it up",
        "model: look()",
        "user: look -> {'found': 'b'}",
        "user: m3",
    ]


async def test_a_predicate_pins_contents() -> None:
    def about_nuts(content: types.Content) -> bool:
        return any("nuts" in (part.text or "") for part in content.parts or ())

    log = [event("user", "no nuts"), event("root", "ok"), *talk(4)]
    assert await words(log, KeepTurns(1, pinned=about_nuts)) == ["no nuts", "m3"]
    assert await words(log, TokenWindow(20, count=ten, pinned=about_nuts)) == ["no nuts", "m3"]


async def test_what_is_pinned_uses_up_the_budget() -> None:
    def early(content: types.Content) -> bool:
        return any(part.text in ("m0", "m1", "m2") for part in content.parts or ())

    assert await words(talk(6), TokenWindow(60, count=ten, cut_to=1)) == ["m3", "a3", "m4", "a4", "m5"]
    assert await words(talk(6), TokenWindow(60, count=ten, cut_to=1, pinned=early)) == [
        *("m0", "m1", "m2"),
        *("m4", "a4", "m5"),
    ]


async def test_a_pinned_payload_stays_whole() -> None:
    log = [event("user", "go"), *round_of(1, 600), *round_of(2, 600), *round_of(3, 600)]
    log[2].custom_metadata = {"pinned": True}
    contents = (await request_of(log, DropToolPayloads(keep_last=1))).contents
    answers = [part.function_response for content in contents for part in content.parts or ()]
    assert ["omitted" in (answer.response or {}) for answer in answers if answer is not None] == [False, True, False]


async def test_the_same_words_elsewhere_are_not_pinned() -> None:
    same = ["It is always the same.", "It is always the same."[:10] + "the same."]
    log = [event("user", same[0], custom_metadata={"pinned": True}), event("user", same[1]), *talk(3)]
    assert await words(log, KeepTurns(1)) == [same[0], "m2"]


@each_window
async def test_the_summary_of_compacted_events_stays(window: Any) -> None:
    log = talk(6)
    for number, each in enumerate(log):
        each.timestamp = float(number)
    compaction = EventCompaction(start_timestamp=0, end_timestamp=3, compacted_content=user("In short: hello."))
    log.insert(4, event("root", actions={"compaction": compaction}))
    assert await words(log, window) == ["In short: hello.", "m5"]


@each_window
async def test_instructions_among_the_contents_stay(window: Any) -> None:
    fields = {"static_instruction": "Be kind.", "instruction": "It is Monday."}
    for log in ([*talk(5)], [*talk(5), *round_of(1, 3)]):
        root = agent("root", flow=Flow().with_processor(window, after="contents"), **fields)
        request = (await root.flow.assemble(context(root, *log))).request
        assert system_text(request).startswith("Be kind.")
        assert "user: It is Monday." in shown(request)
        assert "user: m4" in shown(request)
        assert "user: m1" not in shown(request)


@each_window
async def test_what_a_run_adds_before_the_history_stays(window: Any) -> None:
    added = RunConfig(model_input_context=[user("About the house."), user("About the garden.")])
    chat = Chat(agent("root", *["ok"] * 6, flow=Flow().with_processor(window, after="contents")), config=added)
    for number in range(6):
        await chat.say(f"m{number}")
    assert shown(requests_of(chat.runner.agent)[-1]) == [  # type: ignore[arg-type]
        "user: About the house.",
        "user: About the garden.",
        "user: m5",
    ]


@each_window
async def test_the_input_of_a_delegated_task_stays(window: Any) -> None:
    asked = event("root", call("helper", goal="Find a hotel."))
    assert asked.content is not None
    assert asked.content.parts is not None
    assert asked.content.parts[0].function_call is not None
    asked.content.parts[0].function_call.id = "t1"
    log = [event("user", "go"), asked, *talk(5, isolation_scope="t1")]
    for each in log[2:]:
        each.isolation_scope = "t1"
        each.author = "helper" if each.author == "root" else each.author
    flow = Flow().with_processor(window, after="contents")
    helper = agent("helper", flow=flow)
    request = (await flow.assemble(context(helper, *log, isolation_scope="t1"))).request
    assert shown(request) == ['user: {"goal": "Find a hotel."}', "user: m4"]


# -- beside other processors -----------------------------------------------------------------------


async def test_later_processors_find_files_where_they_have_moved_to() -> None:
    """The processor of file names looks only where files may be."""

    named = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png", display_name="cat.png"))
    log = [*talk(3), event("root", "a2"), event("user", named), event("root", "a cat"), event("user", "m4")]
    flow = Flow().with_processor(KeepTurns(2), after="contents")
    root = LlmAgent(name="root", model=OfTheGeminiApi(["ok"]), flow=flow)
    request = (await flow.assemble(context(root, *log))).request
    shown_files = [part.inline_data for content in request.contents for part in content.parts or ()]
    assert [file.display_name for file in shown_files if file is not None] == [None]
    assert named.inline_data is not None
    assert named.inline_data.display_name == "cat.png"


@pytest.mark.parametrize("window", [KeepTurns(1), DropToolPayloads(keep_last=1)], ids=["turns", "payloads"])
async def test_callbacks_may_still_write_to_what_is_shown(window: Any) -> None:
    log = [*talk(3), *round_of(1, 600), *round_of(2, 600)]
    before = [each.model_copy(deep=True) for each in log]

    def shout(callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:
        for content in llm_request.contents:
            for part in content.parts or ():
                part.text = "!"
        return None

    flow = Flow().with_processor(window, after="contents")
    root = agent("root", "done", flow=flow, before_model_callback=shout)
    for _ in range(2):
        request = (await root.flow.assemble(context(root, *log))).request
        assert {part.text for content in request.contents for part in content.parts or ()} == {"!"}
    assert log == before
    assert not any("!" in each for each in await words(log, window))


async def test_contents_that_were_replaced_by_a_plain_list_are_windowed_as_well() -> None:
    given = [*(user(f"m{number}") for number in range(4)), user("It is Monday.")]

    def replace(ctx: InvocationContext, request: LlmRequest) -> None:
        vars(request)["contents"] = given

    flow = Flow().with_processor(replace, after="contents").with_processor(KeepTurns(2), after="replace")
    root = agent("root", flow=flow, static_instruction="Be kind.", instruction="It is Monday.")
    assert shown((await flow.assemble(context(root, *talk(1)))).request) == [
        "user: m2",
        "user: m3",
        "user: It is Monday.",
    ]
    assert len(given) == 5


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: TokenWindow(0), "`max_tokens` must be at least 1, and is 0"),
        (lambda: TokenWindow(10, cut_to=0), "`cut_to` .* 0"),
        (lambda: TokenWindow(10, cut_to=1.01), "`cut_to` .* 1.01"),
        (lambda: KeepTurns(0), "`turns` must be at least 1, and is 0"),
        (lambda: KeepTurns(3, step=0), "`step` must be at least 1, and is 0"),
        (lambda: DropToolPayloads(keep_last=0), "`keep_last` must be at least 1, and is 0"),
        (lambda: DropToolPayloads(max_chars=-1), "`max_chars` .* -1"),
    ],
)
def test_a_setting_that_makes_no_window_is_named_with_its_value(make: Any, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        make()
    KeepTurns(1, step=1)
    DropToolPayloads(keep_last=1, max_chars=0)
    TokenWindow(1, cut_to=0.01)
