"""Hotels: searching, and what a stay costs."""

from typing import Any

from ..data import known_city, load


def search_hotels(city: str, max_price_eur: float | None = None, min_stars: int = 1) -> dict[str, Any]:
    """Find hotels, rooms and places to stay or sleep in a city, the cheapest first.

    Args:
        city: The city to stay in.
        max_price_eur: The most that a night may cost, in euros.
        min_stars: The fewest stars a hotel may have.
    """
    city = known_city(city)
    found = [
        {key: value for key, value in hotel.items() if key != "city"}
        for hotel in load("hotels")
        if hotel["city"] == city
        and hotel["stars"] >= min_stars
        and (max_price_eur is None or hotel["price_eur"] <= max_price_eur)
    ]
    if not found:
        return {"message": f"No hotel in {city} fits that.", "hotels": []}
    return {"city": city, "hotels": sorted(found, key=lambda hotel: hotel["price_eur"])}


def price_stay(hotel: str, nights: int) -> dict[str, Any]:
    """Work out the total cost of some nights in one hotel.

    Args:
        hotel: Name of the hotel.
        nights: How many nights.
    """
    for each in load("hotels"):
        if each["hotel"].casefold() == hotel.strip().casefold():
            total = each["price_eur"] * nights
            return {"message": f"{nights} nights at {each['hotel']} in {each['city']} cost {total} EUR."}
    raise ValueError(f"There is no hotel {hotel!r}. Search the city for hotels first.")
