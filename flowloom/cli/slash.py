"""What a person asks of the chat itself: lines that begin with a slash."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from flowloom.cli.conversation import Conversation
from flowloom.cli.display import Display
from flowloom.cli.last_turn import standing
from flowloom.cli.loading import Loaded
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.tables import moment, table
from flowloom.cli.transcript import held, shown_state
from flowloom.cli.usage_error import UsageError
from flowloom.errors import closest_first, quoted_list
from flowloom.inspection.explanation import explain
from flowloom.objects.notebook import count
from flowloom.runner.pending import pending_calls

_EVENTS = 50
"""How many events are listed."""
_NAMES = 10
"""How many sessions are named to choose from."""


def command_in(line: str) -> str | None:
    """What a line asks of the chat; None if it is a message."""
    if line.lower() in ("exit", "quit"):
        return "quit"
    return line[1:] if line.startswith("/") and not line.startswith("//") else None


def message_in(line: str) -> str:
    """What the agent is told with a line: of two slashes, the first one only says that it is no command."""
    return line[1:] if line.startswith("//") else line


class Commands:
    """Carries out commands. Nothing that they show is part of the conversation."""

    def __init__(self, conversation: Conversation, loaded: Loaded, choice: ModelChoice, display: Display) -> None:
        self._conversation = conversation
        self._loaded, self._choice = loaded, choice
        self._display = display
        self.has_left = False
        """Whether the person wants to leave."""

    async def obey(self, text: str) -> None:
        """Carry out a command, given without its slash. Raises `UsageError` for one that cannot be carried out, else
        what the work raises."""
        word, _, argument = text.partition(" ")
        name = "quit" if word.lower() == "exit" else word.lower()
        command = next((each for each in COMMANDS if each.name == name), None)
        argument = argument.strip()
        if command is None:
            known = (f"/{each}" for each in closest_first(name, [each.name for each in COMMANDS]))
            raise UsageError(
                f"There is no command `/{word}`. The commands are {quoted_list(known)}. A message that begins with a "
                f"slash is written with two: `//{text}`."
            )
        if argument and not command.argument:
            raise UsageError(f"`/{word}` takes nothing behind it.")
        await command.run(self, argument)

    async def help(self, _: str) -> None:
        """List the commands."""
        rows = [(f"  /{' '.join(filter(None, (each.name, each.argument)))}", each.about) for each in COMMANDS]
        for line in table([*rows, ("  //TEXT", "say /TEXT: a message that begins with a slash")]):
            self._display.page(line)

    async def state(self, _: str) -> None:
        """Show the state."""
        state = shown_state((await self._conversation.next_session()).state)
        self._display.page(json.dumps(state, ensure_ascii=False, indent=2, default=str))

    async def sessions(self, name: str) -> None:
        """List the user's sessions, or go on with the one of that name."""
        current = self._conversation.session_id
        stored = await self._conversation.others()
        names = [each.id for each in stored]
        if not name:
            rows = [("*" if each.id == current else "", each.id, moment(each.last_update_time)) for each in stored]
            if current not in names:
                rows.append(("*", current, "new"))
            for line in table([("", "SESSION", "LAST USED"), *rows]):
                self._display.page(line)
        elif name in names:
            self._conversation.switch(name)
        else:
            known = quoted_list(closest_first(name, names)[:_NAMES])
            raise UsageError(
                f"There is no session `{name}`. There are: {known}{' and others' if len(names) > _NAMES else ''}."
            )

    async def explain(self, message: str) -> None:
        """Show the request that comes next."""
        runner = self._conversation.runner
        subject, options = self._loaded.subject(self._loaded.agent, [*self._choice.plugins, *self._loaded.plugins])
        assembly = await explain(
            subject,
            message or None,
            session=await self._conversation.next_session(),
            artifact_service=runner.artifact_service,
            memory_service=runner.memory_service,
            **options,
        )
        self._display.page(str(assembly))

    async def events(self, _: str) -> None:
        """List the latest events."""
        session = await self._conversation.session()
        if session is None or not session.events:
            self._display.notice("The session has no events yet.")
            return
        waiting = pending_calls(standing(session))
        left = len(session.events) - _EVENTS
        if left > 0:
            name = self._conversation.session_id
            self._display.notice(f"{count(left, 'earlier event')}: `flowloom sessions show {name} --ids` has them all.")
        for event in session.events[max(left, 0) :]:
            self._display.page(f"{event.id}  {event.author}: {held(event, waiting)}")

    async def model(self, name: str) -> None:
        """Tell which model answers, or let another one."""
        self._display.page(self._choice.take(name) if name else self._choice.told())

    async def quit(self, _: str) -> None:
        """Leave."""
        self.has_left = True


@dataclass(frozen=True, slots=True)
class Command:
    """What `/name` does; `argument` is what may stand behind it."""

    name: str
    argument: str
    about: str
    run: Callable[[Commands, str], Awaitable[None]]


COMMANDS = (
    Command("help", "", "this list", Commands.help),
    Command("state", "", "the state: of the session, of the user (user:), of the app (app:)", Commands.state),
    Command("sessions", "[NAME]", "your sessions in the store; go on with another one", Commands.sessions),
    Command("explain", "[MESSAGE]", "the next request to the model, and what wrote which part of it", Commands.explain),
    Command("events", "", "the events of the session: id, author, what they hold, what waits", Commands.events),
    Command("model", "[NAME]", "the model that answers; let another one answer from now on", Commands.model),
    Command("quit", "", "leave, as do /exit, exit, quit and Ctrl-D; the session is kept", Commands.quit),
)
