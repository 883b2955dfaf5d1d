"""`OpenAPIToolset`: the operations of an OpenAPI document as tools (protocols spec §3)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from os import PathLike, fspath
from typing import Any, cast

from pydantic import ValidationError

from flowloom.auth.config import AuthConfig
from flowloom.auth.credentials import AuthCredential
from flowloom.auth.schemes import AuthScheme
from flowloom.context import ReadonlyContext
from flowloom.errors import ConfigurationError, ToolsetError
from flowloom.events.clock import monotonic
from flowloom.protocols.addresses import shown_address
from flowloom.protocols.loading import check_installed, in_thread
from flowloom.protocols.names import fit_name, is_reserved, warn_of_missing
from flowloom.protocols.openapi.naming import hashed, operation_name
from flowloom.protocols.openapi.operations import METHODS, Operation, OperationReader, path_item
from flowloom.protocols.openapi.rest_api_tool import (
    ClientFactory,
    HeaderProvider,
    RequireConfirmation,
    RestApiTool,
    Service,
    Verify,
    load_clients,
)
from flowloom.protocols.openapi.schemas import DescriptionError, Place, Schemas
from flowloom.protocols.openapi.security import Granted, Security, scheme_from
from flowloom.protocols.openapi.sending import MAX_BODY_BYTES, Outgoing, Redirects, answered
from flowloom.protocols.openapi.servers import check_variables, server_of, servers_of
from flowloom.protocols.results import MAX_RESULT_BYTES
from flowloom.protocols.spans import protocol_span
from flowloom.protocols.unavailable import OnUnavailable, ToolsetStatus, check_on_unavailable, toolset_error
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset, ToolPredicate

_log = logging.getLogger("flowloom.openapi")
_LIBRARIES = ("httpx2", "jsonschema", "referencing", "yaml")


class OpenAPIToolset(BaseToolset):
    """One tool for each operation of an OpenAPI document (3.0, 3.1, 3.2).

    The document is `spec_dict`, the text `spec_str` (JSON or YAML; `spec_str_type` need not say which), or what is at
    `spec_path`, a file or an address of http. It is read once, with the first use. `tool_filter` keeps the operations
    of those names, or those that a predicate accepts; `tool_name_prefix` is put before each name. `allow_refs` names
    folders and origins that the document may refer to, beside its own folder. `preserve_property_names` keeps its names
    instead of making them snake_case.

    **Where to.** `base_url` is what relative servers are relative to, by default the address the document came from;
    `server_variables` are values for the variables of its servers. Hosts that are not public are refused, unless
    `allow_private_network_access`. `follow_redirects` is `"same-origin"`, True for any origin (which gets no
    credentials), or False. `ssl_verify` says how certificates are checked: True (the default), False, the path of a
    file or folder, or an `ssl.SSLContext`. `httpx_client_factory` makes a client of your own, of `httpx2` or `httpx`.

    **Who.** `credentials` are by the names of the document's security schemes: an `AuthCredential`, or a text (a key, a
    token, `user:password`). `auth_scheme` stands in for all of these schemes, `auth_credential` is the credential for
    it, or for every scheme that has none. What users give is kept under `credential_key`. `header_provider` gives
    headers for each request, of the run that it is made in.

    **Limits.** A call takes at most `timeout` seconds, and the model is given at most `max_result_bytes` of text; the
    rest is kept as a file. `require_confirmation` lets a person decide: True, `"unsafe"` (all but GET, HEAD and
    OPTIONS), or a predicate over the arguments. `on_unavailable="skip"` lets runs go on without a document that
    cannot be read.

    Raises `ConfigurationError` for parameters that contradict each other, `MissingExtraError` without the extra
    `openapi`; a document that cannot be used is a `ToolsetError` of the run.
    """

    def __init__(
        self,
        *,
        spec_dict: Mapping[str, Any] | None = None,
        spec_str: str | None = None,
        spec_str_type: str = "json",
        auth_scheme: AuthScheme | None = None,
        auth_credential: AuthCredential | None = None,
        credential_key: str | None = None,
        tool_filter: Sequence[str] | ToolPredicate | None = None,
        tool_name_prefix: str | None = None,
        ssl_verify: Verify | None = None,
        header_provider: HeaderProvider | None = None,
        httpx_client_factory: ClientFactory | None = None,
        preserve_property_names: bool = False,
        allow_private_network_access: bool = False,
        spec_path: str | PathLike[str] | None = None,
        base_url: str | None = None,
        server_variables: Mapping[str, str] | None = None,
        credentials: Mapping[str, AuthCredential | str] | None = None,
        timeout: float = 30.0,
        max_result_bytes: int = MAX_RESULT_BYTES,
        require_confirmation: RequireConfirmation = False,
        follow_redirects: Redirects = "same-origin",
        allow_refs: str | PathLike[str] | Sequence[str | PathLike[str]] = (),
        on_unavailable: OnUnavailable = "error",
    ) -> None:
        super().__init__(tool_filter=tool_filter, tool_name_prefix=tool_name_prefix)
        check_installed("OpenAPI documents need their readers", "openapi", *_LIBRARIES)
        if sum(given is not None for given in (spec_dict, spec_str, spec_path)) != 1:
            raise ConfigurationError("An `OpenAPIToolset` needs one of `spec_dict`, `spec_str` and `spec_path`.")
        if spec_str_type not in ("json", "yaml"):
            raise ConfigurationError(f"`spec_str_type` is {spec_str_type!r}, but must be 'json' or 'yaml'.")
        check_on_unavailable(on_unavailable)
        self._source = spec_dict, spec_str, None if spec_path is None else fspath(spec_path)
        several = [allow_refs] if isinstance(allow_refs, (str, PathLike)) else allow_refs
        self._allowed = [fspath(cast(str, each)) for each in several]
        self._auth = auth_scheme, auth_credential, credential_key, dict(credentials or {})
        self._verify: Verify = True if ssl_verify is None else ssl_verify
        self._factory, self._allow_private = httpx_client_factory, allow_private_network_access
        self._preserve, self._base_url = preserve_property_names, base_url
        self._variables = {name: str(value) for name, value in (server_variables or {}).items()}
        self._on_unavailable: OnUnavailable = on_unavailable
        self._service = Service(
            self._get_clients, header_provider, timeout, max_result_bytes, require_confirmation, follow_redirects
        )
        self._clients: Any = None
        self._replaced: list[Any] = []
        self._reading = threading.Lock()
        self._tools: list[RestApiTool] | None = None
        self._prefixed: dict[str, BaseTool] = {}
        """The tools as models know them, by their names without the prefix."""
        self._selected: list[BaseTool] | None = None
        self._error: str | None = None
        self._listed_at: float | None = None

    # -- tools --------------------------------------------------------------------------------------

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools of all operations, the same ones each time.

        Raises `ToolsetError` for a document that cannot be used.
        """
        if self._tools is None:
            with protocol_span("openapi.read", {"openapi.document": self._shown()}):
                await in_thread(self._read)
        return [*self._read()]

    async def get_tools_with_prefix(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools that are chosen, with the prefix before their names."""
        if self._selected is not None:
            return self._selected
        found = await self.get_tools(readonly_context)
        chosen = [tool for tool in found if self._is_tool_selected(tool, readonly_context)]
        warn_of_missing(self.tool_filter, {tool.name for tool in found}, self._shown(), _log)
        tools = [self._prefixed[tool.name] for tool in chosen]
        if not callable(self.tool_filter):
            self._selected = tools
        return tools

    def get_tool(self, tool_name: str) -> RestApiTool | None:
        """The tool of the operation that is called `tool_name`, without a prefix; None if there is none.

        Where nothing has used the toolset before, it reads the document, and waits for that.
        """
        if self._tools is None:
            reader = threading.Thread(target=self._read_quietly, name="flowloom:openapi")
            reader.start()  # reading what is at an address runs an event loop, and there may be one here
            reader.join()
        return next((tool for tool in self._read() if tool.name == tool_name), None)

    def configure_ssl_verify_all(self, ssl_verify: Verify | None = None) -> None:
        """Check certificates in this way from the next connection on (see `ssl_verify`)."""
        self._verify = True if ssl_verify is None else ssl_verify
        self._replaced += [self._clients] if self._clients is not None else []
        self._clients = None

    def status(self) -> ToolsetStatus:
        """How the toolset is: whether its document was read, and how many tools it has."""
        state = "failed" if self._error else "idle" if self._clients is None else "connected"
        listed = None if self._listed_at is None else monotonic() - self._listed_at
        return ToolsetStatus(state, None if self._tools is None else len(self._tools), self._error, 0, listed)

    async def close(self) -> None:
        """Close all connections; a second time does nothing."""
        held, self._clients, self._replaced = [*self._replaced, self._clients], None, []
        for clients in held:
            if clients is not None:
                await clients.close()

    async def _get_clients(self) -> Any:
        if self._clients is None:
            made = await load_clients(self._verify, self._factory, self._allow_private)
            self._clients = self._clients or made
        return self._clients

    # -- the document -------------------------------------------------------------------------------

    def _shown(self) -> str:
        path = self._source[2]
        return "the document" if path is None else f"`{shown_address(path)}`"

    def _read_quietly(self) -> None:
        try:
            self._read()
        except ToolsetError:
            pass  # whoever asked reads again, and is told

    def _read(self) -> list[RestApiTool]:
        """The tools, made once."""
        with self._reading:
            if self._tools is None:
                documents: Any = import_module("flowloom.protocols.openapi.document")
                data, text, path = self._source
                try:
                    document = documents.document_from(
                        data=data, text=text, path=path, allowed=self._allowed, fetch=self._fetch
                    )
                    self._tools = self._tools_of(document)
                except (documents.DocumentError, ConfigurationError) as error:
                    self._error = str(error)
                    raise toolset_error(
                        type(self).__name__,
                        (path and shown_address(path)) or "its document",
                        str(error),
                        self._on_unavailable,
                    ) from error
                self._error, self._listed_at = None, monotonic()
                import_module("flowloom.protocols.schema")  # which the first call needs
            return self._tools

    def _fetch(self, url: str) -> str:
        return asyncio.run(_fetched(url, self._verify, self._factory, self._allow_private, self._service.timeout))

    def _tools_of(self, document: Any) -> list[RestApiTool]:
        schemes = dict(self._schemes(document))
        everywhere, credential, key, credentials = self._auth
        if everywhere is not None:
            everywhere = AuthConfig(auth_scheme=everywhere).auth_scheme
        security = Security(
            schemes,
            credentials,
            everywhere=everywhere,
            credential=credential,
            key=key,
            allow_private=self._allow_private,
        )
        check_variables(servers_of(document.root), self._variables)
        tools: list[RestApiTool] = []
        taken: set[str] = set()
        for method, path, operation, identity in self._operations(document):
            name = operation_name(identity, method, path, preserve=self._preserve)
            if name in taken:
                name = hashed(name, f"{method} {path}")
            taken.add(name)
            shown = fit_name(f"{self.tool_name_prefix}_{name}") if self.tool_name_prefix else name
            if is_reserved(shown):
                _log.warning("The operation `%s` of %s is left out: that name is the engine's.", shown, self._shown())
                continue
            tool = RestApiTool.of_service(name, operation, self._service, security, schemes)
            self._prefixed[name] = tool if shown == name else tool.renamed(shown)
            self._prefixed[name].__declare__()
            tools.append(tool)
        if tools and all("://" not in tool.operation.server for tool in tools):
            _log.warning("%s gives no host for its operations: `base_url` says where they are.", self._shown())
        return tools

    def _operations(self, document: Any) -> Iterator[tuple[str, str, Operation, str | None]]:
        """All operations that can be described, with method, path and id. The others are left out, with a warning."""
        root: dict[str, Any] = document.root
        reader = OperationReader(Schemas(legacy=document.legacy), preserve=self._preserve)
        base = self._base_url or document.address
        paths: Any = root.get("paths") or {}
        if not isinstance(paths, dict):
            raise ConfigurationError("its `paths` are no object")
        for path, item in cast(dict[str, Any], paths).items():
            if path.startswith("x-"):
                continue
            try:
                place = path_item(Place(item, document.top.look_up))
                if not isinstance(item := place.value, dict):
                    raise DescriptionError(f"there is {item!r:.60} where a path is expected")
            except DescriptionError as error:
                self._leave_out(path, error)
                continue
            held = cast(dict[str, Any], item)
            for method in METHODS:
                if method not in held:
                    continue
                try:
                    own = Place(held[method], place.look_up)
                    source = cast(dict[str, Any], own.value) if isinstance(own.value, dict) else {}
                    levels = (source.get("servers"), held.get("servers"), root.get("servers"))
                    server = server_of(levels, self._variables, base)
                    security = _alternatives(source.get("security", root.get("security")))
                    shared = Place(held.get("parameters"), place.look_up)
                    operation = reader.read(method, path, own, shared, server, security)
                except ConfigurationError:
                    raise
                except Exception as error:  # whatever a strange document leads to, it costs this operation alone
                    self._leave_out(f"{method.upper()} {path}", error)
                    continue
                identity = source.get("operationId")
                yield method, path, operation, identity if isinstance(identity, str) and identity.strip() else None

    def _leave_out(self, label: str, error: Exception) -> None:
        reason = str(error) if isinstance(error, DescriptionError) else f"it cannot be read ({type(error).__name__})"
        _log.warning("%s of %s is left out: %s.", label, self._shown(), reason)

    def _schemes(self, document: Any) -> Iterator[tuple[str, AuthScheme | None]]:
        """The security schemes of a document, by name."""
        components = document.root.get("components")
        found = cast(dict[str, Any], components).get("securitySchemes") if isinstance(components, dict) else None
        for name, each in cast(dict[str, Any], found).items() if isinstance(found, dict) else ():
            try:
                yield name, scheme_from(path_item(Place(each, document.top.look_up)).value)
            except (DescriptionError, ValidationError, ConfigurationError) as error:
                _log.warning(
                    "The security scheme `%s` of %s cannot be used (%s).", name, self._shown(), type(error).__name__
                )


def _alternatives(security: Any) -> tuple[tuple[str, ...], ...]:
    """The alternatives of a security requirement, each with the names of its schemes."""
    if security is None:
        return ()
    if not isinstance(security, list) or not all(isinstance(each, dict) for each in cast(list[Any], security)):
        raise DescriptionError(f"its `security` is {security!r:.60}")
    return tuple(tuple(cast(dict[str, Any], each)) for each in cast(list[Any], security))


async def _fetched(url: str, verify: Verify, factory: ClientFactory | None, allow_private: bool, seconds: float) -> str:
    """The text at an address. Raises `OSError` if there is none."""
    clients = await load_clients(verify, factory, allow_private)
    module: Any = import_module("flowloom.protocols.openapi.clients")
    try:
        async with asyncio.timeout(seconds):
            answer = await answered(
                Outgoing("GET", url, [("Accept", "application/json, application/yaml, */*;q=0.5")], None),
                Granted(),
                partial(clients.send, limit=MAX_BODY_BYTES),
                module.Request,
                redirects="same-origin",
                sleep=asyncio.sleep,
            )
    except Exception as error:
        raise OSError(str(error) or type(error).__name__) from error
    finally:
        await clients.close()
    if answer.status != 200:
        raise OSError(f"HTTP {answer.status} {answer.reason}")
    if answer.is_cut:
        raise OSError(f"it has more than {MAX_BODY_BYTES} bytes")
    return answer.body.decode("utf-8", "replace")
