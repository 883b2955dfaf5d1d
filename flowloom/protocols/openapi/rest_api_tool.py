"""`RestApiTool`: one operation of a REST API as a tool (protocols spec §3)."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.auth.config import AuthConfig
from flowloom.auth.credentials import AuthCredential
from flowloom.auth.fields import secrets_in, without
from flowloom.auth.schemes import AuthScheme
from flowloom.context import Context, ReadonlyContext
from flowloom.errors import (
    ConfigurationError,
    ConfirmationRejectedError,
    ConfirmationRequiredError,
    CredentialError,
    FlowloomError,
    ToolArgumentsError,
    ToolError,
    error_text,
)
from flowloom.protocols.addresses import origin_of
from flowloom.protocols.loading import in_thread
from flowloom.protocols.names import fit_name
from flowloom.protocols.openapi.answers import error_of, result_of
from flowloom.protocols.openapi.operations import REPEATABLE, SAFE, Operation, OperationReader
from flowloom.protocols.openapi.schemas import DescriptionError, Place, Schemas
from flowloom.protocols.openapi.security import Granted, Pending, Security
from flowloom.protocols.openapi.sending import MAX_BODY_BYTES, Outgoing, Redirects, answered, outgoing
from flowloom.protocols.openapi.servers import server_of
from flowloom.protocols.results import MAX_RESULT_BYTES
from flowloom.protocols.spans import protocol_span
from flowloom.protocols.targets import AddressRefusedError
from flowloom.protocols.words import cleaned
from flowloom.tools.authenticated import PENDING
from flowloom.tools.base_tool import BaseTool

_log = logging.getLogger("flowloom.openapi")

HeaderProvider = Callable[[ReadonlyContext], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
"""Headers for each request, for the run that it is made in."""
ClientFactory = Callable[[], Any]
"""Makes an `AsyncClient` of `httpx2` or `httpx`."""
Verify = bool | str | ssl.SSLContext
RequireConfirmation = bool | Literal["unsafe"] | Callable[..., Any]


class OperationEndpoint(BaseModel):
    """Where an operation is: the address of its server, its path with `{name}` for parameters, and its method."""

    base_url: str = ""
    path: str
    method: str


@dataclass(slots=True)
class Service:
    """What the operations of one API share: how they are reached, and what is told of their results.

    Raises `ConfigurationError` for options that are none.
    """

    clients: Callable[[], Awaitable[Any]]
    """The HTTP clients, loaded when they are needed."""
    header_provider: HeaderProvider | None = None
    timeout: float = 30.0
    """Seconds for one call, with all its redirects."""
    max_result_bytes: int = MAX_RESULT_BYTES
    require_confirmation: RequireConfirmation = False
    redirects: Redirects = "same-origin"

    def __post_init__(self) -> None:
        if not isinstance(self.timeout, int | float) or not self.timeout > 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`timeout` is {self.timeout!r}, but must be more than 0 seconds.")
        if self.redirects not in ("same-origin", True, False):
            raise ConfigurationError(f"`follow_redirects` is {self.redirects!r}, but must be 'same-origin' or a bool.")
        asks = self.require_confirmation
        if not (isinstance(asks, bool) or asks == "unsafe" or callable(asks)):
            raise ConfigurationError(
                f"`require_confirmation` is {asks!r}, but must be 'unsafe', a bool, or a predicate over the arguments."
            )


async def load_clients(verify: Verify, factory: ClientFactory | None, allow_private: bool) -> Any:
    """The HTTP clients of a service; their library is loaded in a thread."""
    module = await in_thread(partial(import_module, "flowloom.protocols.openapi.clients"))
    return module.Clients(allow_private=allow_private, verify=verify, factory=factory)


class RestApiTool(BaseTool):
    """An operation of a REST API, described by OpenAPI. `OpenAPIToolset` makes one of each operation of a document.

    `name` and `description` are what the model knows it by. `endpoint` says where it is: an `OperationEndpoint`, or its
    fields as a dict or JSON text. `operation` is the Operation Object of OpenAPI 3.1, as a dict, as JSON text, or as
    another library's model of it. `auth_scheme` and `auth_credential` are the security scheme of the service, and the
    credential for it; without a credential the user is asked, and what is given is kept under `credential_key`.

    `ssl_verify`, `header_provider`, `httpx_client_factory`, `allow_private_network_access`, `timeout`,
    `max_result_bytes`, `require_confirmation` and `follow_redirects` are as for `OpenAPIToolset`. Raises
    `ConfigurationError` for an operation that cannot be described.

    A tool that is made by itself holds connections: `close` gives them back.
    """

    def __init__(
        self,
        name: str,
        description: str,
        endpoint: OperationEndpoint | Mapping[str, Any] | str,
        operation: Operation | Mapping[str, Any] | BaseModel | str,
        auth_scheme: AuthScheme | Mapping[str, Any] | str | None = None,
        auth_credential: AuthCredential | Mapping[str, Any] | str | None = None,
        *,
        ssl_verify: Verify | None = None,
        header_provider: HeaderProvider | None = None,
        httpx_client_factory: ClientFactory | None = None,
        credential_key: str | None = None,
        preserve_property_names: bool = False,
        allow_private_network_access: bool = False,
        timeout: float = 30.0,
        max_result_bytes: int = MAX_RESULT_BYTES,
        require_confirmation: RequireConfirmation = False,
        follow_redirects: Redirects = "same-origin",
    ) -> None:
        self._own: tuple[Any, ...] = (
            True if ssl_verify is None else ssl_verify,
            httpx_client_factory,
            allow_private_network_access,
        )
        where = _endpoint(endpoint)
        if not isinstance(operation, Operation):
            operation = _described(where, operation, preserve_property_names)
        self._scheme, self._credential, self._key = _scheme(auth_scheme), _credential(auth_credential), credential_key
        self._clients: Any = None
        service = Service(
            self._own_clients,
            header_provider,
            timeout,
            max_result_bytes,
            require_confirmation,
            follow_redirects,
        )
        self._set_up(fit_name(name), cleaned(description), where, operation, service, self._own_security())

    @classmethod
    def of_service(
        cls, name: str, operation: Operation, service: Service, security: Security, schemes: Mapping[str, Any]
    ) -> RestApiTool:
        """The tool `name` of an `operation` of a document, for whose `service` and `security` a toolset stands;
        `schemes` are those of the document."""
        tool = cls.__new__(cls)
        where = OperationEndpoint(base_url=operation.server, path=operation.path, method=operation.method.lower())
        first = next((name for names in operation.security for name in names), None)
        tool._scheme, tool._credential, tool._key, tool._clients = schemes.get(first or ""), None, None, None
        tool._set_up(name, operation.description, where, operation, service, security)
        return tool

    def _set_up(
        self,
        name: str,
        description: str,
        endpoint: OperationEndpoint,
        operation: Operation,
        service: Service,
        security: Security,
    ) -> None:
        super().__init__(name=name, description=description, idempotent=operation.method in REPEATABLE)
        self.endpoint = endpoint
        """Where the operation is."""
        self.operation = operation
        """What the operation is, as it was read."""
        self._service, self._security = service, security
        self._checker: Any = None
        self._headers: dict[str, str] = {}

    def renamed(self, name: str) -> RestApiTool:
        """The same tool under another `name`."""
        tool = copy.copy(self)
        tool.name = name
        return tool

    # -- google-adk's ways to change one ------------------------------------------------------------

    @property
    def auth_scheme(self) -> AuthScheme | None:
        """The security scheme that was given, or the first that the operation names."""
        return self._scheme

    @property
    def auth_credential(self) -> AuthCredential | None:
        """The credential that was given."""
        return self._credential

    def configure_auth_scheme(self, auth_scheme: AuthScheme | Mapping[str, Any]) -> None:
        """Let the operation have this security scheme, in place of those of its document."""
        self._scheme = _scheme(auth_scheme)
        self._security = self._own_security()

    def configure_auth_credential(self, auth_credential: AuthCredential | str | None = None) -> None:
        """Let the operation have this credential, for the security scheme that it has."""
        self._credential = _credential(auth_credential)
        self._security = self._own_security()

    def configure_credential_key(self, credential_key: str | None = None) -> None:
        """Keep what users give under this name."""
        self._key = credential_key
        self._security = self._own_security()

    def set_default_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with each request, where nothing else says what they are."""
        self._headers = dict(headers)

    def _own_security(self) -> Security:
        return Security({}, everywhere=self._scheme, credential=self._credential, key=self._key)

    async def _own_clients(self) -> Any:
        if self._clients is None:
            self._clients = await load_clients(*self._own)
        return self._clients

    async def close(self) -> None:
        """Give back connections that the tool holds by itself; a toolset closes its own."""
        if self._clients is not None:
            await self._clients.close()

    # -- calls --------------------------------------------------------------------------------------

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = self.operation.schema
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=schema if schema["properties"] else None,
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context | None = None) -> Any:
        """Call the operation with `args`, as the model gave them; outside of a run `tool_context` is None.

        What the service answers is the result, an answer that says that it failed is `{"error": …}`. Raises
        `ToolArgumentsError` for arguments that do not fit, `CredentialError` if a credential cannot be had, and what
        lets a person decide.
        """
        args = await self._checked(args)
        await self._confirm(args, tool_context)
        try:
            request = await outgoing(self.operation, args, partial(_load_artifact, tool_context))
            granted = await self._security.granted(self.operation.security, tool_context)
        except Pending:
            return PENDING
        except (ToolArgumentsError, CredentialError):
            raise
        except FlowloomError as error:  # which ends no run, whatever its policy on errors is
            return {"error": f"{self.operation.label}: {error}"}
        await self._add_headers(request, tool_context)
        origin = origin_of(self.operation.server)
        attributes = {
            "http.request.method": request.method,
            "http.route": self.operation.path,
            "server.address": origin[1],
            "server.port": origin[2],
        }
        with protocol_span(self.operation.label, attributes) as span:
            if span is not None:
                carried: dict[str, str] = {}
                import_module("opentelemetry.propagate").inject(carried)
                request.headers += carried.items()
            return await self._called(request, granted, tool_context, span)

    async def _called(self, request: Outgoing, granted: Granted, context: Context | None, span: Any) -> Any:
        service, label = self._service, self.operation.label
        secrets = secrets_in([*granted.secrets, *(value for _, value in request.private)])
        try:
            async with asyncio.timeout(service.timeout):
                answer = await self._answered(request, granted, context)
                if _is_refused_token(answer) and context is not None and await self._security.renewed(granted, context):
                    answer = await self._answered(request, granted, context)
        except Pending:
            return PENDING
        except Exception as error:
            told = without(_failure(error, label, origin_of(self.operation.server)[1], service.timeout), secrets)
            _log.info("%s", told)
            if span is not None:
                span.set_attribute("error.type", type(error).__qualname__)
            return {"error": told}
        if span is not None:
            span.set_attribute("http.response.status_code", answer.status)
        if answer.status >= 400 or answer.status in (301, 302, 303, 307, 308):
            return error_of(answer, label, secrets)
        return await result_of(answer, context, self.name, service.max_result_bytes)

    async def _answered(self, request: Outgoing, granted: Granted, context: Context | None) -> Any:
        clients = await self._service.clients()
        module: Any = import_module("flowloom.protocols.openapi.clients")
        sleep = asyncio.sleep if context is None else partial(_sleep, context)
        return await answered(
            request,
            granted,
            lambda sent: clients.send(sent, MAX_BODY_BYTES),
            module.Request,
            redirects=self._service.redirects,
            sleep=sleep,
        )

    async def _checked(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as they are sent: without null where the schema has none, with defaults that have to be sent.

        Raises `ToolArgumentsError`.
        """
        if self._checker is None:
            module = await in_thread(partial(import_module, "flowloom.protocols.schema"))
            self._checker = module.ToolSchema(self.operation.schema, self.name)
        checker = self._checker
        given = {name: value for name, value in args.items() if value is not None or checker.takes_null(name)}
        given = {**self.operation.defaults, **given}
        checker.check_arguments(given, self.name)
        return given

    async def _confirm(self, args: dict[str, Any], context: Context | None) -> None:
        """Raise unless the call needs no approval, or has it."""
        required = self._service.require_confirmation
        if required == "unsafe":
            required = self.operation.method not in SAFE
        elif callable(required):
            answer = required(**args)
            required = bool(await answer if inspect.isawaitable(answer) else answer)
        if not required or context is None:
            return
        decision = context.tool_confirmation
        if decision is None:
            context.request_confirmation(
                hint=f"Tool `{self.name}` ({self.operation.label}) needs your approval to run. Answer with `confirmed` "
                f"true or false."
            )
            raise ConfirmationRequiredError(
                f"The call of `{self.name}` waits for a person's approval. It has not run yet."
            )
        if not decision.confirmed:
            why = f" The reason: {decision.reason}" if decision.reason else ""
            raise ConfirmationRejectedError(f"A person rejected the call of `{self.name}`. It was not run.{why}")

    async def _add_headers(self, request: Outgoing, context: Context | None) -> None:
        """Add the headers that the program gives each request."""
        named = {name.lower() for name, _ in request.headers}
        request.headers += [pair for pair in self._headers.items() if pair[0].lower() not in named]
        provider = self._service.header_provider
        if provider is None or context is None:
            return
        given = provider(context)
        headers = await given if inspect.isawaitable(given) else given
        request.private = [(name, str(value).strip()) for name, value in (headers or {}).items()]


async def _load_artifact(context: Context | None, name: str) -> types.Part | None:
    return None if context is None else await context.load_artifact(name)


async def _sleep(context: Context, seconds: float) -> None:
    await context.invocation_context.effects.sleep(context.inside, seconds)


def _is_refused_token(answer: Any) -> bool:
    return answer.status == 401 and "invalid_token" in answer.headers.get("www-authenticate", "").lower()


def _failure(error: Exception, label: str, host: str, seconds: float) -> str:
    """Why an operation has no answer, for the model."""
    kind = type(error).__name__
    if isinstance(error, AddressRefusedError):
        return f"{label}: {error} `allow_private_network_access=True` would allow it."
    if isinstance(error, ToolError):
        return f"{label}: {error}"
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return f"{label}: {host} gave no answer within {seconds:g} seconds."
    if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE" in str(error) or "SSL" in str(error):
        return f"{label}: no secure connection to {host} ({error_text(error)})."
    if "Connect" in kind or isinstance(error, OSError):
        return f"{label}: no connection to {host} ({error_text(error)})."
    if kind in ("LocalProtocolError", "InvalidURL"):  # whose text quotes what was to be sent
        return f"{label}: the request cannot be written ({kind})."
    return f"{label}: {host} gave no answer that can be read ({error_text(error)})."


def _endpoint(given: OperationEndpoint | Mapping[str, Any] | str) -> OperationEndpoint:
    if isinstance(given, OperationEndpoint):
        return given
    return OperationEndpoint.model_validate(json.loads(given) if isinstance(given, str) else given)


def _described(endpoint: OperationEndpoint, given: Mapping[str, Any] | BaseModel | str, preserve: bool) -> Operation:
    """An operation that belongs to no document."""
    if isinstance(given, BaseModel):
        given = given.model_dump(mode="json", by_alias=True, exclude_none=True)
    raw: Any = json.loads(given) if isinstance(given, str) else given
    reader = OperationReader(Schemas(legacy=False), preserve=preserve)
    try:
        server = server_of([[{"url": endpoint.base_url}]] if endpoint.base_url else [], {}, None)
        return reader.read(endpoint.method, endpoint.path, Place(raw, _nowhere), Place(None, _nowhere), server, ())
    except DescriptionError as error:
        raise ConfigurationError(
            f"The operation {endpoint.method} {endpoint.path} cannot be described: {error}."
        ) from error


def _nowhere(reference: str) -> Place:
    raise DescriptionError(f"`{reference}` cannot be looked up: the operation belongs to no document")


def _scheme(given: AuthScheme | Mapping[str, Any] | str | None) -> AuthScheme | None:
    if given is None or isinstance(given, AuthScheme):
        return given
    raw: Any = json.loads(given) if isinstance(given, str) else given
    return AuthConfig(auth_scheme=cast(AuthScheme, raw)).auth_scheme  # which reads other libraries' schemes too


def _credential(given: AuthCredential | Mapping[str, Any] | str | None) -> AuthCredential | None:
    if given is None or isinstance(given, AuthCredential):
        return given
    return AuthCredential.model_validate(json.loads(given) if isinstance(given, str) else given)
