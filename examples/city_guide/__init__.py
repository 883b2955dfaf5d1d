"""An agent that searches the web where its model can, and looks into a small list where it cannot."""

from .agent import root_agent

__all__ = ["root_agent"]
