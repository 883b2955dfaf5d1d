"""The text page of an assembly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import kit
import pytest
from google.genai import types

from flowloom import Flow, LlmAgent, LlmRequest, LlmResponse
from flowloom.inspection.explanation import Said, explain
from flowloom.inspection.report import bar_of, report_of, type_of

HEADINGS = ["System instruction", "Tools", "Contents", "Settings", "Processors"]


def paint(colour: Literal["red", "blue"], coats: int = 1) -> str:
    """Paint the fence.

    Args:
        colour: What it looks like afterwards.
    """
    return colour


async def page_of(agent: LlmAgent | None = None, history: Sequence[Said] = ()) -> str:
    """The page for a message to an agent, a painter if none is given."""
    painter = kit.agent("painter", instruction="Paint well.", tools=[paint])
    return str(await explain(agent or painter, "Hello", history=history))


def section(page: str, heading: str) -> str:
    """What stands under a heading."""
    found = re.search(rf"^{heading}[^\n]*\n-+\n(.*?)(?=\n\n[^\n]+\n-+\n|\Z)", page, re.S | re.M)
    assert found is not None, page
    return found[1]


async def test_the_first_line_names_agent_and_model() -> None:
    page = await page_of()
    assert page.startswith("painter asks scripted\n=====================\n")


async def test_the_parts_of_the_request_come_in_the_order_of_the_wire() -> None:
    page = await page_of()
    assert re.findall(r"^(\w[\w ]*?)(?: \(\d+\))?\n-+$", page, re.M) == HEADINGS


async def test_system_sections_stand_under_their_authors() -> None:
    def two(ctx: Any, request: LlmRequest) -> None:
        request.append_instructions(["First.\nStill first."])

    agent = kit.agent("painter", instruction="Paint well.", flow=Flow().with_processor(two, before="contents"))
    assembly = await explain(agent, "Hello")
    assert section(str(assembly), "System instruction") == (
        "\n  instructions\n  [0] | Paint well.\n"
        '\n  identity\n  [1] | You are the agent "painter".\n'
        "\n  two\n  [2] | First.\n      | Still first."
    )


async def test_sections_of_one_author_that_follow_each_other_share_its_line() -> None:
    data = (await explain(kit.agent("painter"), "Hello")).to_dict()
    blocks = [("one", "A"), ("one", "B"), ("two", "C"), ("one", "D")]
    data["sections"] = [
        {"path": f"config.system_instruction[{index}]", "by": by, "value": text}
        for index, (by, text) in enumerate(blocks)
    ]
    assert section(report_of(data), "System instruction") == (
        "\n  one\n  [0] | A\n  [1] | B\n\n  two\n  [2] | C\n\n  one\n  [3] | D"
    )


async def test_a_long_line_is_broken_and_nothing_of_it_lost() -> None:
    words = " ".join(f"word{number}" for number in range(200))
    page = await page_of(kit.agent("painter", instruction=words))
    written = section(page, "System instruction").split("\n\n")[0]
    assert max(map(len, written.splitlines())) <= 110
    assert re.findall(r"word\d+", written) == words.split()
    assert "\n      ⋮ word" in written


async def test_a_word_longer_than_a_line_stays_whole() -> None:
    word = "x" * 300
    page = await page_of(kit.agent("painter", instruction=f"See {word} now."))
    assert word in page


async def test_a_tool_is_shown_like_its_signature() -> None:
    """Optional parameters have a question mark; those that are described have a line each."""
    assert section(await page_of(), "Tools") == (
        '\n  paint(colour: "red" | "blue", coats?: integer)  ← tool_declarations\n'
        "    | Paint the fence.\n"
        "      colour  What it looks like afterwards."
    )


async def test_a_tool_with_many_parameters_has_a_line_for_each() -> None:
    names = ", ".join(f"parameter_number_{number}: int" for number in range(8))
    scope: dict[str, Any] = {}
    exec(f"def wide({names}) -> int:\n    return 0", scope)
    tools = section(await page_of(kit.agent("painter", tools=[scope["wide"]])), "Tools")
    assert tools.startswith("\n  wide(\n      parameter_number_0: integer,\n      parameter_number_1: integer,\n")


async def test_a_tool_of_the_model_itself_is_shown_as_data() -> None:
    def searching(ctx: Any, request: LlmRequest) -> None:
        request.config.tools = [types.Tool(google_search=types.GoogleSearch())]

    page = await page_of(kit.agent("painter", flow=Flow().with_processor(searching)))
    assert section(page, "Tools") == "\n  google_search: {}  ← searching"


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (kit.text("Hm.", thought=True), "(thinks) Hm."),
        (kit.named_call("c1", "paint", colour="red"), 'calls paint(colour="red")  [call_1]'),
        (
            types.Part(inline_data=types.Blob(data=b"123", mime_type="image/png", display_name="fence.png")),
            "(image/png, 3 bytes, sha256:",
        ),
        (
            types.Part(file_data=types.FileData(file_uri="gs://b/fence.png", mime_type="image/png")),
            "file gs://b/fence.png (image/png)",
        ),
        (
            types.Part(executable_code=types.ExecutableCode(code="1 + 1", language=types.Language.PYTHON)),
            "code: 1 + 1  [language: PYTHON]",
        ),
        (types.Part(text="Hi", thought_signature=b"abc"), 'thought_signature = "signature:'),
        (types.Part(text="Hi", video_metadata=types.VideoMetadata(fps=2)), 'video_metadata = {"fps": 2.0}'),
    ],
    ids=["thought", "call", "bytes", "uri", "code", "signature", "rest"],
)
async def test_every_kind_of_part_is_told(part: types.Part, line: str) -> None:
    said = types.Content(role="model", parts=[part])
    answered = [kit.user(kit.result("c1", "paint", {}))] if part.function_call else []
    page = await page_of(history=[said, *answered])
    assert line in section(page, "Contents")


async def test_a_result_goes_with_its_call() -> None:
    history = [
        types.Content(role="model", parts=[kit.named_call("c1", "paint", colour="red")]),
        types.Content(role="user", parts=[kit.result("c1", "paint", {"result": ["red", 1]})]),
    ]
    page = await page_of(history=history)
    assert '    | result of paint = ["red", 1]  [call_1]' in section(page, "Contents")


async def test_contents_are_numbered_and_have_roles() -> None:
    page = await page_of(history=[("user", "Hi"), ("painter", "Hello!")])
    assert section(page, "Contents") == "\n  [0] user\n    | Hi\n\n  [1] model\n    | Hello!\n\n  [2] user\n    | Hello"


async def test_a_content_that_another_processor_wrote_names_it() -> None:
    """That `contents` writes contents goes without saying."""

    def reminder(ctx: Any, request: LlmRequest) -> None:
        request.contents.append(kit.user("Be quick."))

    agent = kit.agent("painter", flow=Flow().with_processor(reminder, after="contents"))
    contents = section(await page_of(agent), "Contents")
    assert contents == "\n  [0] user\n    | Hello\n\n  [1] user  ← reminder\n    | Be quick."


async def test_settings_name_their_authors() -> None:
    config = types.GenerateContentConfig(temperature=0.5)
    page = await page_of(kit.agent("painter", generate_content_config=config))
    assert section(page, "Settings") == '\n  model = "scripted"  ← basic\n  temperature = 0.5  ← basic'


async def test_processors_come_in_order_with_time_and_changes() -> None:
    assembly = await explain(kit.agent("painter", instruction="Paint well."), "Hello")
    rows = section(str(assembly), "Processors").splitlines()[2:]
    assert [row.split()[1] for row in rows] == [step.name for step in assembly.steps]
    row = next(row for row in rows if " instructions " in row)
    assert re.search(r" instructions +[\d,]+\.\d +[█▏▎▍▌▋▊▉]* +1  \+config\.system_instruction\[0\]$", row)


async def test_many_changes_are_counted() -> None:
    page = await page_of(history=[("user", f"Message {number}") for number in range(30)])
    row = next(row for row in page.splitlines() if re.search(r"\d+  contents ", row))
    assert re.search(r" 31  \+contents\[0\].*  … \d+ more$", row)
    assert len(row) <= 122


async def test_a_processor_that_halts_is_told() -> None:
    def stop(ctx: Any, request: LlmRequest) -> None:
        ctx.end_invocation = True

    agent = kit.agent("painter", flow=Flow().with_processor(stop, before="contents"))
    assert "The processor `stop` halted the step" in section(await page_of(agent), "Warnings")


async def test_a_callback_that_answers_is_told() -> None:
    agent = kit.agent("painter", before_model_callback=kit.Ran().gives("answer", LlmResponse(content=kit.said("No."))))
    assert "The model is not asked" in section(await page_of(agent), "Warnings")


async def test_a_usual_request_has_no_warnings() -> None:
    assert "Warnings" not in await page_of()


async def test_no_character_steers_the_terminal() -> None:
    """Escape sequences, and marks that turn the direction of the text, are shown as what they are."""
    page = await page_of(kit.agent("painter", instruction="Red: \x1b[31m \u202egnp\r\ttab \ud800"))
    assert "Red: \\x1b[31m \\u202egnp\\r\ttab \\ud800" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800]", page)


async def test_the_page_of_a_stored_assembly_is_the_same() -> None:
    assembly = await explain(kit.agent("painter"), "Hello")
    assert report_of(assembly.to_dict()) == str(assembly)


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "STRING"}, "string"),
        ({"type": "INTEGER", "nullable": True}, "integer | null"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number | null"),
        ({"type": "array", "items": {"type": "string"}}, "list[string]"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"$ref": "#/$defs/Fence"}, "Fence"),
        ({"const": "a"}, '"a"'),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_a_schema_is_written_as_a_type(schema: Any, written: str) -> None:
    assert type_of(schema) == written


@pytest.mark.parametrize(("value", "bar"), [(0, ""), (10, "█" * 16), (5, "█" * 8), (0.1, "▏"), (5.1, "████████▏")])
def test_a_bar_is_as_long_as_its_part_of_the_longest(value: float, bar: str) -> None:
    assert bar_of(value, 10) == bar
