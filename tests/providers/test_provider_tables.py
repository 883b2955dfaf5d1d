"""The page on providers says what becomes of each setting, and says what the adapters do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from google.genai import types

from flowloom.providers.anthropic import SETTINGS as ANTHROPIC_SETTINGS
from flowloom.providers.openai import CHAT_SETTINGS, RESPONSES_SETTINGS
from flowloom.providers.sdk_request import DROPPED_OR_REFUSED, Treatment

PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
BEGIN, END = "<!-- settings:begin -->", "<!-- settings:end -->"
WORDS: dict[Treatment, str] = {"sent": "sent", "dropped": "left out", "refused": "error", "flow": "the flow's"}
TABLES: dict[str, Mapping[str, Treatment]] = {
    "OpenAI chat": CHAT_SETTINGS,
    "OpenAI Responses": RESPONSES_SETTINGS,
    "Anthropic": ANTHROPIC_SETTINGS,
}
FIELDS = [name for name in types.GenerateContentConfig.model_fields if DROPPED_OR_REFUSED.get(name) != "flow"]


def table() -> str:
    """The table of settings; Gemini's SDK sends all that its backend has."""
    lines = ["| setting | Gemini | " + " | ".join(TABLES) + " |", "|---" * (len(TABLES) + 2) + "|"]
    for name in FIELDS:
        words = [WORDS[settings[name]] for settings in TABLES.values()]
        lines.append(f"| `{name}` | sent | {' | '.join(words)} |")
    return "\n".join(lines)


def test_the_page_tells_what_becomes_of_each_setting() -> None:
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip() == table()


@pytest.mark.parametrize("provider", TABLES)
def test_each_setting_has_a_treatment(provider: str) -> None:
    """A setting that google-genai adds has to be thought of."""
    assert set(types.GenerateContentConfig.model_fields) <= set(TABLES[provider])
