"""What callbacks, tools and instruction providers are given: `ReadonlyContext` and `Context`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from google.genai import types

from flowloom import auth
from flowloom.artifacts import BaseArtifactService
from flowloom.context.invocation import InvocationContext
from flowloom.context.run_config import RunConfig
from flowloom.errors import ContextError, InputRequiredError
from flowloom.events.actions import EventActions, InputRequest, ToolConfirmation, no_actions
from flowloom.events.event import Event
from flowloom.events.json_data import as_json, keep_json_actions
from flowloom.memory import BaseMemoryService
from flowloom.schemas.validator import validator_of
from flowloom.sessions.session import Session
from flowloom.sessions.state import State

if TYPE_CHECKING:
    from flowloom.auth import AuthConfig, AuthCredential
    from flowloom.memory import MemoryEntry, SearchMemoryResponse

_T = TypeVar("_T")


class ReadonlyContext:
    """What user code may look at: which agent runs, where, and the state."""

    __slots__ = ("_invocation_context",)

    def __init__(self, invocation_context: InvocationContext) -> None:
        self._invocation_context = invocation_context

    @property
    def invocation_context(self) -> InvocationContext:
        """The agent's place in the run."""
        return self._invocation_context

    @property
    def user_content(self) -> types.Content | None:
        """The message that started the run."""
        return self._invocation_context.user_content

    @property
    def invocation_id(self) -> str:
        """The id of the run."""
        return self._invocation_context.invocation_id

    @property
    def agent_name(self) -> str:
        """The name of the agent that runs."""
        return self._invocation_context.agent.name

    @property
    def branch(self) -> str | None:
        """The parallel branch that the agent runs on."""
        return self._invocation_context.branch

    @property
    def state(self) -> Mapping[str, Any] | State:
        """The session's state, to be read."""
        return MappingProxyType(self._invocation_context.session.state)

    @property
    def session(self) -> Session:
        """The session; change it through `state` and events only."""
        return self._invocation_context.session

    @property
    def user_id(self) -> str:
        """The user of the session."""
        return self._invocation_context.user_id

    @property
    def run_config(self) -> RunConfig:
        """The settings of the run."""
        return self._invocation_context.run_config

    @property
    def custom_metadata(self) -> dict[str, Any]:
        """The run's own metadata."""
        return self._invocation_context.run_config.custom_metadata or {}


class Context(ReadonlyContext):
    """What callbacks and tools work with: state and artifacts to write, and a tool call's own facts.

    ADK's `CallbackContext` and `ToolContext` are this class. What is written is recorded in `actions`, which the engine
    puts on the event that the callback or tool belongs to.

    `function_call_id` is that of the tool call, None in a callback; `event_actions` are those that are written to, by
    default new ones; `tool_confirmation` is what a person decided about the call, None if nothing was asked;
    `call_index` is the call's position among those of its step, from 0.
    """

    __slots__ = (
        "_actions",
        "_asked",
        "_state",
        "call_index",
        "display",
        "files",
        "function_call_id",
        "metadata",
        "tool_confirmation",
    )

    def __init__(
        self,
        invocation_context: InvocationContext,
        *,
        function_call_id: str | None = None,
        event_actions: EventActions | None = None,
        tool_confirmation: ToolConfirmation | None = None,
        call_index: int = 0,
    ) -> None:
        super().__init__(invocation_context)
        self._actions = no_actions() if event_actions is None else event_actions
        self._state: State | None = None
        self._asked = 0
        self.function_call_id = function_call_id
        """The id of the call that a tool answers; None outside tools."""
        self.tool_confirmation = tool_confirmation
        """A person's decision about this call, if one was asked for and given."""
        self.call_index = call_index
        """The position of the call among those of the step."""
        self.display = False
        """Whether the tool's result is shown to the user, too, as a text beside it."""
        self.files: list[types.FunctionResponsePart] | None = None
        """Images and other files that the model is given with the tool's result."""
        self.metadata: dict[str, Any] | None = None
        """What the event of the result keeps about it, by call id under `tool_metadata`; no model sees it."""

    @property
    def inside(self) -> InvocationContext:
        """The place of what this call does itself (see `EffectKey`)."""
        return self._invocation_context.inside_call(self.call_index)

    def get_invocation_context(self) -> InvocationContext:
        """The agent's place in the run."""
        return self._invocation_context

    @property
    def idempotency_key(self) -> str:
        """What to pass to a service that is called, so that it does once what this call asks for, however often a fault
        has the call made again: the same in every attempt, in every process. Empty outside a tool.
        """
        call_id = self.function_call_id
        return f"{self.invocation_id}/{call_id}" if call_id else ""

    @property
    def state(self) -> State:
        """The session's state, to be read and written."""
        if self._state is None:
            self._state = State(self._invocation_context.session.state, self._actions.state_delta)
        return self._state

    @property
    def actions(self) -> EventActions:
        """What the event will do: state changes, transfer, escalation, skipped summaries."""
        return self._actions

    def collect_actions(self) -> EventActions:
        """The actions, state that was changed in place included, as JSON data. The engine calls this when user code is
        done. Raises `JsonDataError`; what cannot be kept is taken out."""
        if self._state is not None:
            self._state.record_changes()
        keep_json_actions(self._actions)
        return self._actions

    # -- artifacts --------------------------------------------------------------------------------

    async def save_artifact(
        self, filename: str, artifact: types.Part, custom_metadata: dict[str, Any] | None = None
    ) -> int:
        """Save `artifact` as `filename`, the user's if that begins with `user:`; returns its version (the first is 0).

        `custom_metadata` is kept beside it. Raises `ContextError` without an artifact service, `InputValidationError`
        for a name or a part that cannot be kept.
        """
        version = await self._artifacts("save").save_artifact(
            **self._session_key, filename=filename, artifact=artifact, custom_metadata=custom_metadata
        )
        self._actions.artifact_delta[filename] = version
        return version

    async def load_artifact(self, filename: str, version: int | None = None) -> types.Part | None:
        """The latest version of the file `filename`, or the given `version` (counted from 0); None if there is none.
        Raises `ContextError` without an artifact service.
        """
        service = self._artifacts("load")
        return await service.load_artifact(**self._session_key, filename=filename, version=version)

    async def list_artifacts(self) -> list[str]:
        """The names of all files of the session and of its user. Raises `ContextError` without an artifact service."""
        return await self._artifacts("list").list_artifact_keys(**self._session_key)

    @property
    def _session_key(self) -> dict[str, str]:
        """The session whose artifacts and events a service is asked for."""
        session = self.session
        return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}

    def _artifacts(self, verb: str) -> BaseArtifactService:
        return _given(self._invocation_context.artifact_service, "artifact", f"{verb} artifacts")

    # -- memory -----------------------------------------------------------------------------------

    async def search_memory(self, query: str) -> SearchMemoryResponse:
        """What the memory service holds for this user that fits `query`. Raises `ContextError` without one, as all that
        concerns memory does."""
        return await self._memory().search_memory(
            app_name=self.session.app_name, user_id=self.session.user_id, query=query
        )

    async def add_session_to_memory(self) -> None:
        """Let the memory service remember this session."""
        await self._memory().add_session_to_memory(self.session)

    async def add_events_to_memory(self, events: list[Event], custom_metadata: dict[str, Any] | None = None) -> None:
        """Let the memory service remember some `events`, with `custom_metadata` beside each."""
        await self._memory().add_events_to_memory(**self._session_key, events=events, custom_metadata=custom_metadata)

    async def add_memory(self, memories: list[MemoryEntry], custom_metadata: dict[str, Any] | None = None) -> None:
        """Let the memory service remember `memories` of your own, with `custom_metadata` beside each."""
        await self._memory().add_memory(
            app_name=self.session.app_name,
            user_id=self.session.user_id,
            memories=memories,
            custom_metadata=custom_metadata,
        )

    def _memory(self) -> BaseMemoryService:
        return _given(self._invocation_context.memory_service, "memory", "use memory")

    # -- while a call runs ------------------------------------------------------------------------

    def report_progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell those who follow the run how far this call is: `done` of a `total`, if that is known, and in words.

        `message` is for people: no model sees it, and it is not stored. The run stream has it as `ToolCallProgress`.
        Of reports that come faster than they are read, those between are left out. Any thread may call it. Outside of
        tool calls, and where the run is not followed, nothing happens.
        """
        box = self._invocation_context.progress_box
        if box is not None and self.function_call_id:
            box(self, {"call_id": self.function_call_id, "progress": done, "total": total, "message": message})

    # -- a person in the loop ---------------------------------------------------------------------

    def request_confirmation(self, *, hint: str | None = None, payload: Any | None = None) -> None:
        """Ask a person to decide about this tool call; the run pauses after this step (spec §15.3).

        `hint` is what the person is told. When the decision is there, the tool runs again with `tool_confirmation` set.
        Raises `ContextError` outside a tool, `JsonDataError` for a `payload` that JSON cannot hold.
        """
        if not self.function_call_id:
            raise ContextError("Only a tool can ask for confirmation: this context has no function call id.")
        self._actions.requested_tool_confirmations[self.function_call_id] = ToolConfirmation(
            hint=hint or "", payload=as_json(payload)
        )
        self._actions.skip_summarization = True

    def request_input(
        self, message: str, *, response_schema: dict[str, Any] | None = None, payload: Any | None = None
    ) -> Any:
        """Ask a person for input, by `message`; the run pauses after this step, and the tool runs again when the answer
        is there.

        The second time the answer is returned. A tool that asks several times gets the earlier answers first, so it
        should do nothing that counts before its last question. `response_schema` is a JSON schema that the answer has
        to fit, or the person is asked again. Raises `ContextError` outside a tool, `JsonDataError` for a `payload` that
        JSON cannot hold, `ConfigurationError` for a schema that cannot be checked, and what stops the tool until then.
        """
        call_id = self.function_call_id
        if not call_id:
            raise ContextError("Only a tool can ask for input: this context has no function call id.")
        given = (self._invocation_context.run.inputs or {}).get(call_id, ())
        if self._asked < len(given):
            self._asked += 1
            return given[self._asked - 1]
        schema = as_json(response_schema)
        if schema:
            validator_of(schema)
        self._actions.requested_inputs = {
            call_id: InputRequest(message=message, payload=as_json(payload), response_schema=schema)
        }
        self._actions.skip_summarization = True
        raise InputRequiredError(f"The call waits for a person's answer to: {message}")

    # -- credentials ------------------------------------------------------------------------------

    def request_credential(self, auth_config: AuthConfig) -> None:
        """Ask the user for a credential; the run pauses after this step, and then the tool runs again.

        The answer is there for `load_credential` then. Raises `ContextError` outside a tool, or if the authorization
        server's addresses are still to be found out, which `load_credential` does.
        """
        if not self.function_call_id:
            raise ContextError("Only a tool can ask for a credential: this context has no function call id.")
        ctx = self._invocation_context
        asked = auth.Access(auth_config).request(ctx.credential_service, ctx.effects.new_id(self.inside))
        self._actions.requested_auth_configs[self.function_call_id] = asked.to_wire()

    async def load_credential(
        self, auth_config: AuthConfig, *, refused: AuthCredential | None = None
    ) -> AuthCredential | None:
        """The credential that `auth_config` describes, ready for use; None if the user has to be asked.

        It is what the user has just given (a code is exchanged for tokens), or what the credential service keeps
        (refreshed if it has expired). `refused` is what this gave before, and the service did not take: its token
        counts as expired. Raises `CredentialError` if the user refused, or the exchange failed.
        """
        ctx = self._invocation_context
        call_id, service = self.function_call_id, ctx.credential_service
        return await auth.Access(auth_config).credential(
            ctx.run.keyring, self, service, call_id, lambda: ctx.effects.now(self.inside), refused
        )

    async def save_credential(self, auth_config: AuthConfig) -> None:
        """Keep the `exchanged_auth_credential` of `auth_config` for the user.

        Raises `ContextError` without a credential service.
        """
        service = _given(self._invocation_context.credential_service, "credential", "save a credential")
        await service.save_credential(auth_config, self)

    def get_auth_response(self, auth_config: AuthConfig) -> AuthCredential | None:
        """What the user gave in this run, for functions that cannot await; None if nothing.

        A code is exchanged while the caller waits: use `load_credential` where you can. Raises `CredentialError` if the
        user refused, or the exchange failed.
        """
        ctx = self._invocation_context
        return auth.Access(auth_config).response(ctx.run.keyring, ctx.credential_service, self.function_call_id)


def _given(service: _T | None, kind: str, what: str) -> _T:
    """A service of the run. Raises `ContextError` for what cannot be done without it."""
    if service is None:
        raise ContextError(f"Cannot {what}: the runner was given no {kind} service.")
    return service


CallbackContext = Context
ToolContext = Context
