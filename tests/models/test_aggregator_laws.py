"""Laws of `StreamingAggregator`: cutting an answer into chunks, in whatever way, loses nothing."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from stream_parts import Part, call_part, chunk

from flowloom.events import LlmResponse
from flowloom.models.aggregator import StreamingAggregator

names = st.sampled_from(["f", "g", "set_x"])
texts = st.text(min_size=1, max_size=20)
signatures = st.none() | st.binary(min_size=1, max_size=4)
leaves = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
text_parts = st.builds(
    lambda text, thought, signature: Part(text=text, thought=thought or None, thought_signature=signature),
    texts,
    st.booleans(),
    signatures,
)
call_parts = st.builds(
    lambda name, args, signature: call_part(name, args=args, signature=signature),
    names,
    st.dictionaries(st.text(max_size=6), values, max_size=3),
    signatures,
)


def apart(parts: list[Part]) -> list[Part]:
    """Without the texts that belong to the text before them: a stream cannot tell those apart."""
    kept: list[Part] = []
    for part in parts:
        before = kept[-1] if kept and kept[-1].text and part.text else None
        merges = before is not None and bool(before.thought) is bool(part.thought)
        if merges and before is not None and before.thought_signature in (None, part.thought_signature):
            continue
        kept.append(part)
    return kept


def step(key: str | int, draw: st.DrawFn) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    plain = [f".{key}"] if re.fullmatch(r"[^\W\d]\w*", key) else []
    single = json.dumps(key)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return draw(st.sampled_from([*plain, f"[{json.dumps(key)}]", f"['{single}']"]))


def leaves_of(value: Any, path: str, draw: st.DrawFn) -> list[tuple[str, Any]] | None:
    """The paths and values of all leaves; None where an empty container cannot be said by leaves."""
    if not isinstance(value, dict | list):
        return [(path, value)]
    if not value:
        return None
    found: list[tuple[str, Any]] = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        below = leaves_of(item, path + step(key, draw), draw)
        if below is None:
            return None
        found += below
    return found


def cut_text(text: str, draw: st.DrawFn) -> list[str]:
    places = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3)))
    return [text[a:b] for a, b in itertools.pairwise([0, *places, len(text)]) if text[a:b]]


def cut_call(call: types.FunctionCall, signature: bytes | None, draw: st.DrawFn) -> list[Part]:
    """The pieces of one call: whole, or with its arguments leaf by leaf and any of the ways to end."""
    leaves = leaves_of(call.args, "$", draw) if draw(st.booleans()) else None
    if leaves is None:
        return [call_part(call.name, args=call.args, signature=signature)]
    writes: list[tuple[str, Any]] = []
    for path, value in leaves:
        writes += (
            [(path, piece) for piece in cut_text(value, draw)] if value and isinstance(value, str) else [(path, value)]
        )
    pieces = [call_part(call.name, go_on=True, signature=signature)]
    while writes:
        size = draw(st.integers(1, len(writes)))
        pieces.append(call_part(partial=writes[:size], go_on=True))
        writes = writes[size:]
    ending = draw(st.sampled_from(["empty", "false", "on the last piece"]))
    if ending == "on the last piece" and pieces[-1].function_call and pieces[-1].function_call.partial_args:
        pieces[-1].function_call.will_continue = draw(st.sampled_from([False, None]))
    else:
        pieces.append(call_part(go_on=False if ending == "false" else None))
    return pieces


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Part], list[types.GenerateContentResponse]]:
    """Parts, and chunks that they could have come in."""
    parts = apart(draw(st.lists(text_parts | call_parts, max_size=6)))
    pieces: list[Part] = []
    for part in parts:
        if part.function_call is not None:
            pieces += cut_call(part.function_call, part.thought_signature, draw)
            continue
        texts = cut_text(part.text or "", draw)
        pieces += [Part(text=text, thought=part.thought) for text in texts]
        pieces[-1].thought_signature = part.thought_signature
    chunks: list[types.GenerateContentResponse] = []
    while pieces:
        size = draw(st.integers(1, 3))
        chunks.append(chunk(*pieces[:size]))
        pieces = pieces[size:]
    return parts, chunks


def as_data(parts: list[Part]) -> list[dict[str, Any]]:
    dumped = [part.model_dump(exclude_none=True) for part in parts]
    for part in dumped:
        part.get("function_call", {}).pop("id", None)
    return dumped


@given(streams())
def test_the_aggregate_of_the_chunks_of_an_answer_is_the_answer(
    stream: tuple[list[Part], list[types.GenerateContentResponse]],
) -> None:
    parts, chunks = stream
    aggregator = StreamingAggregator()
    shown = [call.id for one in chunks for partial in aggregator.feed(one) for call in partial.get_function_calls()]
    complete = aggregator.close()
    if complete is None:
        assert not parts
        return
    assert complete.content is not None
    assert as_data(complete.content.parts or []) == as_data(parts)
    assert {call.id for call in complete.get_function_calls()} == set(shown)


@given(streams())
def test_chunks_and_converted_responses_give_the_same(
    stream: tuple[list[Part], list[types.GenerateContentResponse]],
) -> None:
    by_chunk = StreamingAggregator(new_id=map(str, itertools.count()).__next__)
    by_response = StreamingAggregator(new_id=map(str, itertools.count()).__next__)
    for one in stream[1]:
        shown = [by_chunk.feed(one), by_response.feed_response(LlmResponse.create(one))]
        assert shown[0] == shown[1]
    assert by_chunk.close() == by_response.close()


def test_a_long_stream_is_put_together() -> None:
    aggregator = StreamingAggregator()
    pieces = [f"{number} " for number in range(20_000)]
    for piece in pieces:
        aggregator.feed(chunk(Part(text=piece)))
        aggregator.feed(chunk(call_part("f", partial=[("$.q", piece)], go_on=True)))
    complete = aggregator.close()
    assert complete is not None
    assert complete.get_function_calls()[0].args == {"q": "".join(pieces)}
