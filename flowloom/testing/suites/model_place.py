"""Where the rules of models are checked: what a subclass of `ModelSuite` defines, and how its model is asked."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, ClassVar, cast

import pytest

from flowloom.errors import ConfigurationError, UnsupportedFeatureError, closest_first
from flowloom.events import LlmResponse
from flowloom.models import BaseLlm, LlmRequest
from flowloom.testing.suites.loop import Suite
from flowloom.testing.suites.model_answers import ANSWERS, joined, parts_of, request
from flowloom.testing.suites.model_conversations import Needle, RequestKind
from flowloom.testing.suites.model_faults import FAULTS, Fault
from flowloom.testing.suites.model_requests import REQUESTS

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["unary", "streamed"])
"""For rules that hold with and without streaming."""


class ModelPlace(Suite):
    """The hooks of `ModelSuite`."""

    scripted: ClassVar[bool] = True
    """Whether the model gives the answers that `make_model` is told."""
    thoughts: ClassVar[bool] = True
    """Whether the backend can be made to answer with thoughts."""
    signatures: ClassVar[bool] = True
    """Whether thoughts come with signatures, with which they go back."""
    call_ids: ClassVar[bool] = True
    """Whether the backend gives ids to its calls."""
    lacks: ClassVar[frozenset[str]] = frozenset()
    """The names of answers, requests and faults that this backend cannot be made to have; they are skipped."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = {*ANSWERS, *REQUESTS, *FAULTS}
        for name in cls.lacks - known:
            closest = closest_first(name, known)[0]
            raise ConfigurationError(f"`{cls.__name__}.lacks` has `{name}`, no case; the closest is `{closest}`.")

    def make_model(self, answers: Sequence[LlmResponse]) -> BaseLlm | Awaitable[BaseLlm]:
        """The model to be checked, made anew for each test. Its backend gives `answers`, one to each call."""
        raise NotImplementedError(f"{type(self).__name__} has to define `make_model(self, answers)`.")

    def make_failing_model(self) -> BaseLlm | Awaitable[BaseLlm] | None:
        """A model whose backend refuses every call; None leaves the rule of failures out."""
        return None

    def make_faulty_model(self, fault: Fault) -> BaseLlm | Awaitable[BaseLlm] | None:
        """A model, without retries, with whose backend `fault` is wrong in the first call; to the next one it gives
        the answer "It is sunny in Rome." (`model_answers.TEXT`). None leaves the rules of faults out.

        A backend that is silent has to be given up after some milliseconds.
        """
        return None

    def sent(self, model: BaseLlm) -> Sequence[Any] | None:
        """The bodies of the requests that the backend of `model` got, as JSON data; None if that is not known."""
        return None

    # -- asking ------------------------------------------------------------------------------------

    @property
    def _ids(self) -> bool:
        """Whether answers to two calls are compared by the ids of their calls, too; ids that are made here differ."""
        return self.call_ids and self.scripted

    def _answer(self, name: str) -> LlmResponse:
        """The answer of that name; skips the test if the backend cannot give it."""
        answer = ANSWERS[name]
        self._skip_if_lacking(name)
        if not self.scripted and name != "text":
            pytest.skip("the model cannot be told what to say")
        if not self.thoughts and joined(answer, True):
            pytest.skip("the backend has no thoughts")
        hidden = any(part.thought and not part.text for part in parts_of(answer))
        if hidden and not (self.signatures and self.thoughts):
            pytest.skip("the backend has no hidden thoughts")
        return answer

    def _skip_if_lacking(self, name: str) -> None:
        if name in self.lacks:
            pytest.skip(f"the backend has no `{name}`")

    async def _model(self, *answers: LlmResponse) -> BaseLlm:
        return await self.opened(self.make_model(answers))

    async def _all(self, model: BaseLlm, stream: bool, given: LlmRequest | None = None) -> list[LlmResponse]:
        async with aclosing(model.generate_content_async(given or request(), stream)) as responses:
            return [response async for response in responses]

    async def _whole(self, model: BaseLlm, given: LlmRequest | None = None) -> LlmResponse:
        return only_one(await self._all(model, False, given))


def only_one(responses: Sequence[LlmResponse]) -> LlmResponse:
    """The response of an unstreamed call."""
    assert len(responses) == 1, f"An unstreamed call gave {len(responses)} responses, not 1."
    assert not responses[0].partial, "The response of an unstreamed call is marked `partial`."
    return responses[0]


# -- what reached the backend ----------------------------------------------------------------------


@contextmanager
def left_out() -> Generator[list[str]]:
    """The warnings of models that something is left out."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler, logger = Keep(), logging.getLogger("flowloom.models")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def assert_reached(name: str, needles: Iterable[Needle], body: Any, *, ordered: bool = False) -> None:
    """Fail if something that was asked is not in the body that the backend got."""
    scalars = list(scalars_of(body))
    place = 0
    for needle in needles:
        found = next((n for n in range(place, len(scalars)) if _holds(scalars[n], needle)), None)
        where = " in its place" if any(_holds(each, needle) for each in scalars) else ""
        assert found is not None, f"Of the request `{name}`, {needle!r} is not{where} in what the backend got: {body}"
        place = found if ordered else 0


def assert_unsupported(name: str, kind: RequestKind, error: UnsupportedFeatureError, bodies: Sequence[Any]) -> None:
    """Fail if a request may not be refused, or not in this way."""
    assert kind.optional is not None, f"The request `{name}` was refused, which every model has to take: {error}"
    assert error.field.startswith(kind.optional), f"Of the request `{name}`, `{error.field}` is refused: {error}"
    assert not bodies, f"The request `{name}` was refused, and sent all the same: {bodies}"


def scalars_of(value: Any) -> Iterator[Needle]:
    """All texts and numbers in JSON data, names too, in their order; also those in texts that are JSON."""
    if isinstance(value, Mapping):
        for name, each in cast(Mapping[str, Any], value).items():
            yield name
            yield from scalars_of(each)
    elif isinstance(value, str):
        yield value
        if value.startswith(("{", "[")):
            try:
                yield from scalars_of(json.loads(value))
            except ValueError:
                pass
    elif isinstance(value, Iterable):
        for each in cast(Iterable[Any], value):
            yield from scalars_of(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


_URL_SAFE = str.maketrans("+/", "-_")


def _holds(found: Needle, needle: Needle) -> bool:
    if isinstance(needle, str):
        # bytes may be in either alphabet of base64
        return isinstance(found, str) and (needle in found or needle.translate(_URL_SAFE) in found)
    return not isinstance(found, str) and found == needle
