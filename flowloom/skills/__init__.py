"""Skills: instructions and files for special tasks, told to a model a little at a time.

It imports `tools`, `processors`, `protocols` and the rooms below. Begin with `toolset.py`; `skill.py` reads a skill's
head, `files.py` its files.
"""

from __future__ import annotations

from flowloom.skills.files import SkillError, SkillFileError, SkillFiles
from flowloom.skills.skill import Skill, load_skill_from_dir, load_skill_from_zip, load_skills_from_dir
from flowloom.skills.toolset import DiscoveryMode, SkillToolset

__all__ = [
    "DiscoveryMode",
    "Skill",
    "SkillError",
    "SkillFileError",
    "SkillFiles",
    "SkillToolset",
    "load_skill_from_dir",
    "load_skill_from_zip",
    "load_skills_from_dir",
]
