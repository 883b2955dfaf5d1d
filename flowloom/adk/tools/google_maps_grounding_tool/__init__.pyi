# made from table.py by tests/adk/stubs.py

from flowloom.tools import GoogleMapsGroundingTool
from flowloom.tools import google_maps_grounding

__all__ = [
    "GoogleMapsGroundingTool",
    "google_maps_grounding",
]
