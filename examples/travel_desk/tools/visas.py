"""Visas: who needs one."""

from ..data import load


def check_visa(nationality: str, destination: str) -> str:
    """Tell whether a traveller needs a visa to enter a country, and for how long one may stay without.

    Args:
        nationality: Nationality of the passport, such as British.
        destination: The country, or a city in it.
    """
    rules, cities = load("visas"), load("cities")
    country = cities.get(destination.strip().title(), destination.strip().title())
    if country not in rules:
        raise ValueError(f"There are no rules for {destination!r}. The desk knows {', '.join(rules)}.")
    rule, passport = rules[country], nationality.strip().title()
    if passport in rule["visa_free"]:
        return f"{passport} travellers may stay in {country} for {rule['days']} days without a visa."
    return f"{passport} travellers need {rule['otherwise']} for {country}."
