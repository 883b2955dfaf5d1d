"""The keys of effects, and the effects of a run to which none are given (see `Effects`)."""

from __future__ import annotations

from typing import NamedTuple

from flowloom.context.protocols import Effects


class EffectKey(NamedTuple):
    """Names one effect within an invocation: `<agent path>/<step>/<kind>/<n>`. Stable public API.

    `path` is the agent's place in the tree, names joined by dots; `step` counts the agent's model steps in the
    invocation, from 0; `kind` is `model`, `tool`, `now`, `id` or `sleep`; `n` counts the effects of that kind in
    the step, from 0. For a tool it is the position of its call among those of the step; `attempt` counts the tries of
    that call, from 0, and ends the key from the second try on. What a call does itself (the agents that it runs, its
    ids and pauses) has keys below the call's, so that they do not depend on which of several calls is the quickest.
    """

    path: str
    step: int
    kind: str
    n: int
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.path}/{self.step}/{self.kind}/{self.n}{f'/{self.attempt}' if self.attempt else ''}"


class DirectEffects(Effects):
    """The default: does the thing."""


DIRECT_EFFECTS = DirectEffects()
