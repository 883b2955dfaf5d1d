"""What becomes of a run whose toolset cannot be listed."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from kit import Chat, agent

from flowloom import BaseTool, BaseToolset
from flowloom.errors import ConfigurationError, ToolsetError
from flowloom.protocols.unavailable import check_on_unavailable, toolset_error
from flowloom.run_stream import ErrorReported, RunFinished, run_stream_of


class Unreachable(BaseToolset):
    """A toolset whose server is not there."""

    def __init__(self, on_unavailable: Any) -> None:
        super().__init__()
        self.on_unavailable = on_unavailable

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        raise toolset_error("Unreachable", "https://host/mcp", "no answer within 5 seconds.", self.on_unavailable)


async def test_an_unreachable_toolset_ends_the_run_with_an_error_that_names_it() -> None:
    """Nothing is silent: class, address and reason are in the text and in attributes."""
    with pytest.raises(ToolsetError) as caught:
        await Chat(agent("root", "hi", tools=[Unreachable("error")])).say("hello")
    assert str(caught.value) == "Unreachable at https://host/mcp is not available: no answer within 5 seconds."
    error = caught.value
    assert (error.toolset, error.address, error.reason) == (
        "Unreachable",
        "https://host/mcp",
        "no answer within 5 seconds.",
    )


async def test_a_toolset_that_may_be_left_out_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on, with one warning and an error in the stream."""
    chat = Chat(agent("root", "hi", tools=[Unreachable("skip")]))
    with caplog.at_level(logging.WARNING, "flowloom"):
        events = await chat.say("hello")
    told = list(run_stream_of(events))
    (reported,) = [each for each in told if isinstance(each, ErrorReported)]
    assert reported.error_code == "TOOLSET_UNAVAILABLE"
    assert "https://host/mcp" in reported.error_message
    assert [each.status for each in told if isinstance(each, RunFinished)] == ["final"]
    assert len(caplog.records) == 1
    assert events[-1].text == "hi"


def test_another_word_is_refused() -> None:
    """`on_unavailable` is one of two."""
    with pytest.raises(ConfigurationError, match="'error' or 'skip'"):
        check_on_unavailable("ignore")
