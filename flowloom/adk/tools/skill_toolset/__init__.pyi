# made from table.py by tests/adk/stubs.py

from flowloom.skills import SkillToolset

__all__ = [
    "SkillToolset",
]
