"""Whatever a run emits, the protocol's verifier accepts what the page is told (protocols spec §5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ag_ui.core import RunAgentInput, Tool
from ag_ui_verifier import verify
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples
from random_events import any_event, statuses
from run_stream_kit import mapped

from flowloom.protocols.ag_ui import ag_ui_events
from flowloom.run_stream import RunStreamEvent

PAGE = Tool(name="look", description="The page looks.", parameters={"type": "object"})


async def told(stream: Sequence[RunStreamEvent], **options: Any) -> list[dict[str, Any]]:
    """What a page is told of a stream, as it reads it."""

    async def source() -> AsyncIterator[RunStreamEvent]:
        for event in stream:
            yield event

    asked = RunAgentInput(
        thread_id="t", run_id="r", messages=[], tools=[PAGE], context=[], state={}, forwarded_props={}
    )
    events = ag_ui_events(source(), asked, **options)
    return [json.loads(event.model_dump_json(by_alias=True)) async for event in events]


@settings(max_examples=examples(1000), deadline=None)
@given(
    events=st.lists(any_event, max_size=14),
    status=statuses,
    cut=st.none() | st.integers(0, 20),
    options=st.fixed_dictionaries(
        {},
        optional={"state": st.just({"k": 0}), "structured": st.booleans(), "emit": st.sampled_from(["1.0", "legacy"])},
    ),
)
async def test_whatever_a_run_emits_the_order_is_the_protocols(
    events: list[Any], status: Any, cut: int | None, options: dict[str, Any]
) -> None:
    """Pieces, thoughts, parallel calls, transfers, failures, cancels, what waits, and streams that break off."""
    verify(await told(mapped(events, status)[:cut], **options))
