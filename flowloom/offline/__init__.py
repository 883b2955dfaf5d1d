"""The stand-in model: it answers for any agent, calls tools, and needs no network; the same request, the same answer.

It imports `models` and the rooms below. Begin with `model.py`.
"""

from flowloom.offline.model import OfflineModel

__all__ = ["OfflineModel"]
