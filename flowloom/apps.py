"""`App`: a root agent with what belongs to it."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

from flowloom.agents import BaseAgent
from flowloom.errors import ConfigurationError
from flowloom.plugins import BasePlugin

_NAME = re.compile(r"[\w-]+")


class App(BaseModel):
    """An application: a name under which sessions are kept, the root agent, and plugins.

    Raises `ConfigurationError` for a name that is not of letters, digits, `_` and `-`, or is `user`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str
    root_agent: BaseAgent
    plugins: list[BasePlugin] = Field(default_factory=list[BasePlugin])

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)
        if not _NAME.fullmatch(self.name) or self.name == "user":
            raise ConfigurationError(
                f"`{self.name}` is no name for an app: use letters, digits, `_` and `-`, and not `user`."
            )
