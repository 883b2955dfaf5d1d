"""`flowloom bench`: what each processor of an agent costs, and whether that is within budget."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowloom.cli.explain import agent_named, state_of
from flowloom.cli.loading import Loaded
from flowloom.cli.options import USER_ID
from flowloom.cli.stores import session_of
from flowloom.cli.usage_error import UsageError
from flowloom.errors import InputValidationError, closest_first, quoted_list
from flowloom.inspection.explanation import Said
from flowloom.inspection.profile import ProcessorProfile, measure
from flowloom.runner.runner import InMemoryRunner

TURN = "turn"
"""The name under which a budget holds the whole turn."""


@dataclass(slots=True)
class Budget:
    """The most that a processor may cost."""

    name: str
    most: float

    @classmethod
    def parse(cls, option: str, entries: Iterable[str]) -> list[Budget]:
        """Entries such as `contents=200`. Raises `UsageError`."""
        budgets: list[Budget] = []
        for entry in entries:
            name, _, value = entry.partition("=")
            try:
                budgets.append(cls(name, float(value)))
            except ValueError:
                raise UsageError(
                    f"`{option} {entry}` sets no budget. Write NAME=NUMBER, such as `{option} contents=200`."
                ) from None
        return budgets


@dataclass(slots=True)
class Bench:
    """What is to be measured, as it was given on the command line."""

    message: str
    agent: str | None = None
    session: str | None = None
    state: Sequence[str] = ()
    turns: int = 0
    """How many exchanges of words the conversation begins with."""
    repeat: int = 200
    store: str | None = None
    user: str = USER_ID

    def profile(self, loaded: Loaded) -> ProcessorProfile:
        """The measurement. Raises `UsageError` for options that cannot be used, else what the run raises."""
        agent = agent_named(loaded.agent, self.agent)
        subject, settings = loaded.subject(agent, loaded.plugins)
        options: dict[str, Any] = {
            "state": state_of(self.state),
            "history": small_talk(agent.name, self.turns),
            "repeat": self.repeat,
            **settings,
        }

        async def answer() -> ProcessorProfile:
            if self.session is not None:
                session = await session_of(self.session, self.store, loaded.name, self.user)
                session.app_name, session.user_id = session.app_name or loaded.name, session.user_id or self.user
                options["session"] = session
            try:
                return await measure(subject, self.message, **options)
            finally:  # what toolsets and plugins hold open
                await InMemoryRunner(loaded.agent, app_name=loaded.name, plugins=loaded.plugins).close()

        return asyncio.run(answer())


@dataclass(slots=True)
class Verdict:
    """What a profile is held against."""

    max_us: list[Budget]
    max_ratio: list[Budget]
    baseline: Path | None = None

    def read_baseline(self) -> ProcessorProfile | None:
        """The stored profile. Raises `UsageError` if it is not there, or a ratio is asked for without it."""
        if self.baseline is None:
            if self.max_ratio:
                raise UsageError("`--max-ratio` needs a profile to be held against. Give `--baseline FILE` as well.")
            return None
        try:
            return ProcessorProfile.load(self.baseline)
        except OSError as error:
            raise UsageError(f"The profile `{self.baseline}` cannot be read: {error.strerror}.") from error
        except InputValidationError as error:
            raise UsageError(str(error)) from error

    def broken(self, profile: ProcessorProfile, baseline: ProcessorProfile | None) -> Iterator[str]:
        """A line for each budget that is not kept."""
        costs = {each.name: each.median for each in profile} | {TURN: profile.turn}
        for budget in self.max_us:
            found = _known(costs, budget) * 1e6
            if found > budget.most:
                yield f"{budget.name} takes {found:,.1f} µs, more than {budget.most:,g} µs."
        if baseline is None:
            return
        ratios = {each.name: each.ratio for each in profile.compare(baseline)}
        for budget in self.max_ratio:
            found = _known(ratios, budget)
            if found > budget.most:
                yield f"{budget.name} costs {found:.2f} times what it did, more than {budget.most:g} times."


def save_profile(profile: ProcessorProfile, path: Path) -> None:
    """Store a profile. Raises `UsageError` if the file cannot be written."""
    try:
        profile.save(path)
    except OSError as error:
        raise UsageError(f"The profile cannot be saved to `{path}`: {error.strerror}.") from error


def small_talk(agent: str, turns: int) -> list[Said]:
    """A conversation of so many exchanges."""
    return [
        said
        for number in range(turns)
        for said in (("user", f"Question {number}, in some words."), (agent, f"Answer {number}, in some words."))
    ]


def compared(profile: ProcessorProfile, baseline: ProcessorProfile) -> str:
    """A table of what has changed since the stored profile."""
    lines = ["Beside the stored profile, the speed of the machines taken out:"]
    width = max((len(each.name) for each in profile), default=0)
    for change in profile.compare(baseline):
        before, after = change.before * 1e6, change.after * 1e6
        lines.append(f"  {change.name:<{width}}  {before:>9,.1f} -> {after:>9,.1f} µs  {change.ratio:>6.2f} ×")
    return "\n".join(lines)


def as_json(profile: ProcessorProfile, baseline: ProcessorProfile | None) -> str:
    """The profile as data, with the ratios to the stored one if there is one."""
    data = profile.to_dict()
    if baseline is not None:
        data["ratios"] = {each.name: each.ratio for each in profile.compare(baseline)}
    return json.dumps(data, indent=2)


def _known(values: dict[str, float], budget: Budget) -> float:
    if budget.name not in values:
        names = quoted_list(closest_first(budget.name, list(values)))
        raise UsageError(f"No processor `{budget.name}` ran, so its budget means nothing. There are: {names}.")
    return values[budget.name]
