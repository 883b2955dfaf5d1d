# made from table.py by tests/adk/stubs.py

from flowloom.processors import BasePlanner
from flowloom.processors import BuiltInPlanner
from flowloom.processors import PlanReActPlanner

__all__ = [
    "BasePlanner",
    "BuiltInPlanner",
    "PlanReActPlanner",
]
