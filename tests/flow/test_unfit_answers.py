"""What is said of an agent whose answers do not fit."""

from __future__ import annotations

import pytest
from kit import Chat, agent

from flowloom.errors import ModelResponseError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(("retries", "tries"), [(0, ""), (1, " in 2 tries"), (2, " in 3 tries")])
async def test_the_error_tells_how_often_it_was_tried_and_quotes_the_last_answer(retries: int, tries: str) -> None:
    """And names the model, and no error where the answer was none."""
    root = agent("root", *["none"] * (retries + 1), output_schema=SCHEMA, output_retries=retries)
    with pytest.raises(ModelResponseError) as raised:
        await Chat(root).say("go")
    told = str(raised.value)
    assert told.startswith(f"Agent `root` gave no answer that fits its output schema{tries}. ")
    assert told.endswith(" The answer was: none")
    assert "ended it with" not in told
    assert raised.value.model == root.model.model  # type: ignore[union-attr]
