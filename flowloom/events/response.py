"""`LlmResponse`: what a model answers, whole or one chunk of a stream (spec §0.3, §16.1)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from typing import TYPE_CHECKING, Any, Self

from google.genai import types
from pydantic import ConfigDict, Field

from flowloom.events.parts import parts_of
from flowloom.events.wire import WireModel, fill, make


class LlmResponse(WireModel):
    """One answer of a model, or one chunk of it (`partial=True`).

    Partial responses are shown to consumers and never stored; the complete one repeats all their content.
    A failed call is a response with `error_code` and `error_message`; the exception behind it may travel in
    `error`, which never reaches JSON.
    """

    model_version: str | None = None
    content: types.Content | None = None
    grounding_metadata: types.GroundingMetadata | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    turn_complete_reason: Any | None = None
    interaction_status: Any | None = None
    finish_reason: types.FinishReason | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    custom_metadata: dict[str, Any] | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    live_session_resumption_update: Any | None = None
    live_session_id: str | None = None
    go_away: Any | None = None
    voice_activity: Any | None = None
    input_transcription: types.Transcription | None = None
    output_transcription: types.Transcription | None = None
    avg_logprobs: float | None = None
    logprobs_result: types.LogprobsResult | None = None
    cache_metadata: Any | None = None
    citation_metadata: types.CitationMetadata | None = None
    url_context_metadata: types.UrlContextMetadata | None = None
    interaction_id: str | None = None
    environment_id: str | None = None
    error: Exception | None = Field(default=None, exclude=True, repr=False)

    model_config = ConfigDict(defer_build=True)

    if not TYPE_CHECKING:

        def __init__(self, /, **given: Any) -> None:
            if type(self) is LlmResponse and all(type(value) is FITTING.get(name) for name, value in given.items()):
                fill(self, _NOTHING | given, set(given))
            else:
                super().__init__(**given)

        __init__.__pydantic_base_init__ = True  # data is read as without it

    @classmethod
    def create(cls, generate_content_response: types.GenerateContentResponse) -> Self:
        """Convert one response (or stream chunk) of google-genai, `generate_content_response` (spec §16.1).

        A candidate with parts, or that finished with STOP, becomes content. Any other candidate becomes an error whose
        code is the finish reason; a blocked prompt one whose code is the block reason. A chunk with neither (usage
        only) is valid and empty.
        """
        raw = generate_content_response
        values: dict[str, Any] = {"usage_metadata": raw.usage_metadata, "model_version": raw.model_version}
        if raw.candidates:
            candidate = raw.candidates[0]
            values["grounding_metadata"] = candidate.grounding_metadata
            values["citation_metadata"] = candidate.citation_metadata
            values["url_context_metadata"] = candidate.url_context_metadata
            values["avg_logprobs"] = candidate.avg_logprobs
            values["logprobs_result"] = candidate.logprobs_result
            values["finish_reason"] = candidate.finish_reason
            said, reason = candidate.content, candidate.finish_reason
            if (said is not None and said.parts) or reason == types.FinishReason.STOP:
                values["content"] = said
            elif reason is not None:
                values |= {"error_code": reason.value, "error_message": candidate.finish_message}
        elif (feedback := raw.prompt_feedback) is not None and feedback.block_reason is not None:
            message = feedback.block_reason_message or "The provider blocked the prompt."
            values |= {"error_code": feedback.block_reason.value, "error_message": message}
        if values.get("content") is None and "error_code" not in values:
            values["content"] = types.Content(role="model", parts=[])
        return make(cls, values)

    def get_function_calls(self) -> list[types.FunctionCall]:
        """The function calls in the content, in order."""
        return [part.function_call for part in parts_of(self.content) if part.function_call is not None]

    def get_function_responses(self) -> list[types.FunctionResponse]:
        """The function responses in the content, in order."""
        return [part.function_response for part in parts_of(self.content) if part.function_response is not None]

    @property
    def text(self) -> str:
        """The answer's text: all text parts joined, thoughts left out."""
        return "".join(part.text for part in parts_of(self.content) if part.text and not part.thought)

    @property
    def searches(self) -> int:
        """How often a tool of the provider's searched for the answer."""
        return 0 if self.grounding_metadata is None else len(self.grounding_metadata.web_search_queries or ())


_NOTHING = dict.fromkeys(LlmResponse.model_fields)
FITTING: dict[str, type] = {"content": types.Content, "partial": bool, "turn_complete": bool}
"""What models give in every chunk, and of which type: validation takes it as it is, at over twice the cost."""
