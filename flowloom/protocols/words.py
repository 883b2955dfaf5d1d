"""Words of strangers: names and descriptions without what a reader does not see (protocols spec §1, Security).

`cleaned` takes out control characters, those that turn the direction of text, zero-width ones, the tags block and
variation selectors: a model reads all of them, a person who reviews the text none.
"""

from __future__ import annotations

import re

_UNSEEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # hyphens and fillers without a width
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, directions, invisible operators
    "\ufe00-\ufe0f\ufeff\ufff0-\uffff\ud800-\udfff"  # variation selectors, byte order mark, specials, half characters
    "\U000e0000-\U000e0fff"  # tags, further variation selectors
    "]"
)


def cleaned(text: str) -> str:
    """`text` without control and invisible characters; line ends are line feeds."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
