"""Which credentials a request carries, and where (protocols spec §3, Auth).

An operation names alternatives, each a set of schemes that all have to be met. The first alternative that credentials
are there for is taken; where nothing is, the user is asked, as `flowloom.auth` does it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from flowloom.auth.config import AuthConfig
from flowloom.auth.credentials import AuthCredential, AuthCredentialTypes, HttpAuth, HttpCredentials, OAuth2Auth
from flowloom.auth.loading import token_exchange_by
from flowloom.auth.schemes import AuthScheme
from flowloom.context import Context
from flowloom.errors import ConfigurationError, CredentialError, closest_first, quoted_list
from flowloom.protocols.guarded import guarded_transport
from flowloom.protocols.targets import check_target

EVERYWHERE = ""
"""The name of the scheme that a toolset was given for all its operations."""
TRANSPORT = "mutualTLS"
"""The type of schemes that are met by the connection itself."""


@dataclass(slots=True)
class Granted:
    """What a request carries to be let in. Nothing of it is shown or stored."""

    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    query: list[str] = field(default_factory=list[str], repr=False)
    """`name=value`, percent-encoded."""
    cookies: list[str] = field(default_factory=list[str], repr=False)
    secrets: list[str] = field(default_factory=list[str], repr=False)
    """What an error text may not quote."""
    refreshable: list[tuple[AuthConfig, AuthCredential]] = field(
        default_factory=list[tuple[AuthConfig, AuthCredential]], repr=False
    )
    """The credentials in it that another may be got for."""


class Pending(Exception):
    """The user was asked for a credential; the call waits."""


class Security:
    """The schemes of a document, and the credentials that the program has for them.

    `schemes` are by name (None for one that the connection meets), `credentials` too; `everywhere` is the scheme that
    counts for all operations instead, `credential` the one for every scheme without another, and `key` the name that
    credentials of users are kept under. Raises `ConfigurationError` for credentials of a scheme that is not there.
    """

    def __init__(
        self,
        schemes: Mapping[str, AuthScheme | None],
        credentials: Mapping[str, AuthCredential | str] | None = None,
        *,
        everywhere: AuthScheme | None = None,
        credential: AuthCredential | None = None,
        key: str | None = None,
        allow_private: bool = False,
    ) -> None:
        self._schemes = dict(schemes)
        self._key = key or ""
        self._allow_private = allow_private
        self._configs: dict[str, AuthConfig] = {}
        self._everywhere = everywhere is not None
        if everywhere is not None:
            self._schemes[EVERYWHERE] = everywhere
        self._credentials: dict[str, AuthCredential] = {}
        for name, given in (credentials or {}).items():
            if name not in self._schemes:
                known = quoted_list(closest_first(name, schemes))
                raise ConfigurationError(
                    f"`credentials` has `{name}`, but the document's security schemes are: {known}."
                )
            scheme = self._schemes[name]
            if scheme is not None:
                self._credentials[name] = _from_text(given, scheme) if isinstance(given, str) else _given(name, given)
        if credential is not None:
            for name in self._schemes:
                self._credentials.setdefault(name, credential)

    def alternatives(self, declared: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """What counts for an operation that declares these."""
        return ((EVERYWHERE,),) if self._everywhere else declared

    async def granted(self, declared: Sequence[Sequence[str]], context: Context | None) -> Granted:
        """What a request needs of the alternatives that are `declared`.

        Raises `Pending` if the user was asked, `CredentialError` if nothing is there and no user can be asked.
        """
        alternatives = self.alternatives(declared)
        if not alternatives:
            return Granted()
        for names in alternatives:
            if all(self._is_given(name) for name in names):
                return await self._asked(names, context)
        if context is not None:
            usable = [names for names in alternatives if all(self._is_given(n) or self._can_be_asked(n) for n in names)]
            for names in usable:
                granted, missing = await self._collected(names, context)
                if missing is None:
                    return granted
            if usable:
                return await self._asked(usable[0], context)
        raise CredentialError(
            f"No credential is there for {_told(alternatives)}: give the toolset `credentials` with one by that name."
        )

    async def renewed(self, granted: Granted, context: Context) -> bool:
        """Whether there are other credentials in place of those that the service refused; `granted` has them then.

        Raises `Pending` if the user was asked for another.
        """
        if not granted.refreshable:
            return False
        fresh = Granted(dict(granted.headers), granted.query, granted.cookies, granted.secrets)
        for config, refused in granted.refreshable:
            found = await context.load_credential(config, refused=refused)
            if found is None:
                if context.invocation_context.run.keyring.given(config.credential_key, context.function_call_id):
                    return False  # the user has just given the one that was refused
                context.request_credential(config)
                raise Pending
            _apply(fresh, config.auth_scheme, found)
            fresh.refreshable.append((config, found))
        granted.headers, granted.refreshable = fresh.headers, fresh.refreshable
        return True

    def _is_given(self, name: str) -> bool:
        return name in self._credentials or (name in self._schemes and self._schemes[name] is None)

    def _can_be_asked(self, name: str) -> bool:
        """Whether a user could give what the scheme needs, without a client of ours."""
        scheme = self._schemes.get(name)
        return scheme is not None and not scheme.is_oauth

    async def _asked(self, names: Iterable[str], context: Context | None) -> Granted:
        """The credentials of one alternative; the user is asked for what is missing."""
        granted, missing = await self._collected(names, context)
        if missing is None:
            return granted
        name, config = missing
        assert context is not None
        await self._check(config, name)
        context.request_credential(config)
        raise Pending

    async def _collected(
        self, names: Iterable[str], context: Context | None
    ) -> tuple[Granted, tuple[str, AuthConfig] | None]:
        """The credentials of one alternative, and the name of the first that a user has to be asked for, with what it
        is asked by; None if all are there."""
        granted = Granted()
        for name in names:
            scheme, raw = self._schemes.get(name), self._credentials.get(name)
            if scheme is None:
                continue
            if raw is not None and raw.is_ready and not (scheme.is_oauth and raw.oauth2 and raw.oauth2.refresh_token):
                _apply(granted, scheme, raw)
                continue
            if context is None:
                raise CredentialError(f"The credential for `{name or scheme.type_}` is got by a run, and this is none.")
            config = self._config(name, scheme, raw)
            found = await context.load_credential(config)
            if found is None:
                return granted, (name, config)
            _apply(granted, scheme, found)
            if scheme.is_oauth:
                granted.refreshable.append((config, found))
        return granted, None

    def _config(self, name: str, scheme: AuthScheme, raw: AuthCredential | None) -> AuthConfig:
        """What `flowloom.auth` is asked for. Addresses that come from the document are asked like the service itself:
        where a host leads to is looked up once, checked, and connected to."""
        if name not in self._configs:
            key = f"{self._key}_{name}" if self._key and name and len(self._schemes) > 1 else self._key
            config = AuthConfig(auth_scheme=scheme, raw_auth_credential=raw, credential_key=key)
            if scheme.is_oauth and name != EVERYWHERE:
                guarded = partial(guarded_transport, allow_private=self._allow_private)
                config = config.asking_by(token_exchange_by(guarded))
            self._configs[name] = config
        return self._configs[name]

    async def _check(self, config: AuthConfig, name: str) -> None:
        """Raise `AddressRefusedError` before a user is sent to a server whose tokens could not be had."""
        endpoints = config.exchange.known_endpoints(config.auth_scheme) if config.auth_scheme.is_oauth else None
        if endpoints is None or name == EVERYWHERE:
            return
        try:
            await check_target(endpoints.token, allow_private=self._allow_private)
        except OSError:
            pass  # it says so when it is asked, perhaps by way of a proxy


def scheme_from(data: Any) -> AuthScheme | None:
    """The security scheme that a document describes; None for one that the connection meets.

    Raises `ValueError` for one that is not of OpenAPI 3.
    """
    if isinstance(data, dict) and data.get("type") == TRANSPORT:  # pyright: ignore[reportUnknownMemberType]
        return None
    return AuthScheme.model_validate(data)


def _given(name: str, credential: Any) -> AuthCredential:
    """A credential that is none in words: itself, or its fields. Raises `ConfigurationError` for what is none."""
    try:
        return AuthCredential.model_validate(credential)
    except ValueError:  # which quotes what may be secret
        kind = type(credential).__name__
        raise ConfigurationError(
            f"`credentials` has a `{kind}` for `{name}` that is no `AuthCredential`, nor a text."
        ) from None


def _from_text(text: str, scheme: AuthScheme) -> AuthCredential:
    """The credential that a text is: a key, a token, or `user:password`."""
    if scheme.type_ == "apiKey":
        return AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key=text)
    if scheme.is_oauth:
        return AuthCredential(auth_type=AuthCredentialTypes(scheme.type_), oauth2=OAuth2Auth(access_token=text))
    kind = (scheme.scheme or "bearer").lower()
    user, colon, password = text.partition(":")
    given = HttpCredentials(token=text)
    if kind == "basic" and colon:
        given = HttpCredentials(username=user, password=password)
    return AuthCredential(auth_type=AuthCredentialTypes.HTTP, http=HttpAuth(scheme=kind, credentials=given))


def _apply(granted: Granted, scheme: AuthScheme, credential: AuthCredential) -> None:
    """Put a credential where its scheme wants it."""
    if scheme.type_ == "apiKey":
        _apply_key(granted, scheme, _secret_of(credential))
    else:
        granted.headers["Authorization"] = _authorization(scheme, credential)
        granted.secrets.append(granted.headers["Authorization"].partition(" ")[2])
    http = credential.http
    if http is not None:
        granted.headers.update(http.additional_headers or {})
        granted.secrets += [*(http.additional_headers or {}).values(), http.credentials.password or ""]


def _apply_key(granted: Granted, scheme: AuthScheme, key: str) -> None:
    name = scheme.name or ""
    granted.secrets.append(key)
    if scheme.in_ == "query":
        granted.query.append(f"{quote(name, safe='')}={quote(key, safe='')}")
    elif scheme.in_ == "cookie":
        granted.cookies.append(f"{quote(name, safe='')}={quote(key, safe='')}")
    else:
        granted.headers[name] = _one_line(key)


def _authorization(scheme: AuthScheme, credential: AuthCredential) -> str:
    kind = "bearer" if scheme.is_oauth else (scheme.scheme or "bearer")
    if kind.lower() == "basic":
        given = credential.http.credentials if credential.http is not None else HttpCredentials()
        if given.username is not None or given.password is not None:
            pair = f"{given.username or ''}:{given.password or ''}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
    told = {"basic": "Basic", "bearer": "Bearer"}.get(kind.lower(), kind)
    return f"{told} {_one_line(_secret_of(credential))}"


def _secret_of(credential: AuthCredential) -> str:
    """The key or token of a credential of any kind. Raises `CredentialError` if it holds none."""
    http, oauth = credential.http, credential.oauth2
    found = credential.api_key or (http and http.credentials.token) or (oauth and oauth.access_token)
    if not found:
        raise CredentialError(f"The credential of type `{credential.auth_type}` holds no key and no token.")
    return found


def _one_line(text: str) -> str:
    if "\r" in text or "\n" in text or "\0" in text:
        raise CredentialError("The credential has a line end, which no header can hold.")
    return text


def _told(alternatives: Iterable[Iterable[str]]) -> str:
    return " or ".join(" and ".join(f"`{name}`" for name in names) for names in alternatives)
