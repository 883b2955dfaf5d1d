"""`ServerSettings`: what can be set of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flowloom.asgi import Auth, GuardRules

OPEN_PATHS = ("/health", "/ready", "/", "/ui", "/ui/", "/dev-ui", "/dev-ui/")
"""What needs no `auth`: whether the server lives, and the files of the pages, which ask for the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What can be set of a server; the flags of `flowloom web` have the same names (server spec §1)."""

    dev: bool = True
    """Whether it is the development server, with the page and what that asks for."""
    host: str = "127.0.0.1"
    """The address it listens on."""
    port: int = 8000
    """0 for any that is free."""
    url_prefix: str = ""
    """The path below which a proxy serves it."""
    allow_origins: Sequence[str] = ()
    """Origins of other pages that may use it: literal, `regex:PATTERN`, or `*`."""
    auth: Auth | None = None
    """Who may ask, and what is theirs; None for every client."""
    allow_unauthenticated: bool = False
    """Whether it may be bound to a public address without `auth`."""
    auto_create_session: bool = False
    """Whether a run makes the session that it names."""
    max_llm_calls: int | None = None
    """How many model calls a run may make; None for what the engine allows, 0 or less for any number."""
    on_busy: Literal["reject", "queue"] = "queue"
    """What happens to a second run of a session."""
    max_body_bytes: int = 32 * 1024 * 1024
    """The largest body of a request."""
    max_streams: int = 1000
    """How many streams may be open at once."""
    keep_alive: float = 15.0
    """Seconds of silence after which a stream sends a comment."""
    resume_grace: float = 0.0
    """Seconds for which a run goes on when its client is gone."""
    shutdown_grace: float = 10.0
    """Seconds that open runs have when the server is stopped."""
    dev_ui: str | None = None
    """The folder of google-adk's web UI, or `auto`."""
    logo_text: str | None = None
    """What the web UI has in the place of its name."""
    logo_image_url: str | None = None
    """The picture beside it."""
    models: str | None = None
    """The model that answers for all agents: `human` for people, `offline` for the stand-in; None for their own."""
    default_llm_model: str | None = None
    """The model of agents that have none."""


def rules_of(settings: ServerSettings) -> GuardRules:
    """Who may ask a server of these settings. Raises `ConfigurationError` if every client could, and
    `allow_unauthenticated` is not set."""
    return GuardRules(
        settings.host,
        allow_origins=settings.allow_origins,
        auth=settings.auth,
        allow_unauthenticated=settings.allow_unauthenticated,
        max_body_bytes=settings.max_body_bytes,
        open_paths=OPEN_PATHS,
    )
