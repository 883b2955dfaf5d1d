# made from table.py by tests/adk/stubs.py

from flowloom.skills import Skill
from flowloom.skills import load_skill_from_dir
from flowloom.skills import load_skills_from_dir

__all__ = [
    "Skill",
    "load_skill_from_dir",
    "load_skills_from_dir",
]
