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
    """What can be set of a server; the flags of `flowloom web` have the same names (server spec §1).

    It listens at `host` and `port`; with `auto_create_session`, sessions are made as they are named. `auth` says who
    asks, by default all may. `max_llm_calls` (None: as the run's config says) holds for each run, `max_body_bytes` for
    the body of each request, `max_streams` for the streams that are open at once. `logo_text` and `logo_image_url` are
    what the page shows as its head.
    """

    dev: bool = True
    """Whether it is the development server, with the page and what that asks for."""
    host: str = "127.0.0.1"
    port: int = 8000
    url_prefix: str = ""
    """The path below which a proxy serves it."""
    allow_origins: Sequence[str] = ()
    """Origins of other pages that may use it: literal, `regex:PATTERN`, or `*`."""
    auth: Auth | None = None
    allow_unauthenticated: bool = False
    """Whether it may be bound to a public address without `auth`."""
    auto_create_session: bool = False
    max_llm_calls: int | None = None
    on_busy: Literal["reject", "queue"] = "queue"
    """What a run does whose session has one already."""
    max_body_bytes: int = 32 * 1024 * 1024
    max_streams: int = 1000
    keep_alive: float = 15.0
    """Seconds of silence after which a stream sends a comment."""
    resume_grace: float = 0.0
    """Seconds for which a run goes on when its client is gone."""
    shutdown_grace: float = 10.0
    """Seconds that open runs have when the server is stopped."""
    dev_ui: str | None = None
    """The folder of google-adk's web UI, or `auto`."""
    logo_text: str | None = None
    logo_image_url: str | None = None
    human: bool = False
    """Whether people answer in the place of all models."""


def rules_of(settings: ServerSettings) -> GuardRules:
    """Who may ask a server of these settings. Raises `ConfigurationError` if everybody could, and nobody said so."""
    return GuardRules(
        settings.host,
        allow_origins=settings.allow_origins,
        auth=settings.auth,
        allow_unauthenticated=settings.allow_unauthenticated,
        max_body_bytes=settings.max_body_bytes,
        open_paths=OPEN_PATHS,
    )
