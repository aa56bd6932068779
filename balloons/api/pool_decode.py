"""From what the API server sends to a BalloonPool, or to the reason why not: never an exception."""

from collections.abc import Mapping
from typing import Any

import msgspec

from balloons.api.pool import POOL_KIND, BalloonPool, PoolSpec, PoolStatus
from balloons.api.pool_rules import problems
from throttler.kube.decoding import Form, Invalid, Problem, decode_object, texts

__all__ = ["Invalid", "decode_pool"]

_QUANTITY_FIELDS = ("resources", "slack")


def decode_pool(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> BalloonPool | Invalid:
    """The pool of an object as the API server sends it (JSON, or the same as plain data)."""
    return decode_object(raw, _FORM)


def _with_textual_quantities(spec: Any) -> Any:
    """The same spec with whole-number quantities as text."""
    shape = spec.get("shape") if isinstance(spec, dict) else None
    if not isinstance(shape, dict):
        return spec
    amounts = {name: texts(shape[name]) for name in _QUANTITY_FIELDS if name in shape}
    return {**spec, "shape": {**shape, **amounts}}


_FORM = Form(
    kind=POOL_KIND,
    spec=PoolSpec,
    status=PoolStatus,
    make=BalloonPool,
    rules=problems,
    prepared=_with_textual_quantities,
    without_spec=Problem("spec", "spec is missing; accepted: a mapping with nodes and mode"),
)
