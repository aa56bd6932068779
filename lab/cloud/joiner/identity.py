"""The identity of an object, read from any answer."""

from __future__ import annotations

import msgspec


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Which object it is, and which version of it."""

    uid: str = ""
    resource_version: str = ""


class _Holder(msgspec.Struct, gc=False):
    metadata: Identity


_decode = msgspec.json.Decoder(_Holder).decode


def identity_of(body: bytes) -> Identity:
    """Return uid and resource version of the object in `body`."""
    return _decode(body).metadata
