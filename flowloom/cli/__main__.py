"""`python -m flowloom.cli`."""

from flowloom.cli import main

if __name__ == "__main__":
    main()
