"""A session in a file: ADK's JSON of one session."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError
from flowloom.sessions import Session

USER_ID = "user"
SESSION_ID = "session"


@dataclass(slots=True)
class SessionFile:
    """The session that a chat goes on with, and where it is saved; without a path it is not saved."""

    path: Path | None
    session: Session

    @classmethod
    def open(cls, path: Path | None, app_name: str) -> SessionFile:
        """Read the file if it is there. Raises `UsageError` for one that cannot be read or written."""
        session = Session(id=SESSION_ID)
        if path is not None and path.exists():
            session = read_session(path)
        session.app_name = session.app_name or app_name
        session.user_id = session.user_id or USER_ID
        opened = cls(path, session)
        opened.save(session)  # what cannot be saved is to be known before anything was said
        return opened

    def save(self, session: Session) -> None:
        """Put `session` in the place of the file's content, at once or not at all."""
        if self.path is None:
            return
        target = self.path.resolve()  # a link stays a link
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with draft.open("w", encoding="utf-8") as file:
                json.dump(session.to_wire(), file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise UsageError(f"The session cannot be saved to `{self.path}`: {error.strerror}.") from error


def read_session(path: Path) -> Session:
    """The session that a file holds. Raises `UsageError`."""
    try:
        return Session.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"The session file `{path}` cannot be read: {error.strerror}.") from error
    except (ValueError, FlowloomError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"`{path}` holds no session in JSON ({first}). Give another file, or the name of a new one."
        ) from error
