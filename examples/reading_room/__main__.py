"""The library's service, and the librarian on the command line: `python -m examples.reading_room`."""

import os
import sys
from pathlib import Path

from flowloom.cli import main

from .service import open_library

if __name__ == "__main__":
    with open_library() as port:
        os.environ["READING_ROOM_PORT"] = str(port)
        sys.argv[1:] = ["run", str(Path(__file__).parent), *sys.argv[1:]]
        main()
