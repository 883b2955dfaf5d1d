"""`StreamingAggregator`: partial responses and the complete one (spec §16)."""

from __future__ import annotations

import pytest
from google.genai import types
from stream_parts import Part, call_part, chunk, parts_of, run, shape

from flowloom.events import LlmResponse
from flowloom.models.aggregator import StreamingAggregator

STOP = types.FinishReason.STOP


# -- partial responses -------------------------------------------------------------------------------


def test_each_chunk_becomes_one_partial_response() -> None:
    partials, _ = run(chunk(Part(text="a")), chunk(Part(text="b")), chunk(Part(text="c"), finish="STOP"))
    assert [partial.text for partial in partials] == ["a", "b", "c"]
    assert all(partial.partial for partial in partials)


def test_a_partial_response_completes_the_turn_when_it_has_a_finish_reason() -> None:
    partials, complete = run(chunk(Part(text="a")), chunk(Part(text="b"), finish="STOP"))
    assert [partial.turn_complete for partial in partials] == [False, True]
    assert partials[-1].finish_reason is STOP
    assert complete.turn_complete is True


def test_a_stream_without_a_finish_reason_leaves_the_turn_open() -> None:
    assert run(chunk(Part(text="a")))[1].turn_complete is False


def test_the_complete_response_is_not_partial() -> None:
    assert not run(chunk(Part(text="a"), finish="STOP"))[1].partial


def test_nothing_fed_gives_no_complete_response() -> None:
    assert StreamingAggregator().close() is None


def test_closing_again_gives_the_same() -> None:
    aggregator = StreamingAggregator()
    aggregator.feed(chunk(Part(text="a"), call_part("f"), finish="STOP"))
    assert aggregator.close() == aggregator.close()


def test_chunks_are_not_changed() -> None:
    fed = [
        chunk(Part(text="a"), finish="STOP"),
        chunk(call_part("f", args={"x": [1]})),
        chunk(call_part("g", partial=[("$.y", "z")], go_on=True)),
        chunk(call_part(go_on=False)),
    ]
    before = [one.model_dump() for one in fed]
    run(*fed)
    assert [one.model_dump() for one in fed] == before


def test_a_usage_only_chunk_does_not_end_the_stream() -> None:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3)
    partials, complete = run(types.GenerateContentResponse(usage_metadata=usage), chunk(Part(text="a"), finish="STOP"))
    assert len(partials) == 2
    assert partials[0].error_code is None
    assert complete.text == "a"


def test_a_stream_of_nothing_gives_empty_content() -> None:
    complete = run(types.GenerateContentResponse())[1]
    assert complete.content == types.Content(role="model", parts=[])
    assert complete.error_code is None


# -- text --------------------------------------------------------------------------------------------


def test_text_of_one_kind_is_joined() -> None:
    assert parts_of(chunk(Part(text="Hel")), chunk(Part(text="lo"), Part(text="!"))) == [Part(text="Hello!")]


def test_thoughts_and_answer_are_parts_of_their_own_in_order() -> None:
    parts = parts_of(
        chunk(Part(text="hm", thought=True)),
        chunk(Part(text="m", thought=True)),
        chunk(Part(text="So")),
        chunk(Part(text=".")),
        chunk(call_part("f")),
        chunk(Part(text="th", thought=True)),
        chunk(Part(text="en", thought=True)),
        chunk(call_part("g")),
    )
    assert shape(parts) == ["hmm", "So.", "f", "then", "g"]
    assert [part.thought for part in parts] == [True, None, None, True, None]


def test_thought_false_is_the_same_as_none() -> None:
    assert parts_of(chunk(Part(text="a", thought=False)), chunk(Part(text="b"))) == [Part(text="ab")]


def test_empty_parts_are_left_out() -> None:
    parts = parts_of(
        chunk(Part(text="")), chunk(Part()), chunk(Part(text="", thought=True)), chunk(), chunk(Part(text="x"))
    )
    assert parts == [Part(text="x")]


def test_a_blob_between_texts_keeps_its_place() -> None:
    blob = Part(inline_data=types.Blob(data=b"1", mime_type="image/png"))
    assert parts_of(chunk(Part(text="a")), chunk(blob), chunk(Part(text="b"))) == [Part(text="a"), blob, Part(text="b")]


def test_text_with_more_than_text_is_not_merged() -> None:
    marked = Part(text="b", part_metadata={"k": 1})
    assert parts_of(chunk(Part(text="a")), chunk(marked), chunk(Part(text="c"))) == [
        Part(text="a"),
        marked,
        Part(text="c"),
    ]


def test_the_complete_response_does_not_share_parts_with_the_partial_ones() -> None:
    """A callback that edits what it is shown must not edit the complete response as well, which it is shown later."""
    partials, complete = run(chunk(Part(text="a")), chunk(call_part("f", args={"x": 1})))
    assert partials[0].content
    assert partials[0].content.parts
    assert complete.content
    assert complete.content.parts
    partials[0].content.parts[0].text = "edited"
    call = partials[1].get_function_calls()[0]
    assert call.args is not None
    call.args["x"] = 2
    call.name = "edited"
    assert complete.content.parts[0].text == "a"
    assert complete.get_function_calls()[0].name == "f"
    assert complete.get_function_calls()[0].args == {"x": 1}


# -- signatures --------------------------------------------------------------------------------------


def test_the_signature_on_the_last_piece_of_a_text_is_kept() -> None:
    parts = parts_of(chunk(Part(text="a")), chunk(Part(text="b", thought_signature=b"s")))
    assert parts == [Part(text="ab", thought_signature=b"s")]


def test_texts_with_different_signatures_stay_apart() -> None:
    parts = parts_of(
        chunk(Part(text="a", thought_signature=b"1")),
        chunk(Part(text="b", thought_signature=b"1")),
        chunk(Part(text="c", thought_signature=b"2")),
        chunk(Part(text="d")),
    )
    assert [(part.text, part.thought_signature) for part in parts] == [("ab", b"1"), ("c", b"2"), ("d", None)]


def test_a_signature_only_part_is_kept() -> None:
    signature = Part(text="", thought_signature=b"s")
    assert parts_of(chunk(Part(text="a")), chunk(signature, finish="STOP")) == [Part(text="a"), signature]


@pytest.mark.parametrize("together", [True, False])
def test_the_first_call_after_a_signature_only_part_inherits_it(together: bool) -> None:
    fed = [Part(thought_signature=b"s"), call_part("f"), call_part("g")]
    parts = parts_of(*([chunk(*fed)] if together else map(chunk, fed)))
    assert [part.thought_signature for part in parts] == [b"s", b"s", None]


def test_a_streamed_call_inherits_a_signature_and_no_later_call_does() -> None:
    parts = parts_of(
        chunk(Part(thought_signature=b"s")),
        chunk(call_part("f", go_on=True)),
        chunk(call_part()),
        chunk(call_part("g")),
    )
    assert [part.thought_signature for part in parts] == [b"s", b"s", None]


def test_a_calls_own_signature_is_kept_and_does_not_leak() -> None:
    parts = parts_of(chunk(call_part("f", signature=b"f")), chunk(call_part("g")))
    assert [part.thought_signature for part in parts] == [b"f", None]


def test_a_streamed_calls_first_signature_is_kept_and_does_not_leak() -> None:
    parts = parts_of(
        chunk(call_part("f", go_on=True, signature=b"1")),
        chunk(call_part(partial=[("$.a", "x")], go_on=True, signature=b"2")),
        chunk(call_part("g")),
    )
    assert [part.thought_signature for part in parts] == [b"1", None]


def test_the_signature_of_a_text_belongs_to_the_text_only() -> None:
    parts = parts_of(chunk(Part(text="a", thought_signature=b"s")), chunk(call_part("f")))
    assert [part.thought_signature for part in parts] == [b"s", None]


# -- metadata ----------------------------------------------------------------------------------------


def test_metadata_of_the_latest_chunk_that_had_some_is_kept() -> None:
    def usage(tokens: int) -> types.GenerateContentResponseUsageMetadata:
        return types.GenerateContentResponseUsageMetadata(total_token_count=tokens)

    grounding = types.GroundingMetadata(web_search_queries=["q"])
    citation = types.CitationMetadata(citations=[types.Citation(uri="u")])
    complete = run(
        chunk(Part(text="a"), usage_metadata=usage(1), model_version="v1", avg_logprobs=-0.5),
        chunk(Part(text="b"), usage_metadata=usage(2), grounding_metadata=grounding, citation_metadata=citation),
        chunk(
            Part(text="c"),
            usage_metadata=types.GenerateContentResponseUsageMetadata(),
            grounding_metadata=types.GroundingMetadata(),
        ),
        chunk(Part(text="d"), finish="STOP"),
    )[1]
    assert complete.usage_metadata == usage(2)
    assert complete.model_version == "v1"
    assert complete.avg_logprobs == -0.5
    assert complete.grounding_metadata == grounding
    assert complete.citation_metadata == citation
    assert complete.finish_reason is STOP


def test_log_probabilities_are_joined_in_order() -> None:
    def result(token: str) -> types.LogprobsResult:
        candidate = types.LogprobsResultCandidate(token=token)
        return types.LogprobsResult(
            chosen_candidates=[candidate],
            top_candidates=[types.LogprobsResultTopCandidates(candidates=[candidate])],
            log_probability_sum=-1.0,
        )

    first = result("a")
    complete = run(chunk(Part(text="a"), logprobs_result=first), chunk(Part(text="b"), logprobs_result=result("b")))[1]
    joined = complete.logprobs_result
    assert joined is not None
    assert [candidate.token for candidate in joined.chosen_candidates or ()] == ["a", "b"]
    assert len(joined.top_candidates or ()) == 2
    assert joined.log_probability_sum == -2.0
    assert first == result("a")


# -- errors ------------------------------------------------------------------------------------------


def test_a_finish_reason_beside_content_is_no_error() -> None:
    complete = run(chunk(Part(text="a"), finish="UNEXPECTED_TOOL_CALL"))[1]
    assert complete.finish_reason is types.FinishReason.UNEXPECTED_TOOL_CALL
    assert complete.error_code is None
    assert complete.text == "a"


def test_a_stream_of_nothing_but_an_error_has_no_content() -> None:
    partials, complete = run(chunk(finish="SAFETY", finish_message="no"))
    assert partials[0].error_code == complete.error_code == "SAFETY"
    assert complete.error_message == "no"
    assert complete.content is None
    assert complete.turn_complete is True


def test_a_blocked_prompt_is_an_error() -> None:
    feedback = types.GenerateContentResponsePromptFeedback(block_reason=types.BlockedReason.SAFETY)
    complete = run(types.GenerateContentResponse(prompt_feedback=feedback))[1]
    assert complete.error_code == "SAFETY"
    assert complete.error_message
    assert complete.content is None


def test_an_error_stays_when_harmless_chunks_follow() -> None:
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=1)
    complete = run(
        chunk(finish="SAFETY", finish_message="no"), types.GenerateContentResponse(usage_metadata=usage), chunk(Part())
    )[1]
    assert (complete.error_code, complete.error_message) == ("SAFETY", "no")
    assert complete.content is None


def test_a_finish_reason_after_content_is_no_error() -> None:
    """As it would be none had all come at once."""
    complete = run(chunk(Part(text="a")), chunk(finish="SAFETY", finish_message="no"))[1]
    assert complete.text == "a"
    assert (complete.error_code, complete.error_message) == (None, None)
    assert complete.finish_reason is types.FinishReason.SAFETY


def test_an_error_after_content_keeps_the_content() -> None:
    aggregator = StreamingAggregator()
    aggregator.feed(chunk(Part(text="a")))
    aggregator.feed_response(LlmResponse(error_code="E", error_message="no"))
    complete = aggregator.close()
    assert complete is not None
    assert (complete.text, complete.error_code, complete.error_message) == ("a", "E", "no")


def test_the_latest_error_wins_with_its_own_message() -> None:
    complete = run(chunk(finish="SAFETY", finish_message="no"), chunk(finish="RECITATION"))[1]
    assert (complete.error_code, complete.error_message) == ("RECITATION", None)


# -- responses of other adapters ---------------------------------------------------------------------


def test_converted_responses_are_taken_in_like_chunks() -> None:
    aggregator = StreamingAggregator()
    fed = [
        LlmResponse(content=types.Content(parts=[Part(text="a")]), interaction_id="i"),
        LlmResponse(content=types.Content(parts=[Part(text="b"), call_part("f")]), custom_metadata={"k": 1}),
        LlmResponse(finish_reason=STOP, custom_metadata={}),
    ]
    before = [one.model_dump() for one in fed]
    partials = [partial for one in fed for partial in aggregator.feed_response(one)]
    complete = aggregator.close()
    assert [one.model_dump() for one in fed] == before
    assert complete is not None
    assert all(partial.partial for partial in partials)
    assert [partial.turn_complete for partial in partials] == [False, False, True]
    assert complete.content
    assert shape(complete.content.parts or []) == ["ab", "f"]
    assert complete.get_function_calls()[0].id == partials[1].get_function_calls()[0].id
    assert complete.custom_metadata == {"k": 1}
    assert complete.interaction_id == "i"
    assert complete.finish_reason is STOP
    assert complete.turn_complete is True


def test_a_response_may_say_itself_that_the_turn_is_complete() -> None:
    aggregator = StreamingAggregator()
    aggregator.feed_response(LlmResponse(turn_complete=True))
    aggregator.feed_response(LlmResponse())
    complete = aggregator.close()
    assert complete is not None
    assert complete.turn_complete is True


def test_an_exception_on_a_response_is_kept() -> None:
    aggregator = StreamingAggregator()
    error = RuntimeError("x")
    aggregator.feed_response(LlmResponse(error_code="E", error=error))
    complete = aggregator.close()
    assert complete is not None
    assert complete.error is error
