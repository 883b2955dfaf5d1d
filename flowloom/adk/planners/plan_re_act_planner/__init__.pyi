# made from table.py by tests/adk/stubs.py

from flowloom.processors import PlanReActPlanner

__all__ = [
    "PlanReActPlanner",
]
