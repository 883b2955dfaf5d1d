"""A2A, both sides: agents of other services as agents of ours, and ours for others (protocols spec §4).

`RemoteA2aAgent` is an agent that lives behind an address; `to_a2a` serves one. The SDK of the protocol, the extra
`a2a`, is loaded when the first connection is made, or an application is built.
"""

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.protocols.a2a.application import mount_a2a as mount_a2a
    from flowloom.protocols.a2a.application import to_a2a as to_a2a
    from flowloom.protocols.a2a.config import A2aCardRequestConfig as A2aCardRequestConfig
    from flowloom.protocols.a2a.config import A2aRemoteAgentConfig as A2aRemoteAgentConfig
    from flowloom.protocols.a2a.config import CardRequestInterceptor as CardRequestInterceptor
    from flowloom.protocols.a2a.config import ParametersConfig as ParametersConfig
    from flowloom.protocols.a2a.config import RequestInterceptor as RequestInterceptor
    from flowloom.protocols.a2a.failures import RemoteAgentError as RemoteAgentError
    from flowloom.protocols.a2a.failures import RemoteAgentTimeoutError as RemoteAgentTimeoutError
    from flowloom.protocols.a2a.own_card import agent_card_of as agent_card_of
    from flowloom.protocols.a2a.remote_agent import RemoteA2aAgent as RemoteA2aAgent
    from flowloom.protocols.a2a.status import RemoteStatus as RemoteStatus

_HOMES = {
    "application": "mount_a2a to_a2a",
    "config": "A2aCardRequestConfig A2aRemoteAgentConfig CardRequestInterceptor ParametersConfig RequestInterceptor",
    "failures": "RemoteAgentError RemoteAgentTimeoutError",
    "own_card": "agent_card_of",
    "remote_agent": "RemoteA2aAgent",
    "status": "RemoteStatus",
}
__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
__all__ = [
    "A2aCardRequestConfig",
    "A2aRemoteAgentConfig",
    "CardRequestInterceptor",
    "ParametersConfig",
    "RemoteA2aAgent",
    "RemoteAgentError",
    "RemoteAgentTimeoutError",
    "RemoteStatus",
    "RequestInterceptor",
    "agent_card_of",
    "mount_a2a",
    "to_a2a",
]
