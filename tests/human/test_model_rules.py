"""`HumanModel` keeps the rules of models, whoever answers, and from wherever."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

import pytest
from google.genai import types

from flowloom import HumanModel, LlmResponse
from flowloom.errors import ModelUnavailableError
from flowloom.human import Answer, RequestOverError, WaitingRequest
from flowloom.testing.suites import ModelSuite


class TestHumanModel(ModelSuite):
    """A person who answers at once."""

    def make_model(self, answers: Sequence[LlmResponse]) -> HumanModel:
        model, left = HumanModel(), list(answers)
        model.subscribe(lambda waiting: model.answer(waiting.id, left.pop(0)))
        return model

    def make_failing_model(self) -> HumanModel:
        model = HumanModel()
        model.subscribe(lambda waiting: model.answer(waiting.id, ModelUnavailableError("Nobody is here.")))
        return model


@pytest.mark.soak
class TestHumanModelAnsweredFromAnotherThread(ModelSuite):
    """A person who takes a while, and sits on another thread."""

    def make_model(self, answers: Sequence[LlmResponse]) -> HumanModel:
        return answered_from_a_thread(answers)

    def make_failing_model(self) -> HumanModel:
        return answered_from_a_thread([ModelUnavailableError("Nobody is here.")])


@pytest.mark.soak
class TestHumanModelAnsweredInParts(ModelSuite):
    """A person who says the same to all, and no token counts: it fits where no form is asked for."""

    scripted = False
    lacks = frozenset(
        {
            "a_call_of_this",
            "json_schema",
            "schema_as_google_has_it",
            "schema_as_json",
            "schema_of_a_class",
            "schema_of_a_list",
        }
    )

    def make_model(self, answers: Sequence[LlmResponse]) -> HumanModel:
        model = HumanModel()

        def answer(waiting: WaitingRequest) -> None:
            call = types.FunctionCall(name="weather", args={"city": "Rome"})
            known = any(tool.name == "weather" for tool in waiting.tools)
            model.answer(waiting.id, ["I look it up.", call] if known else ["I look it up."])

        model.subscribe(answer)
        return model


def answered_from_a_thread(answers: Sequence[Answer]) -> HumanModel:
    model, left, lock = HumanModel(), list(answers), threading.Lock()

    def answer(waiting: WaitingRequest) -> None:
        with lock, suppress(RequestOverError):
            model.answer(waiting.id, left.pop(0))

    model.subscribe(lambda waiting: threading.Thread(target=answer, args=(waiting,)).start())
    return model
