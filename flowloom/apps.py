"""`App`: a root agent with what belongs to it."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flowloom.agents import BaseAgent
from flowloom.errors import ConfigurationError, bad_fields
from flowloom.plugins import BasePlugin

_NAME = re.compile(r"[\w-]+")


class App(BaseModel):
    """An application: a name under which sessions are kept, the root agent, and plugins.

    Raises `ConfigurationError` for a name that is not of letters, digits, `_` and `-`, or is `user`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", defer_build=True)

    name: str
    root_agent: BaseAgent
    plugins: list[BasePlugin] = Field(default_factory=list[BasePlugin])

    def __init__(self, **fields: object) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise bad_fields(f"App `{fields.get('name', '')}`", type(self).model_fields, error) from error
        if not _NAME.fullmatch(self.name) or self.name == "user":
            raise ConfigurationError(
                f"`{self.name}` is no name for an app: use letters, digits, `_` and `-`, and not `user`."
            )
