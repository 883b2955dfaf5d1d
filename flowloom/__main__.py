"""`python -m flowloom`: the command line."""

from __future__ import annotations

from flowloom.cli import main

if __name__ == "__main__":
    main()
