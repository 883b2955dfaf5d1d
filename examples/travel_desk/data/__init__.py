"""The desk's data, read once from the JSON files beside this one. Prices, rates and rules are made up."""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def load(name: str) -> Any:
    """The content of `<name>.json`."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))


def known_city(name: str) -> str:
    """The city as the data spell it. Raises `ValueError` that names the cities there are."""
    cities = load("cities")
    for city in cities:
        if city.casefold() == name.strip().casefold():
            return city
    raise ValueError(f"There is nothing on {name!r}. The desk knows {', '.join(cities)}.")
