"""List pages decoded into typed partial structs; an item that cannot be read is named and left out."""

from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from throttler.client.errors import UndecodableError, cut

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


class WireMetadata(Protocol):
    """The part of `metadata` that caches need."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def namespace(self) -> str: ...  # noqa: D102

    @property
    def resource_version(self) -> str: ...  # noqa: D102


class Wire(Protocol):
    """Any msgspec struct with the metadata of a Kubernetes object."""

    @property
    def metadata(self) -> WireMetadata: ...  # noqa: D102


W = TypeVar("W", bound=Wire)

READ_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What msgspec raises on hostile input: broken JSON, wrong types, nesting without end, broken UTF-8."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object that could not be read: which one, as far as that could be told, and why."""

    key: Key
    why: str


@dataclass(frozen=True, slots=True)
class ListPage(Generic[W]):
    """One page of a list; `continue_token` is empty on the last."""

    items: list[W]
    resource_version: str
    continue_token: str = ""
    skipped: tuple[Skipped, ...] = field(default=())


class _ListMeta(msgspec.Struct, rename={"continue_token": "continue", "resource_version": "resourceVersion"}):
    resource_version: str = ""
    continue_token: str = ""


class _IdentityMeta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Identity(msgspec.Struct, frozen=True):
    """The least that can be read of an object: who it is."""

    metadata: _IdentityMeta = _IdentityMeta()


T = TypeVar("T")


class _Body(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


_identity_decoder = msgspec.json.Decoder(Identity)
_raw_decoder: msgspec.json.Decoder[_Body[msgspec.Raw]] = msgspec.json.Decoder(_Body[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page of a list with its items as they came; `continue_token` is empty on the last."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_token: str = ""


def raw_page(body: bytes) -> RawPage:
    """The page, its items not looked at; raises UndecodableError when it is no list at all."""
    try:
        found = _raw_decoder.decode(body)
    except READ_ERRORS as error:
        raise UndecodableError(f"not a list: {cut(str(error))}") from error
    return RawPage(found.items or [], found.metadata.resource_version, found.metadata.continue_token)


class PageDecoder(Generic[W]):
    """Decodes pages of one type: the whole page at once, item by item only when that fails."""

    def __init__(self, wire: type[W]) -> None:
        body_type = cast(Any, _Body)[wire]
        self._page: msgspec.json.Decoder[_Body[W]] = msgspec.json.Decoder(body_type)
        self._item: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire)

    def decode(self, body: bytes) -> ListPage[W]:
        """The page; raises UndecodableError when it is no list at all."""
        try:
            found = self._page.decode(body)
        except READ_ERRORS:
            return self._item_by_item(body)
        meta = found.metadata
        return ListPage(found.items or [], meta.resource_version, meta.continue_token)

    def _item_by_item(self, body: bytes) -> ListPage[W]:
        found = raw_page(body)
        read = [decode_item(self._item, raw) for raw in found.items]
        good = [item for item in read if not isinstance(item, Skipped)]
        bad = tuple(item for item in read if isinstance(item, Skipped))
        return ListPage(good, found.resource_version, found.continue_token, bad)


def decode_item(decoder: msgspec.json.Decoder[W], raw: msgspec.Raw) -> W | Skipped:
    """The object, or who it is and why it cannot be read."""
    try:
        return decoder.decode(raw)
    except READ_ERRORS as error:
        return Skipped(key_of(identity_of(raw)), cut(str(error)))


def identity_of(raw: msgspec.Raw) -> Identity:
    """Name, namespace and version of an object of any type; empty texts where even these are broken."""
    try:
        return _identity_decoder.decode(raw)
    except READ_ERRORS:
        return Identity()


def key_of(item: Wire) -> Key:
    """The key under which caches hold the object."""
    return item.metadata.namespace, item.metadata.name
