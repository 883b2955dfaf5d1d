"""Serves the shop's page, and its agent over AG-UI: `python -m examples.flower_shop`."""

import uvicorn

from .agent import root_agent
from .shop import shop_of

if __name__ == "__main__":
    uvicorn.run(shop_of(root_agent), host="127.0.0.1", port=8000)
