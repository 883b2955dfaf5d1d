"""`flowloom explain`: the request that an agent would send, on the terminal or in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowloom.agents import BaseAgent
from flowloom.cli.loading import Loaded
from flowloom.cli.model_choice import model_named
from flowloom.cli.options import USER_ID
from flowloom.cli.stores import session_of
from flowloom.cli.usage_error import UsageError
from flowloom.errors import closest_first, quoted_list
from flowloom.inspection.assembly import Assembly
from flowloom.inspection.explanation import explain
from flowloom.plugins import ModelOverride
from flowloom.runner.routing import agents_of
from flowloom.runner.runner import InMemoryRunner
from flowloom.sessions import Session


@dataclass(slots=True)
class Question:
    """What is to be explained, as it was given on the command line."""

    message: str | None = None
    agent: str | None = None
    session: str | None = None
    state: Sequence[str] = ()
    """Entries such as `city="Rome"`."""
    model: str | None = None
    store: str | None = None
    user: str = USER_ID

    def assembly(self, loaded: Loaded) -> Assembly:
        """The answer. Raises `UsageError` for options that cannot be used, else what the run raises."""
        agent = agent_named(loaded.agent, self.agent)
        plugins = list(loaded.plugins)
        if self.model is not None:
            plugins.insert(0, ModelOverride(model_named(self.model)))
        state = state_of(self.state)

        async def answer() -> Assembly:
            session = Session(id="explained")
            if self.session is not None:
                session = await session_of(self.session, self.store, loaded.name, self.user)
            session.app_name = session.app_name or loaded.name
            session.user_id = session.user_id or self.user
            try:
                subject, options = loaded.subject(agent, plugins)
                return await explain(subject, self.message, session=session, state=state, **options)
            finally:  # what toolsets and plugins hold open
                await InMemoryRunner(loaded.agent, app_name=loaded.name, plugins=loaded.plugins).close()

        return asyncio.run(answer())


@dataclass(slots=True)
class Pages:
    """Where an assembly is written: as HTML to a file, as text or JSON to a file or to what is printed."""

    json: bool = False
    html: Path | None = None
    output: Path | None = None

    def check(self) -> None:
        """Raise `UsageError` if the files cannot be written."""
        if self.html is not None and self.output is not None and self.html.resolve() == self.output.resolve():
            raise UsageError(f"`--html` and `--output` both name `{self.html}`. Give two files.")
        for path in (self.html, self.output):
            if path is not None and (path.is_dir() or not path.resolve().parent.is_dir()):
                reason = "it is a folder" if path.is_dir() else f"there is no folder `{path.parent}`"
                raise UsageError(f"`{path}` cannot be written: {reason}.")

    def write(self, assembly: Assembly) -> Iterator[Path]:
        """Write the files; yields each that was written. Raises `UsageError`."""
        if self.html is not None:
            yield _write(self.html, assembly.to_html())
        if self.output is not None:
            yield _write(self.output, self._page(assembly))

    def printed(self, assembly: Assembly) -> str | None:
        """What is to be printed; None if files were asked for instead."""
        if self.output is not None or (self.html is not None and not self.json):
            return None
        return self._page(assembly)

    def _page(self, assembly: Assembly) -> str:
        return json.dumps(assembly.to_dict(), ensure_ascii=False, indent=2) if self.json else str(assembly)


def agent_named(root: BaseAgent, name: str | None) -> BaseAgent:
    """The agent of that name in the tree, the root if there is no name. Raises `UsageError`, which names the others."""
    if name is None:
        return root
    found = root.find_agent(name)
    if found is None:
        known = closest_first(name, [agent.name for agent in agents_of(root)])
        raise UsageError(f"There is no agent `{name}`. The agents are {quoted_list(known)}.")
    return found


def state_of(entries: Iterable[str]) -> dict[str, Any]:
    """Entries such as `city=Rome` or `nights=3` as a dict; what is no JSON is a text. Raises `UsageError`."""
    state: dict[str, Any] = {}
    for entry in entries:
        key, separator, value = entry.partition("=")
        if not separator or not key:
            raise UsageError(f"`--state {entry}` sets nothing. Write KEY=JSON, such as `--state nights=3`.")
        try:
            state[key] = json.loads(value)
        except ValueError as error:
            if value.lstrip()[:1] in ("{", "[", '"'):
                raise UsageError(f"The value of `--state {entry}` is no JSON: {error}.") from error
            state[key] = value
    return state


def _write(path: Path, text: str) -> Path:
    try:
        with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text + "\n")
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}.") from error
    return path
