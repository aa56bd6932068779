"""Holds a document against one of docs/schemas."""

import sys
from typing import Any

SLOW = "rfc3987_syntax"
"""Reads the grammar of a format that is not checked here, which takes most of a second."""


def problems(document: Any, schema: dict[str, Any]) -> list[str]:
    """The rules of the schema that the document breaks, as sentences."""
    sys.modules.setdefault(SLOW, None)  # type: ignore[arg-type]
    import jsonschema

    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]
