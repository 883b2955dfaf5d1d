"""From and to what other programs speak: chat messages, and the wire forms of Gemini's API."""
