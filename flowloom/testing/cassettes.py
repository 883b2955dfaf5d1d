"""`RecordingModel`: the answers of a model, recorded once and played from then on."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, Self, cast

from google.genai import types
from pydantic import Field, PrivateAttr

from flowloom.errors import ConfigurationError, FlowloomError, ModelError
from flowloom.inspection import RequestDiff, Section, diff
from flowloom.inspection.canonical import Data, Ordinals
from flowloom.inspection.sections import sections_of
from flowloom.inspection.tree import Fields
from flowloom.models import BaseLlm, LlmRequest, LlmResponse
from flowloom.testing.cassette_file import Asked, CassetteError, CassetteFile, Entry, compact, error_data
from flowloom.testing.secrets import SHORTEST, Secrets, without_scheme
from flowloom.wrappers.wrapper import WrapperModel

__all__ = ["CassetteError", "CassetteMissError", "Mode", "RecordingModel"]

Mode = Literal["replay", "record", "rewrite"]


class CassetteMissError(FlowloomError, AssertionError):
    """A request has no recorded answer left.

    Attributes: `path` (the cassette), `line` (of the closest recorded request, None if nothing is recorded), `diff`
    (from that request to the one that was asked, or None).
    """

    def __init__(self, message: str, *, path: Path, line: int | None = None, diff: RequestDiff | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line
        self.diff = diff


class RecordingModel(WrapperModel):
    """Plays the recorded answers of a model, and records them.

    `inner` is the model, or its name; agents see no difference between the two. `path` is the cassette, a JSONL file
    with one call a line (see `cassette_file`). The `mode` is one of:

    - `replay`: plays what is recorded. A request that is not raises `CassetteMissError`, which shows what is different
      from the closest recorded request. `inner` is never asked, and needs no key.
    - `record`: plays what is recorded, asks `inner` for the rest and adds it to the file.
    - `rewrite`: asks `inner` for everything. The first answer replaces the file; until then the old one stays, so
      errors alone do not replace it.

    A call is known by the view of its request (`RequestView`). The same request asked several times plays its
    recorded calls in order, and more often than recorded is a miss. Streamed calls are recorded chunk by chunk;
    whoever does not ask in the way that was recorded gets the complete response alone. A call is written as a whole,
    before its complete response is handed on; one that its consumer breaks off before is not. `ModelError`s of `inner`
    are recorded and raised again; other errors are not recorded. Responses are recorded as JSON: an exception in
    `error` is left out.

    Several models may share a path, for example those of several agents. Each reads the file once, at its first call,
    and has its own place in it. In `rewrite`, a model replaces what was there when it was made, and leaves what others
    have recorded since. Only one process at a time should record.

    **Secrets** are written as `<redacted NAME>`, in requests and responses: what environment variables, attributes of
    `inner` and headers hold whose names say key, token, secret or password; the fields and headers that
    `secrets.Secrets` declares; and what is declared here: values in `secrets`, by the names that stand in their
    places, and names of fields and headers in `secret_fields`. The request is compared without them; and where a
    recorded one has `<redacted NAME>`, anything may stand, so that replaying needs no secrets. A replayed response has
    `<redacted NAME>`, too.

    Raises `ConfigurationError` for one of `secrets` with fewer than 8 characters, which is not looked for.
    """

    path: Path
    mode: Mode = "replay"
    secrets: Mapping[str, str] = Field(default_factory=dict[str, str], repr=False, exclude=True)
    secret_fields: Sequence[str] = ()

    _advice: str = PrivateAttr(
        default='`mode="record"` asks the model for what is missing, `mode="rewrite"` for everything.'
    )
    _file: CassetteFile = PrivateAttr()
    _start: int = PrivateAttr()
    _entries: list[Entry] | None = PrivateAttr(default=None)
    _held: list[str] | None = PrivateAttr(default_factory=list[str])
    """Lines that wait for the first answer of a rewrite; None once the old file is gone."""

    def __init__(
        self,
        inner: BaseLlm | str,
        path: str | Path,
        mode: Mode = "replay",
        *,
        secrets: Mapping[str, str] | None = None,
        secret_fields: Sequence[str] = (),
    ) -> None:
        super().__init__(inner, path=path, mode=mode, secrets=secrets or {}, secret_fields=secret_fields)
        for name, value in self.secrets.items():
            if len(without_scheme(value)) < SHORTEST:
                raise ConfigurationError(
                    f"The secret `{name}` has fewer than {SHORTEST} characters: it would be found in the middle of "
                    f"words. Name the field that holds it in `secret_fields`."
                )
        self._file = CassetteFile.at(self.path)
        self._start = self._file.position

    @classmethod
    def of_test(cls, inner: BaseLlm | str, path: Path, mode: Mode, **declared: Any) -> Self:
        """A model for a test of pytest, whose options choose the `mode`; what is `declared` are `secrets` and
        `secret_fields`.
        """
        model = cls(inner, path, mode, **declared)
        model._advice = (
            "`pytest --cassettes record` asks the model for what is missing, `pytest --cassettes rewrite` for "
            "everything."
        )
        return model

    @property
    def hosted(self) -> bool:
        """False in `replay`; otherwise as `inner`, which may be asked."""
        return self.mode != "replay" and self.inner.hosted

    @property
    def missing_credentials(self) -> str | None:
        """None in `replay`; otherwise as `inner`, which may be asked."""
        return None if self.mode == "replay" else self.inner.missing_credentials

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The recorded answer, or `inner`'s. Raises `CassetteMissError`, `CassetteError`, and what was recorded."""
        sent = llm_request.config.http_options
        secrets = Secrets.known(self.inner, sent, values=self.secrets.items(), fields=self.secret_fields)
        asked = Asked.of(llm_request, secrets)
        entry = self._take(asked)
        if entry is not None:
            for response in entry.play(stream):
                yield response
            return
        if self.mode == "replay":
            raise self._miss(asked, llm_request.model or self.model)
        async with aclosing(self._record(llm_request, stream, asked, secrets)) as responses:
            async for response in responses:
                yield response

    # -- playing ---------------------------------------------------------------------------------

    def _take(self, asked: Asked) -> Entry | None:
        """The next recorded call of this request, which counts as played now."""
        if self.mode == "rewrite":
            return None
        with self._file.lock:
            if self._entries is None:
                self._entries = self._file.read()
            same = [entry for entry in self._entries if entry.key == asked.key]
            if not same:
                same = [entry for entry in self._entries if not entry.played and entry.fits(asked)][:1]
            found = next((entry for entry in same if not entry.played), None)
            if found is not None:
                found.played = True
            return found

    def _miss(self, asked: Asked, model: str) -> CassetteMissError:
        entries = self._entries or []
        same = [str(entry.line) for entry in entries if entry.key == asked.key]
        lines = [f"The cassette {self.path} has no answer of the model `{model}` to this request (`{asked.digest}`)."]
        closest, difference = None, None
        if same:
            lines = [f"The model `{model}` was asked the same more often than is recorded in {self.path}."]
            lines.append(f"Request `{asked.digest}` is on line {' and '.join(same)}, and was played each time.")
        if not entries:
            lines.append("There is no such file." if not self._file.path.exists() else "Nothing is recorded there.")
        else:
            left = [entry for entry in entries if not entry.played]
            if left or not same:
                closest, difference = _closest(left or entries, asked)
                state = "has not been played yet" if left else "has been played already"
                lines.append(f"The closest request is on line {closest.line}, which {state}. From that to this one:")
                lines += [str(each) for each in difference.differences]
        marked = ", in a test marked `allow_model_requests`" if self.inner.hosted else ""
        lines.append(f"If the request is meant to be like that, record it{marked}: {self._advice}")
        return CassetteMissError("\n".join(lines), path=self.path, line=closest and closest.line, diff=difference)

    # -- recording -------------------------------------------------------------------------------

    async def _record(
        self, request: LlmRequest, stream: bool, asked: Asked, secrets: Secrets
    ) -> AsyncGenerator[LlmResponse, None]:
        entry = Entry(request.model or self.model, stream, asked.request, [])
        # a complete response waits for the next one, so that the last is on file before anybody sees it
        waiting: LlmResponse | None = None
        failure: ModelError | None = None
        try:
            async with aclosing(self.inner.generate_content_async(request, stream)) as responses:
                async for response in responses:
                    entry.responses.append(response.to_wire())
                    if waiting is not None:
                        yield waiting
                    waiting = None if response.partial else response
                    if response.partial:
                        yield response
        except ModelError as error:
            failure = error
            entry.error = error_data(error)
        self._write(entry, asked, secrets)
        if waiting is not None:
            yield waiting
        if failure is not None:
            raise failure

    def _write(self, entry: Entry, asked: Asked, secrets: Secrets) -> None:
        line = entry.written(asked.digest, secrets)
        with self._file.lock:
            if self.mode != "rewrite" or self._held is None:
                self._file.append(line)
                return
            self._held.append(line)
            if entry.error is None or not self._file.path.exists() or self._file.has_since(self._start):
                self._file.replace(self._start, self._held)
                self._held = None


def _closest(entries: list[Entry], asked: Asked) -> tuple[Entry, RequestDiff]:
    """The recorded call that has most sections in common with a request, of several the one with the fewest others."""
    wanted = _sections(asked.request)
    marks = _marks(wanted)

    def rank(entry: Entry) -> tuple[int, int]:
        recorded = _marks(_sections(entry.request))
        return (recorded & marks).total(), -((recorded - marks) + (marks - recorded)).total()

    closest = max(entries, key=rank)
    return closest, diff(_Sections(_sections(closest.request)), _Sections(wanted))


class _Sections:
    """What `diff` needs of a request."""

    def __init__(self, sections: list[Section]) -> None:
        self.sections = sections


def _marks(sections: list[Section]) -> Counter[tuple[str, str]]:
    return Counter((section.path, compact(section.value)) for section in sections)


def _sections(data: dict[str, Data]) -> list[Section]:
    """The sections of a request of which there is the data of its view only."""
    config = Fields(types.GenerateContentConfig, data["config"])
    if isinstance(config.get("system_instruction"), dict):
        config["system_instruction"] = Fields(types.Content, config["system_instruction"])
    tools = cast(list[Data], config.get("tools") or [])
    config["tools"] = [Fields(types.Tool, each) if isinstance(each, dict) else each for each in tools]  # pyright: ignore[reportUnknownArgumentType]
    for name in ("response_schema", "response_json_schema"):
        if isinstance(config.get(name), str):  # the name of a type; as a value of its own it would be looked up
            config[name] = {"type": config[name]}
    return sections_of(Fields(LlmRequest, data | {"config": config}), Ordinals())
