"""`flowloom schema`: what editors check root_agent.yaml files by."""

from __future__ import annotations

import json

import typer


def schema() -> None:
    """Print the JSON schema of root_agent.yaml files, for editors."""
    from flowloom.config import agent_config_schema

    typer.echo(json.dumps(agent_config_schema(), indent=2))
