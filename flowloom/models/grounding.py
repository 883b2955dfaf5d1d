"""Where an answer has its facts from: `grounding_metadata` that is the same for all providers (protocols spec §8).

A support says which bytes of the answer's text (`LlmResponse.text` in UTF-8) which sources stand behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.genai import types

from flowloom.events.parts import parts_of
from flowloom.events.wire import make, replace


class Grounds:
    """Collects the sources of an answer, and what they support. Each address is one chunk."""

    def __init__(self) -> None:
        self._places: dict[tuple[str | None, str | None], int] = {}
        self._chunks: list[types.GroundingChunk] = []
        self._supports: dict[tuple[int, int], list[int]] = {}
        self._queries: list[str] = []

    def search(self, *queries: str) -> None:
        """Note what was searched for; each is counted as a search."""
        self._queries += [query for query in queries if query]

    def cite(self, start: int, end: int, uri: str | None, title: str | None, *, file: bool = False) -> None:
        """Note that the text from byte `start` to `end` says what stands at `uri`; a `file` is none of the web."""
        place = self._places.get((uri, None if uri else title))
        if place is None:
            place = self._places[uri, None if uri else title] = len(self._chunks)
            self._chunks.append(_chunk(uri, title, file=file))
        found = self._supports.setdefault((start, end), [])
        if place not in found:
            found.append(place)

    def cite_words(self, text: str, cited: Mapping[str, Any]) -> None:
        """The same for a source whose `start_index` and `end_index` count characters of the answer's `text`."""
        begin, end = cited.get("start_index") or 0, cited.get("end_index") or 0
        start = len(text[:begin].encode(errors="surrogatepass"))
        stop = start + len(text[begin:end].encode(errors="surrogatepass"))
        self.cite(start, stop, cited.get("url"), cited.get("title"), file=bool(cited.get("file")))

    def metadata(self, text: str) -> types.GroundingMetadata | None:
        """What was noted, for an answer of that text; None if that is nothing."""
        if not self._chunks and not self._queries:
            return None
        data = text.encode(errors="surrogatepass")
        supports = [
            types.GroundingSupport(
                grounding_chunk_indices=places,
                segment=types.Segment(start_index=start, end_index=end, text=data[start:end].decode(errors="replace")),
            )
            for (start, end), places in self._supports.items()
        ]
        return types.GroundingMetadata(
            grounding_chunks=self._chunks or None,
            grounding_supports=supports or None,
            web_search_queries=self._queries or None,
        )


def _chunk(uri: str | None, title: str | None, *, file: bool) -> types.GroundingChunk:
    if file:
        found = types.GroundingChunkRetrievedContext(uri=uri, title=title)
        return types.GroundingChunk(retrieved_context=found)
    return types.GroundingChunk(web=types.GroundingChunkWeb(uri=uri, title=title))


def aligned(grounding: types.GroundingMetadata, content: types.Content | None) -> types.GroundingMetadata:
    """Gemini's own metadata with offsets into the text of the whole answer: it counts from the beginning of a part."""
    parts = parts_of(content)
    supports = grounding.grounding_supports or ()
    if len(parts) < 2 or not supports:
        return grounding
    starts: list[int] = []
    text = b""
    for part in parts:
        starts.append(len(text))
        if part.text and not part.thought:
            text += part.text.encode(errors="surrogatepass")
    moved = [_moved(each, starts, text) for each in supports]
    return replace(grounding, grounding_supports=moved)


def _moved(support: types.GroundingSupport, starts: Sequence[int], text: bytes) -> types.GroundingSupport:
    segment = support.segment
    if segment is None or segment.end_index is None:
        return support
    begin, end, part = segment.start_index or 0, segment.end_index, segment.part_index or 0
    said = None if segment.text is None else segment.text.encode(errors="surrogatepass")
    if said is not None and text[begin:end] == said:
        return support if not part else replace(support, segment=replace(segment, part_index=None))
    shift = starts[part] if part < len(starts) else 0
    if not shift or (said is not None and text[begin + shift : end + shift] != said):
        return support
    own = replace(segment, start_index=begin + shift, end_index=end + shift, part_index=None)
    return replace(support, segment=own)


def joined_pages(before: types.UrlContextMetadata, since: types.UrlContextMetadata) -> types.UrlContextMetadata:
    """The pages of both, each address once, with what was told of it last."""
    pages = {page.retrieved_url: page for each in (before, since) for page in each.url_metadata or ()}
    return make(types.UrlContextMetadata, url_metadata=list(pages.values()))


def joined(metadata: Sequence[types.GroundingMetadata | None], texts: Sequence[str]) -> types.GroundingMetadata | None:
    """The metadata of an answer that came in several, each with its text, as if it were one."""
    found = [(each, text) for each, text in zip(metadata, texts, strict=True)]
    if not any(each for each, _ in found):
        return None
    chunks: list[types.GroundingChunk] = []
    supports: list[types.GroundingSupport] = []
    queries: list[str] = []
    shift = 0
    for each, text in found:
        if each is not None:
            supports += [_behind(support, shift, len(chunks)) for support in each.grounding_supports or ()]
            chunks += each.grounding_chunks or ()
            queries += each.web_search_queries or ()
        shift += len(text.encode(errors="surrogatepass"))
    return make(
        types.GroundingMetadata,
        grounding_chunks=chunks or None,
        grounding_supports=supports or None,
        web_search_queries=queries or None,
    )


def _behind(support: types.GroundingSupport, shift: int, chunks: int) -> types.GroundingSupport:
    """A support, its answer's text and sources put behind others."""
    places = [place + chunks for place in support.grounding_chunk_indices or ()]
    segment = support.segment
    if segment is not None:
        begin, end = (segment.start_index or 0) + shift, (segment.end_index or 0) + shift
        segment = replace(segment, start_index=begin, end_index=end)
    return replace(support, grounding_chunk_indices=places, segment=segment)
