"""Signatures of thoughts: who made them, so that a conversation can move from one provider to another.

A provider accepts a thought again only with the signature that it gave, and refuses those of others. Gemini's are
kept as they come; those of other providers begin with their name. So do blocks and items of theirs that are given back
to them as they came.
"""

from __future__ import annotations

import base64

ANTHROPIC = b"anthropic:"
ANTHROPIC_REDACTED = b"anthropic-redacted:"
ANTHROPIC_TEXT = b"anthropic-text:"
"""Of text with citations: the block that it came in, without its words."""
ANTHROPIC_BLOCK = b"anthropic-block:"
"""Of what Anthropic ran: the whole block."""
OPENAI = b"openai:"
OPENAI_ITEM = b"openai-item:"
"""Of what OpenAI ran, and what it asks a person for: the whole item."""
OPENAI_MESSAGE = b"openai-message:"
"""Of text with sources: the item that it came in, without its words."""
CHAT = b"openai-chat:"
"""Of thoughts that servers of chat completions show: nothing is signed, it says where the thought stood."""

# In base64 each three bytes become four letters, so what begins with the first bytes begins with their letters.
FOREIGN_TO_GEMINI = tuple(
    base64.b64encode(maker[: len(maker) // 3 * 3]).decode() for maker in (ANTHROPIC, ANTHROPIC_REDACTED, OPENAI, CHAT)
)
"""What a signature that is not Gemini's begins with in JSON, where it is base64."""


def signed(maker: bytes, data: str) -> bytes:
    """The signature of a thought: `data` is what the provider wants back."""
    return maker + data.encode()


def signature_of(maker: bytes, signature: bytes | None) -> str | None:
    """What to give back to `maker`; None for a signature that is not its own."""
    if signature is None or not signature.startswith(maker):
        return None
    return signature[len(maker) :].decode(errors="replace")
