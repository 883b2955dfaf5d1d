"""`ModelSuite`: flowloom's own models pass, and each rule finds a model that breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flowloom import BaseLlm, ConfigurationError, LlmResponse, OfflineModel
from flowloom.errors import ModelRequestError, ModelUnavailableError
from flowloom.testing import FunctionModel, RecordingModel, ScriptedModel
from flowloom.testing.suites import ModelSuite
from flowloom.testing.suites.model_answers import TEXT
from flowloom.testing.suites.model_faults import Fault

from . import dishonest_models as dishonest
from .dishonest_models import Model
from .rules import breaks, rules_of


class TestScriptedModel(ModelSuite):
    def make_model(self, answers: Sequence[LlmResponse]) -> ScriptedModel:
        return ScriptedModel(answers, stream_chunks=True)

    def make_failing_model(self) -> ScriptedModel:
        return ScriptedModel([ModelUnavailableError("The model is down.")])


@pytest.mark.soak
class TestScriptedModelThatDoesNotStream(ModelSuite):
    async def make_model(self, answers: Sequence[LlmResponse]) -> ScriptedModel:
        return ScriptedModel(answers)


@pytest.mark.soak
class TestFunctionModel(ModelSuite):
    def make_model(self, answers: Sequence[LlmResponse]) -> FunctionModel:
        left = list(answers)
        return FunctionModel(lambda request: left.pop(0), stream_chunks=True)

    def make_failing_model(self) -> FunctionModel:
        return FunctionModel(lambda request: ModelUnavailableError("The model is down."))


@pytest.mark.soak
class TestRecordingModel(ModelSuite):
    """While it records; what it plays is in the tests of cassettes."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "calls.jsonl"

    def make_model(self, answers: Sequence[LlmResponse]) -> RecordingModel:
        return RecordingModel(ScriptedModel(answers, stream_chunks=True), self.path, mode="rewrite")

    def make_failing_model(self) -> RecordingModel:
        inner = ScriptedModel([ModelUnavailableError("The model is down.")])
        return RecordingModel(inner, self.path, mode="rewrite")


@pytest.mark.soak
class TestOfflineModel(ModelSuite):
    scripted = False

    def make_model(self, answers: Sequence[LlmResponse]) -> OfflineModel:
        return OfflineModel()


@dataclass(frozen=True)
class Broken:
    """A model that breaks a rule, and the case of the rule that finds it."""

    model: type[Model]
    case: dict[str, Any] = field(default_factory=dict[str, Any])


def broken(model: type[Model], **case: Any) -> Broken:
    return Broken(model, case)


BROKEN: dict[str, Broken] = {
    "an_unstreamed_call_gives_one_complete_response": broken(dishonest.AlwaysStreams, answer="long_text"),
    "a_streamed_call_ends_with_one_complete_response": broken(dishonest.NeverCompletes, answer="text"),
    "the_answer_is_the_backends": broken(dishonest.HasOnlyFloats, answer="number_arguments", stream=False),
    "a_stream_ends_as_the_unstreamed_answer_is": broken(dishonest.CompletesWithoutText, answer="text"),
    "partial_texts_join_to_the_complete_text": broken(dishonest.RepeatsItself, answer="odd_text"),
    "calls_have_one_id_in_partial_and_complete_responses": broken(dishonest.MakesIdsTwice, answer="call"),
    "calls_in_one_answer_have_different_ids": broken(dishonest.HasOneId, stream=True),
    "an_empty_answer_is_a_response_too": broken(dishonest.IsSilentOnNothing, stream=False),
    "an_answer_can_be_sent_back": broken(dishonest.ForgetsWhatItSaid, answer="text_and_call", stream=True),
    "a_request_is_answered": broken(dishonest.Forgets, kind="system_text", stream=False),
    "the_request_is_not_changed": broken(dishonest.AddsToTheRequest, kind="history", stream=True),
    "shared_contents_are_accepted_and_not_changed": broken(dishonest.AddsToTheHistory, stream=False),
    "calls_one_after_another_get_their_own_answers": broken(dishonest.RemembersTheLast, stream=True),
    "concurrent_calls_do_not_mix": broken(dishonest.HasOneBuffer, stream=True),
    "a_stream_that_is_left_leaves_nothing": broken(dishonest.LeavesATaskWhenLeft),
    "a_call_that_is_cancelled_leaves_nothing": broken(dishonest.LeavesATaskWhenCancelled, stream=False),
    "a_call_leaves_nothing": broken(dishonest.LeavesATask, stream=True),
    "failures_are_model_errors": broken(dishonest.RaisesAnything, stream=False),
    "faults_are_typed_errors": broken(dishonest.RaisesTheLibrarysError, fault="reset_before_an_answer", stream=True),
    "a_model_can_be_asked_again_after_a_fault": broken(dishonest.NeverRecovers, fault="refused_503", stream=False),
    "what_came_before_a_fault_is_given_once": broken(dishonest.TriesAgainUnseen, fault="error_inside"),
    "supported_models_are_regular_expressions": broken(dishonest.NamesNoModels),
}
FURTHER: list[tuple[str, Broken]] = [
    ("the_answer_is_the_backends", broken(dishonest.ForgetsTheCache, answer="cached_tokens", stream=True)),
    ("the_answer_is_the_backends", broken(dishonest.PutsThoughtsFirst, answer="thoughts_in_between", stream=True)),
    ("the_answer_is_the_backends", broken(dishonest.LosesSignatures, answer="signed_thought", stream=False)),
    ("the_answer_is_the_backends", broken(dishonest.LosesLogprobs, answer="logprobs", stream=False)),
    ("the_answer_is_the_backends", broken(dishonest.LosesCitations, answer="citation", stream=True)),
    ("the_answer_is_the_backends", broken(dishonest.TakesAllForTheEnd, answer="cut_off", stream=True)),
    ("an_answer_can_be_sent_back", broken(dishonest.LosesSignatures, answer="hidden_thought", stream=False)),
    ("a_request_is_answered", broken(dishonest.TurnsRoundResults, kind="several_results", stream=True)),
    ("a_request_is_answered", broken(dishonest.SendsNothing, kind="history", stream=False)),
    ("a_request_is_answered", broken(dishonest.RefusesSystemTexts, kind="system_text", stream=True)),
    ("a_request_is_answered", broken(dishonest.RefusesAnything, kind="seed", stream=True)),
    ("a_request_is_answered", broken(dishonest.RefusesTooLate, kind="seed", stream=False)),
    ("a_request_is_answered", broken(dishonest.Breaks, kind="seed", stream=False)),
    ("faults_are_typed_errors", broken(dishonest.RaisesTheWrongError, fault="refused_429", stream=False)),
    ("faults_are_typed_errors", broken(dishonest.SaysNothing, fault="refused_400", stream=False)),
    ("faults_are_typed_errors", broken(dishonest.NamesNoStatus, fault="refused_529", stream=True)),
    ("faults_are_typed_errors", broken(dishonest.IsNeverToBeRetried, fault="refused_500", stream=True)),
    ("faults_are_typed_errors", broken(dishonest.ForgetsThePause, fault="refused_429_for_7_seconds", stream=False)),
    ("faults_are_typed_errors", broken(dishonest.HidesTheCause, fault="unreachable", stream=True)),
    ("faults_are_typed_errors", broken(dishonest.SwallowsFaults, fault="ended_after_a_chunk", stream=True)),
    ("faults_are_typed_errors", broken(dishonest.GivesHalfOfAWhole, fault="malformed_json", stream=False)),
    ("what_came_before_a_fault_is_given_once", broken(dishonest.HoldsBack, fault="silent_after_a_chunk")),
    ("what_came_before_a_fault_is_given_once", broken(dishonest.CompletesWhatBroke, fault="not_json")),
]
ALL = [*BROKEN.items(), *FURTHER]
each_broken_model = pytest.mark.parametrize(
    ("rule", "wrong"), ALL, ids=[f"{rule}-{wrong.model.__name__}" for rule, wrong in ALL]
)


class Suite(ModelSuite):
    model: ClassVar[type[Model]] = Model

    def make_model(self, answers: Sequence[LlmResponse]) -> BaseLlm:
        return self.model(answers)

    def make_failing_model(self) -> BaseLlm:
        return self.model([ModelRequestError("No.")])

    def make_faulty_model(self, fault: Fault) -> BaseLlm:
        return self.model([TEXT], fault=fault)

    def sent(self, model: BaseLlm) -> list[Any]:
        assert isinstance(model, Model)
        return model.bodies


class TestHonestModel(Suite):
    """All hooks are defined, and nothing is skipped."""


@each_broken_model
def test_a_model_that_breaks_a_rule_is_found(rule: str, wrong: Broken) -> None:
    class BrokenSuite(Suite):
        model = wrong.model

    breaks(BrokenSuite, rule, **wrong.case)


@each_broken_model
def test_the_model_that_the_broken_ones_derive_from_keeps_all_rules(rule: str, wrong: Broken) -> None:
    getattr(Suite(), f"test_{rule}")(**wrong.case)


def test_every_rule_is_shown_to_fail() -> None:
    assert rules_of(ModelSuite) == BROKEN.keys()


def test_there_are_many_cases_each_once_unary_and_once_streamed() -> None:
    cases = 0
    for rule in rules_of(ModelSuite):
        marks: list[pytest.Mark] = getattr(getattr(ModelSuite, f"test_{rule}"), "pytestmark", [])
        sizes = {mark.args[0]: len(mark.args[1]) for mark in marks if mark.name == "parametrize"}
        if sizes.pop("stream", 0) == 2:
            cases += prod(sizes.values())
    assert cases >= 200


# -- what is left out ------------------------------------------------------------------------------


def test_an_answer_other_than_the_backends_is_found() -> None:
    class Deaf(ModelSuite):
        def make_model(self, answers: Sequence[LlmResponse]) -> FunctionModel:
            return FunctionModel(lambda request: "Something else.")

    breaks(Deaf, "the_answer_is_the_backends", answer="text", stream=False)


def test_a_model_that_answers_at_random_is_compared_with_itself() -> None:
    class Moody(ModelSuite):
        scripted = False

        def make_model(self, answers: Sequence[LlmResponse]) -> FunctionModel:
            count = iter(range(100))
            return FunctionModel(lambda request: f"Answer {next(count)}.")

    breaks(Moody, "calls_one_after_another_get_their_own_answers", stream=False)


@pytest.mark.parametrize(
    ("rule", "case", "why"),
    [
        ("failures_are_model_errors", {}, "make_failing_model"),
        ("faults_are_typed_errors", {"fault": "silent"}, "make_faulty_model"),
    ],
)
def test_failures_are_left_out_without_a_model_that_fails(rule: str, case: dict[str, Any], why: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=why):
        getattr(TestScriptedModelThatDoesNotStream(), f"test_{rule}")(**case, stream=False)


def test_what_the_backend_lacks_is_left_out() -> None:
    class Plain(Suite):
        lacks = frozenset({"citation", "seed", "silent"})
        thoughts = False

    for rule, case in (
        ("the_answer_is_the_backends", {"answer": "citation"}),
        ("the_answer_is_the_backends", {"answer": "thought"}),
        ("a_request_is_answered", {"kind": "seed"}),
        ("faults_are_typed_errors", {"fault": "silent"}),
    ):
        with pytest.raises(pytest.skip.Exception, match="the backend has no"):
            getattr(Plain(), f"test_{rule}")(**case, stream=True)


def test_what_a_backend_lacks_has_to_be_a_case() -> None:
    with pytest.raises(ConfigurationError, match=r"`sead`, no case; the closest is `seed`"):

        class _Wrong(ModelSuite):
            lacks = frozenset({"sead"})


def test_a_feature_may_be_left_out_with_a_warning() -> None:
    class Warns(Model):
        def send(self, request: Any) -> None:
            self._leave_out("config.seed")
            body = dishonest.body_of(request)
            body["config"].pop("seed", None)
            self.bodies.append(body)

    class Warned(Suite):
        model = Warns

    Warned().test_a_request_is_answered(kind="seed", stream=False)


def test_a_failure_that_says_nothing_is_found() -> None:
    class Mute(ModelSuite):
        def make_model(self, answers: Sequence[LlmResponse]) -> Model:
            return Model(answers)

        def make_failing_model(self) -> Model:
            return Model([ModelRequestError("")])

    breaks(Mute, "failures_are_model_errors", stream=True)
