"""A session in a file: ADK's JSON of one session."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError
from flowloom.events import Event, EventActions
from flowloom.sessions import Session


def read_session(path: Path) -> Session:
    """The session that a file holds. Raises `UsageError`."""
    try:
        return Session.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"The session file `{path}` cannot be read: {error.strerror}.") from error
    except (ValueError, AttributeError, FlowloomError) as error:  # google-genai, of an enum that is a number
        first = str(error).splitlines()[0]
        raise UsageError(f"`{path}` holds no session in JSON ({first}). Give a file of `sessions export`.") from error


def session_text(session: Session) -> str:
    """A session as the text of such a file. It is the same for the same session, whatever store it comes from."""
    data = session.to_wire()
    for index, event in enumerate(data["events"]):
        data["events"][index] = event = _in_order(event, Event)
        if "actions" in event:
            event["actions"] = _in_order(event["actions"], EventActions)
    return json.dumps(data, ensure_ascii=False, indent=1)


def _in_order(data: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The fields in the order that the model declares them in, whoever made it, and then others."""
    names = [field.serialization_alias or name for name, field in model.model_fields.items()]
    return {name: data[name] for name in names if name in data} | data


def write_session(path: Path, session: Session) -> None:
    """Put a session in the place of the file's content, at once or not at all. Raises `UsageError`."""
    target = path.resolve()  # a link stays a link
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(session_text(session))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"The session cannot be written to `{path}`: {error.strerror}.") from error
