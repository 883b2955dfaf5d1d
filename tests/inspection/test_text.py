"""The readable form of a request, which can be read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hierarchies import HIERARCHIES
from hypothesis import given
from hypothesis import strategies as st

from flowloom import InputValidationError, explain
from flowloom.inspection import Section, read_sections, write_sections
from inspection.requests import asked

VALUE: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=120)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=8,
)
PATH = st.sampled_from(["model", "config.labels", "contents[3]", "config.tools[0].function_declarations[get_it]"])
SECTION = st.builds(Section, PATH, VALUE, st.none() | st.sampled_from(["basic", "my processor"]))


@given(st.lists(SECTION, max_size=4))
def test_what_is_written_is_read_back(sections: list[Section]) -> None:
    assert read_sections(write_sections(sections)) == sections


@pytest.mark.parametrize("name", HIERARCHIES)
async def test_an_assembly_is_read_back(name: str) -> None:
    case = HIERARCHIES[name]
    assembly = await explain(case.build(asked([])), case.message, history=case.history(), state=case.state)
    assert read_sections(write_sections(assembly.sections)) == assembly.sections


def test_long_texts_stand_in_blocks_and_short_values_on_their_line() -> None:
    sections = [
        Section("config.system_instruction[0]", "One.\n\n  Two.", "instructions"),
        Section("config.temperature", 0.5, "basic"),
        Section("contents[0]", {"parts": [{"text": "a\nb"}, {"data": {"odd key": []}}]}, "contents"),
    ]
    assert write_sections(sections).split("\n") == [
        "config.system_instruction[0]  ← instructions",
        "  | One.",
        "  |",
        "  |   Two.",
        "config.temperature = 0.5  ← basic",
        "contents[0]  ← contents",
        "  parts[0].text",
        "    | a",
        "    | b",
        '  parts[1].data["odd key"] = []',
    ]


def test_halves_of_characters_can_be_written_to_a_file(tmp_path: Path) -> None:
    """Models cut them off; they are read back as they were."""
    sections = [Section("contents[0]", {"text": "half \ud83d", "\udc00": ["\ud800\n" * 90]}, None)]
    file = tmp_path / "snapshot.txt"
    file.write_text(write_sections(sections), encoding="utf-8")
    assert read_sections(file.read_text(encoding="utf-8")) == sections


def test_comments_are_no_part_of_it() -> None:
    assert read_sections('# a note\n\nmodel = "m"') == [Section("model", "m")]


@pytest.mark.parametrize("line", ["= 1", "model = {", "  parts[x y] = 1", "model: 1"])
def test_a_line_that_is_none_of_the_form_is_named(line: str) -> None:
    with pytest.raises(InputValidationError, match="Line 2"):
        read_sections(f"contents[0]\n{line}")
