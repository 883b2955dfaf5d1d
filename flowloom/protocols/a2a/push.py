"""`StateNotifier`: tells the addresses that callers gave what state a task is in (protocols spec §4, Push)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from flowloom.errors import error_text
from flowloom.protocols.a2a.sdk import TaskArtifactUpdateEvent, httpx, plain
from flowloom.protocols.a2a.server_sdk import (
    PushNotificationConfigStore,
    PushNotificationEvent,
    PushNotificationSender,
    TaskPushNotificationConfig,
    to_stream_response,
)
from flowloom.protocols.addresses import shown_address
from flowloom.protocols.guarded import guarded_transport
from flowloom.protocols.loading import in_thread
from flowloom.protocols.targets import AddressRefusedError, check_target

_log = logging.getLogger("flowloom.a2a")
PAUSES = (0.2, 1.0, 3.0)
"""The seconds before each further try."""
_ANSWER_SECONDS = 10.0
_LAST_SECONDS = 2.0
"""How long notifications have that are under way, when the application ends."""


class StateNotifier(PushNotificationSender):
    """Sends the states of tasks, in their order, to where `configs` say; a target that fails is tried three times more.

    `allow_private` lets them go to addresses that are not of the open internet. No redirect is followed.
    """

    def __init__(self, configs: PushNotificationConfigStore, *, allow_private: bool) -> None:
        self._configs, self._allow_private = configs, allow_private
        self._client: httpx.AsyncClient | None = None
        self._making = asyncio.Lock()
        self._latest: dict[str, asyncio.Task[None]] = {}
        """The latest notification of each task; it waits for the one before."""

    async def is_allowed(self, url: str) -> bool:
        """Whether notifications may go to `url`."""
        try:
            await check_target(url, allow_private=self._allow_private)
        except (AddressRefusedError, OSError) as error:
            _log.warning("No notifications go to %s: %s", shown_address(url), error_text(error))
            return False
        return True

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        """Tell of `event`, if it is about the state of the task `task_id`; returns at once."""
        if isinstance(event, TaskArtifactUpdateEvent):
            return
        targets = await self._configs.get_info_for_dispatch(task_id)
        if not targets:
            return
        body = plain(to_stream_response(event))
        before = self._latest.get(task_id)
        sending = asyncio.create_task(self._send_all(targets, body, before), name="a2a notification")
        self._latest[task_id] = sending
        sending.add_done_callback(lambda done: self._latest.pop(task_id) if self._latest[task_id] is done else None)

    async def close(self) -> None:
        """Send what is under way for two seconds more, and end."""
        left = [*self._latest.values()]
        if left:
            _, late = await asyncio.wait(left, timeout=_LAST_SECONDS)
            for each in late:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _send_all(
        self, targets: list[TaskPushNotificationConfig], body: Any, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait((before,))
        await asyncio.gather(*(self._send(target, body) for target in targets))

    async def _send(self, target: TaskPushNotificationConfig, body: Any) -> None:
        headers: dict[str, str] = {"X-A2A-Notification-Token": target.token} if target.token else {}
        login = target.authentication
        if login.scheme and login.credentials:
            headers["Authorization"] = f"{login.scheme} {login.credentials}"
        client = await self._http()
        for pause in (*PAUSES, None):
            try:
                async with client.stream("POST", target.url, json=body, headers=headers) as answer:
                    pass  # its status says all: the rest is not read
                if answer.status_code < 400 and not answer.is_redirect:
                    return
                why = f"HTTP {answer.status_code}"
            except AddressRefusedError as error:
                _log.warning("A notification does not go to %s: %s", shown_address(target.url), error)
                return
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                why = error_text(error)
            if pause is None:
                _log.warning("A notification could not be sent to %s: %s.", shown_address(target.url), why)
                return
            await asyncio.sleep(pause)

    async def _http(self) -> httpx.AsyncClient:
        async with self._making:
            if self._client is None:
                transport = await in_thread(lambda: guarded_transport(httpx, allow_private=self._allow_private))
                self._client = httpx.AsyncClient(transport=transport, timeout=_ANSWER_SECONDS, follow_redirects=False)
            return self._client
