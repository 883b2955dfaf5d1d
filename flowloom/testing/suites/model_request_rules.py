"""The rules of what a model makes of the requests that it is given."""

from __future__ import annotations

import pytest

from flowloom.errors import UnsupportedFeatureError
from flowloom.models.contents import SharedContents
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.model_answers import TEXT, assert_same_answer, request
from flowloom.testing.suites.model_place import (
    ModelPlace,
    assert_reached,
    assert_unsupported,
    both_ways,
    left_out,
    only_one,
)
from flowloom.testing.suites.model_requests import REQUESTS

_CHANGED = (
    "history",
    "several_files",
    "results_out_of_order",
    "result_that_is_missing",
    "an_id_twice",
    "end_on_a_models_turn",
    "thoughts_of_other_providers",
    "system_content",
    "schema_of_a_class",
    "schema_as_json",
    "tool_with_a_json_schema",
    "calls_that_are_a_must",
    "thinking_budget",
    "headers",
)
"""The requests of which an adapter is the likeliest to change something."""


class RequestRules(ModelPlace):
    """See `ModelSuite`."""

    @pytest.mark.parametrize("kind", REQUESTS)
    @both_ways
    @in_loop
    async def test_a_request_is_answered(self, kind: str, stream: bool) -> None:
        """A model takes requests of all kinds, and gives its backend all that they say. What only some providers
        know may be refused by an `UnsupportedFeatureError`, or left out with a warning; both name the field."""
        self._skip_if_lacking(kind)
        asked = REQUESTS[kind]
        model = await self._model(TEXT)
        with left_out() as warnings:
            try:
                responses = await self._all(model, stream, asked.make())
            except UnsupportedFeatureError as error:
                assert_unsupported(kind, asked, error, self.sent(model) or ())
                return
            except Exception as error:
                raise AssertionError(f"The request `{kind}` ended in {error!r}") from error
        complete = only_one([each for each in responses if not each.partial] if stream else responses)
        if self.scripted:
            assert_same_answer(TEXT, complete, "The backend's answer", "the response", ids=self._ids)
        bodies = self.sent(model)
        told = asked.optional is not None and any(asked.optional in each for each in warnings)
        if bodies is not None and not told:
            assert bodies, f"The request `{kind}` was answered, but the backend got nothing."
            assert_reached(kind, asked.carried, bodies[-1], ordered=asked.ordered)

    @pytest.mark.parametrize("kind", _CHANGED)
    @both_ways
    @in_loop
    async def test_the_request_is_not_changed(self, kind: str, stream: bool) -> None:
        """A call leaves its request as it was: contents, config, tools. They are the history's and the agent's."""
        self._skip_if_lacking(kind)
        model, given = await self._model(TEXT), REQUESTS[kind].make()
        before, tools = given.model_dump(), dict(given.tools_dict)
        try:
            await self._all(model, stream, given)
        except UnsupportedFeatureError:
            pass  # then nothing may have changed, either
        after = given.model_dump()
        changed = [name for name in before if before[name] != after[name]]
        assert not changed, f"A call changed `{'`, `'.join(changed)}` of its request `{kind}`."
        assert given.tools_dict == tools, f"A call changed `tools_dict` of its request `{kind}`."

    @both_ways
    @in_loop
    async def test_shared_contents_are_accepted_and_not_changed(self, stream: bool) -> None:
        """Contents that are a view of the history (`SharedContents`) do as a list does; the history stays as it is."""
        history = request().contents
        before = [content.model_dump() for content in history]
        given = request()
        given.contents = SharedContents(history)
        shared = (await self._all(await self._model(TEXT), stream, given))[-1]
        listed = (await self._all(await self._model(TEXT), stream))[-1]
        assert_same_answer(
            listed, shared, "To a list of contents, the answer", "to `SharedContents`, it", ids=self._ids
        )
        assert [each.model_dump() for each in history] == before, "A call changed contents that the history shares."
