"""What a flow takes as a processor, and what an error of a processor says that is awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from kit import Chat, agent

from flowloom import Event, Flow
from flowloom.errors import PipelineError


class Bare:
    """It is called with nothing."""

    def __call__(self) -> None: ...


class Numbered:
    name = 1

    def __call__(self, ctx: Any, request: Any) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Bare(), r"`Bare` takes `\(\).*` but is called with `\(ctx, request\)`"),
        (Numbered, "Give a class as an instance"),
        ("contents", "is no processor"),
    ],
)
def test_what_cannot_be_called_with_a_request_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        Flow([wrong])


def test_a_callable_whose_parameters_cannot_be_known_is_taken() -> None:
    with pytest.raises(PipelineError, match=r"It has: .*`max`"):
        Flow([max]).without("contents")


def test_a_name_that_is_no_text_is_none() -> None:
    with pytest.raises(PipelineError, match="It has: `Numbered`"):
        Flow([Numbered()]).without("contents")


async def broken(*_: Any) -> None:
    raise ValueError("no")


def generated(*_: Any) -> AsyncIterator[Event]:
    async def broken() -> AsyncIterator[Event]:
        raise ValueError("no")
        yield

    return broken()


@pytest.mark.parametrize("processor", [broken, generated])
@pytest.mark.parametrize("side", ["request", "response"])
async def test_an_error_of_a_processor_that_is_awaited_names_it(processor: Any, side: str) -> None:
    flow = Flow().with_processor(processor) if side == "request" else Flow().with_response_processor(processor)
    with pytest.raises(ValueError, match="no") as caught:
        await Chat(agent("root", "done", flow=flow)).say("go")
    assert caught.value.__notes__ == [f"in processor `{processor.__name__}`, step 0 of agent `root`"]
