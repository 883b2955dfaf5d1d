"""`TidyTaskStore`: tasks as they are kept: the pieces of a text as one, and strangers' tasks out of sight."""

from __future__ import annotations

from collections.abc import Iterable

from flowloom.protocols.a2a.sdk import (
    InvalidParamsError,
    ListTasksRequest,
    ListTasksResponse,
    Part,
    Task,
)
from flowloom.protocols.a2a.server_sdk import (
    ServerCallContext,
    TaskStore,
)


class TidyTaskStore(TaskStore):
    """Keeps tasks in another store: the text that an artifact was given piece by piece is one part of it.

    Who is not known by name may list the tasks of a context that they know, and no others.
    """

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Keep a task."""
        for artifact in task.artifacts:
            if len(artifact.parts) > 1:
                joined = _joined(artifact.parts)
                del artifact.parts[:]
                artifact.parts.extend(joined)
        await self._store.save(task, context)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """The task `task_id` of the caller; None if they have none."""
        return await self._store.get(task_id, context)

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """The tasks of the caller. Raises `InvalidParamsError` if it is not known who that is, nor a context named."""
        if not context.user.user_name and not params.context_id:
            raise InvalidParamsError("Without a login, name the context whose tasks are wanted (`contextId`).")
        return await self._store.list(params, context)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Forget a task."""
        await self._store.delete(task_id, context)


def _joined(parts: Iterable[Part]) -> list[Part]:
    """Parts with plain texts that follow each other as one."""
    joined: list[Part] = []
    for part in parts:
        is_text = part.WhichOneof("content") == "text" and not part.HasField("metadata")
        if is_text and joined and joined[-1].WhichOneof("content") == "text" and not joined[-1].HasField("metadata"):
            joined[-1] = Part(text=joined[-1].text + part.text, media_type=joined[-1].media_type)
        else:
            joined.append(part)
    return joined
