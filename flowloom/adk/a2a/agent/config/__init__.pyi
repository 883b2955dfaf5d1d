# made from table.py by tests/adk/stubs.py

from flowloom.protocols.a2a import A2aCardRequestConfig
from flowloom.protocols.a2a import A2aRemoteAgentConfig
from flowloom.protocols.a2a import CardRequestInterceptor
from flowloom.protocols.a2a import ParametersConfig
from flowloom.protocols.a2a import RequestInterceptor

__all__ = [
    "A2aCardRequestConfig",
    "A2aRemoteAgentConfig",
    "CardRequestInterceptor",
    "ParametersConfig",
    "RequestInterceptor",
]
