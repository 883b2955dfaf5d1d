# made from table.py by tests/adk/stubs.py

from flowloom.protocols.a2a import RemoteA2aAgent
from flowloom.protocols.a2a.links import WELL_KNOWN as AGENT_CARD_WELL_KNOWN_PATH

__all__ = [
    "AGENT_CARD_WELL_KNOWN_PATH",
    "RemoteA2aAgent",
]
