"""What the answers of providers other than Google are made of, once they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from google.genai import types

from flowloom.events.ids import CLIENT_CALL_PREFIX, new_id
from flowloom.events.parts import content_of, parts_of
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, make, replace
from flowloom.models.grounding import joined

Json = dict[str, Any]

_USAGE = types.GenerateContentResponseUsageMetadata.model_construct(
    prompt_token_count=None,
    candidates_token_count=None,
    total_token_count=None,
    cached_content_token_count=None,
    thoughts_token_count=None,
)


def object_of(value: Any) -> Json:
    """A JSON object; an empty one for anything else, and for none."""
    return cast(Json, value) if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[Json]:
    """The objects in a JSON array; none in anything else."""
    items = cast(list[Any], value) if isinstance(value, list) else []
    return [cast(Json, item) for item in items if isinstance(item, dict)]


def minted_id() -> str:
    """An id for a call that came without one."""
    return CLIENT_CALL_PREFIX + new_id()


def text_in(data: Json, name: str) -> str:
    """The text under a name in a JSON object; an empty one where nothing is. Raises `TypeError` for anything else."""
    value: Any = data.get(name) or ""
    if not isinstance(value, str):
        raise TypeError(f"its `{name}` is no text")
    return value


def usage_of(
    *,
    prompt: int | None,
    output: int | None,
    total: int | None = None,
    cached: int | None = None,
    thoughts: int | None = None,
) -> types.GenerateContentResponseUsageMetadata:
    """Token counts in Gemini's terms: what was thought is not in the count of the answer, but beside it.

    Raises `TypeError` or `ValueError` for what is no number.
    """
    prompt, output, total, cached, thoughts = map(_whole, (prompt, output, total, cached, thoughts))
    answer = output
    if output is not None and thoughts and total != (prompt or 0) + output + thoughts:  # few count them beside
        answer = max(0, output - thoughts)
    if total is None and (prompt is not None or output is not None):
        total = (prompt or 0) + (output or 0)
    return replace(
        _USAGE,
        prompt_token_count=prompt,
        candidates_token_count=answer,
        total_token_count=total,
        cached_content_token_count=cached or None,
        thoughts_token_count=thoughts or None,
    )


def _whole(count: float | None) -> int | None:
    """A count of tokens; some servers write it as a fraction, or as text."""
    return None if count is None else int(float(count))


def citations_of(cited: Iterable[Json]) -> types.CitationMetadata:
    """The web pages that an answer names, each with `url`, `title`, and where in the text (`start_index`...)."""
    return types.CitationMetadata(
        citations=[
            types.Citation(
                uri=each.get("url"),
                title=each.get("title"),
                start_index=each.get("start_index"),
                end_index=each.get("end_index"),
            )
            for each in cited
        ]
    )


_MOST_SHOWN = 2000
"""How many characters of each text in a result a person is shown; the provider gets it back whole."""


def shown_result(value: Any) -> Any:
    """What a provider's tool gave, as a person may want to see it: without what is encrypted, long texts cut."""
    if isinstance(value, list):
        return [shown_result(each) for each in cast(list[Any], value)]
    if isinstance(value, dict):
        fields = cast(Json, value).items()
        return {name: shown_result(each) for name, each in fields if not name.startswith("encrypted_")}
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]}… ({len(value)} characters)"
    return value


def joined_answers(answers: Sequence[LlmResponse]) -> LlmResponse:
    """One complete response for an answer that its provider gave in several."""
    last = answers[-1]
    if len(answers) == 1:
        return last
    texts = [answer.text for answer in answers]
    parts = [part for answer in answers for part in parts_of(answer.content)]
    cited: list[types.Citation] = []
    for number, answer in enumerate(answers):
        shift = len("".join(texts[:number]))
        found = (answer.citation_metadata.citations if answer.citation_metadata is not None else None) or ()
        cited += [_behind(citation, shift) for citation in found]
    return replace(
        last,
        content=content_of("model", parts) if parts else last.content,
        error_code=None if parts else last.error_code,
        usage_metadata=_added([answer.usage_metadata for answer in answers]),
        grounding_metadata=joined([answer.grounding_metadata for answer in answers], texts),
        citation_metadata=types.CitationMetadata(citations=cited) if cited else None,
    )


def _behind(citation: types.Citation, shift: int) -> types.Citation:
    begin, end = citation.start_index, citation.end_index
    return replace(
        citation,
        start_index=None if begin is None else begin + shift,
        end_index=None if end is None else end + shift,
    )


def _added(
    usages: Sequence[types.GenerateContentResponseUsageMetadata | None],
) -> types.GenerateContentResponseUsageMetadata | None:
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    names = [name for name in fields_of(known[-1]) if name.endswith("_count")]
    sums = {name: sum(getattr(usage, name) or 0 for usage in known) for name in names}
    return replace(known[-1], **{name: total or None for name, total in sums.items()})


def joined_logprobs(results: list[types.LogprobsResult]) -> dict[str, Any]:
    """The fields of a response for the log probabilities of its tokens, which came in pieces."""
    chosen = [token for result in results for token in result.chosen_candidates or ()]
    if not chosen:
        return {}
    top = [tokens for result in results for tokens in result.top_candidates or ()]
    numbers = [token.log_probability for token in chosen if token.log_probability is not None]
    return {
        "logprobs_result": types.LogprobsResult(chosen_candidates=chosen, top_candidates=top),
        "avg_logprobs": sum(numbers) / len(numbers) if numbers else None,
    }


def with_metadata(content: types.Content | None, reason: types.FinishReason, metadata: dict[str, Any]) -> LlmResponse:
    """A complete response. One that ended without content for another reason than its end is an error (spec §16.1)."""
    content = content or content_of("model", [])
    values: dict[str, Any] = {**metadata, "finish_reason": reason, "turn_complete": True}
    if content.parts or reason == types.FinishReason.STOP:
        values["content"] = content
    else:
        values["error_code"] = reason.value
    return make(LlmResponse, values)
