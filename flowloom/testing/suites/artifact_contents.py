"""Rules of artifact services about what is kept of a version."""

from __future__ import annotations

import time
from typing import Any

from google.genai import types

from flowloom.testing.suites.artifact_place import ArtifactRules, bytes_part, text_part
from flowloom.testing.suites.loop import in_loop

LARGE = 5_000_000
PARTS = (
    text_part(""),
    text_part("line\r\nline\n\x00 🧵 名前"),
    bytes_part(b""),
    bytes_part(bytes(range(256)), "image/png"),
    bytes_part(b"\xff\xfe", 'text/html; charset="utf-8"'),
    types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png", display_name="Bild ä.png")),
    types.Part(inline_data=types.Blob(data=b"x"), thought_signature=b"\x00\xff"),
    types.Part(file_data=types.FileData(file_uri="gs://bucket/a b.png", mime_type="image/png", display_name="a b")),
)


class ContentRules(ArtifactRules):
    """What is kept of a version, and what is known about it."""

    @in_loop
    async def test_parts_come_back_whole(self) -> None:
        """Text, bytes and file data come back as they were saved, with type, display name and signature."""
        shelf = await self.shelf()
        await shelf.save("a", *PARTS)
        for version, part in enumerate(PARTS):
            loaded = await shelf.load("a", version)
            assert loaded == part, f"The part {part!r} came back as {loaded!r}."

    @in_loop
    async def test_large_data_comes_back_whole(self) -> None:
        """Megabytes of bytes and of text come back as they were saved."""
        shelf = await self.shelf()
        data, text = bytes(range(250)) * (LARGE // 250), "ä" * (LARGE // 2)
        await shelf.save("a", bytes_part(data), text)
        loaded = await shelf.load("a", 0)
        assert loaded is not None, "Large data was not found."
        assert loaded.inline_data is not None, "Large data came back as something else."
        same = (loaded.inline_data.data == data, await shelf.text("a", 1) == text)
        assert same == (True, True), f"Whether {LARGE} bytes of data, and of text, came back whole: {same}."

    @in_loop
    async def test_a_dict_in_json_form_is_a_part(self) -> None:
        """`save_artifact` takes a part in JSON form (decision 25)."""
        shelf = await self.shelf()
        await shelf.service.save_artifact(
            filename="a", artifact={"inlineData": {"data": "AP8=", "mimeType": "x/y"}}, **shelf.where
        )
        loaded = await shelf.load("a")
        assert loaded == bytes_part(b"\x00\xff", "x/y"), f"A part in JSON form came back as {loaded!r}."

    @in_loop
    async def test_what_is_stored_is_the_stores_own(self) -> None:
        """Changing a part or metadata after it was saved, or loaded, does not change what is stored."""
        shelf = await self.shelf()
        part, metadata = bytes_part(b"1", "image/png"), {"a": [1]}
        await shelf.save("a", part, metadata=metadata)
        _scribble(part, metadata)
        for when in ("was saved", "was loaded"):
            loaded, info = await shelf.load("a"), await shelf.info("a")
            assert loaded is not None, "A file that was saved was not found."
            assert info is not None, "Nothing is known about a file that was saved."
            kept = (loaded, info.custom_metadata)
            expected = (bytes_part(b"1", "image/png"), {"a": [1]})
            assert kept == expected, f"A file was changed after it {when}, and in the store it became {kept}."
            _scribble(loaded, info.custom_metadata)

    @in_loop
    async def test_metadata_is_kept_with_its_version(self) -> None:
        """`custom_metadata` comes back with its version; none is `{}`."""
        shelf = await self.shelf()
        metadata = {"source": {"page": 3, "tags": ["a", None, True, 1.5]}, "名前": "ä"}
        await shelf.save("a", "x", metadata=metadata)
        await shelf.save("a", "y")
        kept = [info.custom_metadata for info in await shelf.infos("a")]
        assert kept == [metadata, {}], f"The metadata {[metadata, {}]} came back as {kept}."
        first = await shelf.info("a", 0)
        assert first is not None, "`get_artifact_version` gave None for a version that is there."
        assert first.custom_metadata == metadata, f"`get_artifact_version` gave the metadata {first.custom_metadata}."

    @in_loop
    async def test_a_version_knows_its_mime_type(self) -> None:
        """`mime_type` is that of the data; of text, `text/plain`."""
        shelf = await self.shelf()
        await shelf.save(
            "a",
            "x",
            bytes_part(b"x", "image/png"),
            types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="audio/pcm")),
        )
        known = [info.mime_type for info in await shelf.infos("a")]
        assert known == ["text/plain", "image/png", "audio/pcm"], f"Text, PNG and PCM are known as {known}."

    @in_loop
    async def test_a_version_has_an_address_of_its_own_and_a_time(self) -> None:
        """`canonical_uri` differs for each version, and is the URI of file data; `create_time` is when it was saved."""
        shelf = await self.shelf()
        before = time.time()
        await shelf.save("a", "x", "y")
        await shelf.save("user:a", "x")
        infos = [*await shelf.infos("a"), *await shelf.infos("user:a")]
        addresses = [info.canonical_uri for info in infos]
        assert len(set(addresses)) == 3, f"Three versions have the addresses {addresses}."
        assert all(addresses), f"A version has no address: {addresses}."
        times = [info.create_time for info in infos]
        in_time = all(before - 1 <= each <= time.time() + 1 for each in times)
        assert in_time, f"Versions that were saved just now, at {before}, were saved at {times}."
        await shelf.save("b", types.Part(file_data=types.FileData(file_uri="gs://b/f")))
        (info,) = await shelf.infos("b")
        assert info.canonical_uri == "gs://b/f", f"File data of gs://b/f has the address {info.canonical_uri}."


def _scribble(part: types.Part, metadata: dict[str, Any]) -> None:
    if part.inline_data is not None:
        part.inline_data.mime_type = "text/plain"
    metadata["a"].append(2)
