"""Text from the cluster made safe for a terminal: anybody who can write a label could otherwise paint on it. Pure."""

import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, change the direction of text, or show nothing at all."""


def printable(text: str) -> str:
    """The text with every such character spelled out (`\\x1b`, `\\u202e`); line breaks too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


def _spelled(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
