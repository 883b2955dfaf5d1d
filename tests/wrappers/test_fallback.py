"""`FallbackModel`: when the next model is asked, what is said of it, and what is raised when none answers."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, ClassVar

import pytest
from kit import Chat, said
from models.gemini_wire import refusal, text, whole
from models.wire_server import WireServer
from wrapper_kit import Endless, ask, responses, texts, told

from flowloom import (
    ConfigurationError,
    FallbackModel,
    Gemini,
    LlmAgent,
    LlmResponse,
    ModelError,
    OfflineModel,
    RetryOptions,
)
from flowloom.errors import (
    ModelNotFoundError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamError,
    ModelUnavailableError,
    NotSupportedError,
    UnsupportedFeatureError,
)
from flowloom.testing import ScriptedModel, call, dropped, truncated


def scripted(name: str, *answers: Any) -> ScriptedModel:
    return ScriptedModel(answers, model=name, stream_chunks=True)


def pair(error: Any, **options: Any) -> FallbackModel:
    """A model that fails like this, and one that answers."""
    return FallbackModel([scripted("a", error), scripted("b", "From b.")], **options)


FALL_BACK = [
    ModelRateLimitError("Slow.", status=429),
    ModelUnavailableError("Down."),
    ModelStreamError("Broke off."),
    ModelError("Later.", retryable=True),
    truncated("Hello.", after=0),
    dropped("Hello.", after=0),
]
RAISED = [
    ModelRequestError("No.", status=400),
    UnsupportedFeatureError("No such field.", field="config.seed"),
    ValueError("mine"),
    ConfigurationError("No key."),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("error", FALL_BACK, ids=str)
async def test_the_next_model_answers_when_one_fails(error: Any, stream: bool) -> None:
    assert (await texts(pair(error), stream=stream))[-1] == "From b."


@pytest.mark.parametrize("error", RAISED, ids=str)
async def test_what_the_next_model_would_not_mend_is_raised_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await responses(pair(error))
    assert caught.value is error


async def test_nothing_that_was_streamed_is_said_twice() -> None:
    """A model that breaks off after partial responses ends the call."""
    model = pair(dropped("Hello to you all.", after=1))
    stream = model.generate_content_async(ask(), True)
    assert (await anext(stream)).text == "Hello to"
    with pytest.raises(ModelStreamError):
        await anext(stream)


async def test_each_model_is_asked_under_its_own_name() -> None:
    first, second = scripted("a", ModelUnavailableError("Down.")), scripted("b", "Hello.")
    request = ask()
    request.model = "a"
    await responses(FallbackModel([first, second]), request)
    assert [first.requests[0].model, second.requests[0].model] == ["a", "b"]
    assert request.model == "a"


async def test_each_adapter_is_asked_under_its_own_name_on_the_wire() -> None:
    with WireServer(refusal(503, "UNAVAILABLE"), whole(text("Hello."))) as server:
        models = [
            Gemini(model=name, base_url=server.url, api_key="key", retry_options=RetryOptions(attempts=1))
            for name in ("gemini-2.5-pro", "gemini-2.5-flash")
        ]
        model = FallbackModel(models)
        chat = Chat(LlmAgent(name="root", model=model))
        [event] = await chat.say("Hello?")
        await model.aclose()
        paths = [seen.path.partition("?")[0].rpartition("/")[2] for seen in server.requests]
    assert paths == ["gemini-2.5-pro:generateContent", "gemini-2.5-flash:generateContent"]
    assert event.text == "Hello."


async def test_names_are_looked_up() -> None:
    assert [type(each) for each in FallbackModel(["offline", "offline-2"]).models] == [OfflineModel, OfflineModel]
    with pytest.raises(ModelNotFoundError):
        FallbackModel(["no such model"])


# -- on what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "on",
    [
        418,
        [500, 418],
        ModelRequestError,
        (KeyError, ModelRequestError),
        "TEAPOT",
        lambda error: error.status == 418,
        [ValueError, lambda error: "tea" in str(error)],
    ],
    ids=["a status", "statuses", "a type", "types", "a code", "a predicate", "a type or a predicate"],
)
async def test_the_failures_may_be_named(on: Any) -> None:
    error = ModelRequestError("Only tea.", status=418, code="TEAPOT")
    assert await told(pair(error, on=on)) == "From b."


@pytest.mark.parametrize(
    "on",
    [429, ModelRateLimitError, "QUOTA", lambda error: False, []],
    ids=["status", "type", "code", "predicate", "none"],
)
async def test_only_the_failures_that_are_named_count(on: Any) -> None:
    with pytest.raises(ModelUnavailableError):
        await responses(pair(ModelUnavailableError("Down.", status=503), on=on))


async def test_errors_of_any_class_may_be_named() -> None:
    assert await told(pair(TimeoutError("Too long."), on=(*FallbackModel.DEFAULT_ON, TimeoutError))) == "From b."


async def test_the_statuses_of_google_adk_are_accepted() -> None:
    """`retriable_status_codes` stands for all failures, as there."""
    assert await told(pair(ModelUnavailableError("Down.", status=503), retriable_status_codes=[503])) == "From b."
    with pytest.raises(ModelRateLimitError):
        await responses(pair(ModelRateLimitError("Slow.", status=429), retriable_status_codes=[503]))


async def test_an_answer_that_is_an_error_is_an_answer() -> None:
    [response] = await responses(pair(LlmResponse(error_code="SAFETY")))
    assert response.error_code == "SAFETY"


async def test_an_answer_that_is_an_error_counts_if_its_code_is_named() -> None:
    [response] = await responses(pair(LlmResponse(error_code="SAFETY", error_message="No."), on="SAFETY"))
    assert response.text == "From b."
    assert response.custom_metadata is not None
    assert "SAFETY: No." in response.custom_metadata["fallback"]["failed"][0]["error"]


async def test_an_error_at_the_end_of_a_stream_is_passed_on() -> None:
    """It was begun by the first model, so it is that model's to end."""
    chunks = [LlmResponse(content=said("Hel"), partial=True), LlmResponse(error_code="SAFETY")]
    found = await responses(pair(chunks, on="SAFETY"), stream=True)
    assert [each.error_code for each in found] == [None, "SAFETY"]


async def test_the_last_answer_that_is_an_error_is_given_out() -> None:
    model = FallbackModel([scripted("a", LlmResponse(error_code="SAFETY"))], on="SAFETY")
    assert [each.error_code for each in await responses(model)] == ["SAFETY"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FallbackModel([]),
        lambda: FallbackModel("offline"),
        lambda: FallbackModel([3]),  # type: ignore[list-item]
        lambda: FallbackModel(["offline"], on=[3.5]),  # type: ignore[list-item]
        lambda: FallbackModel(["offline"], on=429, retriable_status_codes=[429]),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_built(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


# -- who answered ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_the_answer_says_who_gave_it(stream: bool) -> None:
    response = (await responses(pair(ModelUnavailableError("Down.")), stream=stream))[-1]
    assert response.model_version == "b"
    assert response.custom_metadata == {
        "fallback": {"answered_by": "b", "failed": [{"model": "a", "error": "ModelUnavailableError: Down."}]}
    }


async def test_what_a_model_says_of_itself_stays() -> None:
    given = LlmResponse(content=ask().contents[0], model_version="a-001", custom_metadata={"mine": 1, "fallback": None})
    inner = scripted("a", given)
    [response] = await responses(FallbackModel([inner]))
    assert response.model_version == "a-001"
    assert response.custom_metadata == {"mine": 1, "fallback": {"answered_by": "a"}}
    assert given.custom_metadata == {"mine": 1, "fallback": None}


async def test_a_fallback_inside_of_another_is_looked_through() -> None:
    down = ModelUnavailableError("Down.")
    model = FallbackModel([scripted("a", down), FallbackModel([scripted("b", down), scripted("c", "Hello.")])])
    [response] = await responses(model)
    assert response.custom_metadata is not None
    found = response.custom_metadata["fallback"]
    assert found["answered_by"] == "c"
    assert [each["model"] for each in found["failed"]] == ["a", "b"]


async def test_who_answered_is_stored_with_the_event() -> None:
    agent = LlmAgent(name="root", model=pair(ModelUnavailableError("Down.")))
    [event] = await Chat(agent).say("Hello?")
    assert event.custom_metadata is not None
    assert event.custom_metadata["fallback"]["answered_by"] == "b"


async def test_a_tool_call_of_the_second_model_is_run_and_answered() -> None:
    """The next step begins with the first model again."""
    first = scripted("a", ModelUnavailableError("Down."), "21 degrees.")
    second = scripted("b", call("weather", city="Rome"))

    def weather(city: str) -> str:
        """The weather."""
        return f"21 in {city}"

    events = await Chat(LlmAgent(name="root", model=FallbackModel([first, second]), tools=[weather])).say("Rome?")
    assert [event.text for event in events][-1] == "21 degrees."
    assert first.requests[1].contents[-1].parts[0].function_response.response == {"result": "21 in Rome"}  # type: ignore[index, union-attr]


# -- nobody answers ----------------------------------------------------------------------------------


async def test_when_all_fail_the_last_error_tells_of_all() -> None:
    errors = [
        ModelRateLimitError("Slow.", status=429),
        ModelStreamError("Broke off."),
        ModelUnavailableError("Down.", status=503, code="UNAVAILABLE", retryable=True, retry_after=3),
    ]
    model = FallbackModel([scripted(name, error) for name, error in zip("abc", errors, strict=True)])
    with pytest.raises(ModelUnavailableError) as caught:
        await responses(model)
    error = caught.value
    for expected in ("`a`", "`b`", "`c`", "Slow.", "Broke off.", "Down."):
        assert expected in str(error)
    assert (error.status, error.code, error.retryable, error.retry_after) == (503, "UNAVAILABLE", True, 3)
    assert isinstance(error.__cause__, ExceptionGroup)
    assert list(error.__cause__.exceptions) == errors


async def test_an_error_of_a_class_with_another_constructor_tells_of_all() -> None:
    last = UnsupportedFeatureError("No seeds.", field="config.seed", model="b")
    model = FallbackModel([scripted("a", ModelUnavailableError("Down.")), scripted("b", last)])
    with pytest.raises(UnsupportedFeatureError, match=r"`a`, `b`.*No seeds") as caught:
        await responses(model)
    assert caught.value.field == "config.seed"


async def test_an_error_that_is_no_model_error_has_the_others_as_notes() -> None:
    last = ValueError("mine")
    model = FallbackModel([scripted("a", ModelUnavailableError("Down.")), scripted("b", last)])
    with pytest.raises(ValueError, match="mine") as caught:
        await responses(model)
    assert caught.value is last
    assert "`a`" in last.__notes__[0]


async def test_models_that_all_say_nothing_end_in_a_stream_error() -> None:
    model = FallbackModel([scripted("a", truncated("x", after=0)), scripted("b", truncated("x", after=0))])
    with pytest.raises(ModelStreamError, match="`a`, `b`"):
        await responses(model)


# -- what it promises --------------------------------------------------------------------------------


class Kind(ScriptedModel):
    where: Any = None
    able: bool = True
    provider_name: str | None = None
    closed: int = 0

    keeps_call_ids: ClassVar[bool] = True

    @property
    def backend(self) -> Any:
        return self.where

    @property
    def hosted(self) -> bool:
        return self.able

    @property
    def output_schema_and_tools(self) -> bool:
        return self.able

    @property
    def missing_credentials(self) -> str | None:
        return None if self.able else "Set KEY."

    async def aclose(self) -> None:
        self.closed += 1


class Strips(Kind):
    keeps_call_ids: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("backends", "expected"),
    [
        (["vertex_ai", "vertex_ai"], "vertex_ai"),
        (["vertex_ai", "gemini_api"], "gemini_api"),
        ([None, "gemini_api"], "gemini_api"),
        (["vertex_ai", None], None),
        ([None, None], None),
    ],
)
def test_the_backend_is_the_one_that_takes_least(backends: list[Any], expected: str | None) -> None:
    assert FallbackModel([Kind(where=each) for each in backends]).backend == expected


def test_it_can_what_all_models_can() -> None:
    assert FallbackModel([Kind(), Kind()]).output_schema_and_tools
    assert not FallbackModel([Kind(), Kind(able=False)]).output_schema_and_tools
    assert FallbackModel([Kind(), Kind()]).keeps_call_ids
    assert not FallbackModel([Kind(), Strips()]).keeps_call_ids


def test_it_leaves_the_machine_if_one_model_does() -> None:
    assert FallbackModel([Kind(able=False), Kind()]).hosted
    assert not FallbackModel([Kind(able=False)]).hosted


def test_it_tells_which_credentials_are_missing() -> None:
    assert FallbackModel([Kind(), Kind(able=False, model="b")]).missing_credentials == "`b`: Set KEY."
    assert FallbackModel([Kind()]).missing_credentials is None


def test_its_names_are_those_of_the_first_model() -> None:
    model = FallbackModel([Kind(model="a", provider_name="x"), Kind(model="b", provider_name="y")])
    assert (model.model, model.provider_name) == ("a", "x")


async def test_closing_it_closes_all_models() -> None:
    model = FallbackModel([Kind(), ScriptedModel(), Kind()])
    await model.aclose()
    assert [getattr(each, "closed", None) for each in model.models] == [1, None, 1]


def test_a_live_connection_is_the_first_models() -> None:
    with pytest.raises(NotSupportedError, match="`a`"):
        FallbackModel([scripted("a"), scripted("b")]).connect(ask())


async def test_leaving_a_stream_closes_the_inner_one() -> None:
    inner = Endless()
    async with aclosing(FallbackModel([inner]).generate_content_async(ask(), True)) as stream:
        async for _ in stream:
            break
    assert (inner.chunks, inner.closed) == (1, 1)
