"""One watch cache that can be told to start over."""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from throttler.client.kube_client import KubeClient
from throttler.client.pages import Key
from throttler.client.reflector import CacheObserver, Reflector
from throttler.client.requests import Selection
from throttler.client.resource import Resource
from throttler.client.store import Store

log = structlog.get_logger()

Listener = Callable[[Key, Any, Any], None]


class Watch:
    """A reflector, and the task that runs it."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        wire: Any,
        shape: Callable[[Any], Any],
        selection: Selection,
        listener: Listener,
        on_change: Callable[[], None],
        observer: CacheObserver,
    ) -> None:
        self.plural = resource.plural
        self._listener = _never_raising(resource.plural, listener)
        self._reflector: Reflector[Any, Any] = Reflector(
            client, resource, wire, shape, selection, on_change=on_change, observer=observer, listener=self._listener
        )
        self._running: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store[Any]:
        """What is known."""
        return self._reflector.store

    @property
    def age_s(self) -> float:
        """Seconds since the server last spoke of the resource; infinite before it did."""
        return self._reflector.age_s

    @property
    def in_words(self) -> str:
        """The resource, and what the server says against it."""
        error = self._reflector.last_error
        return f"{self.plural} ({error.message})" if error is not None else self.plural

    async def run(self) -> None:
        """Follow the resource until cancelled; begin anew with a list whenever `relist` is called."""
        while True:
            self._running = asyncio.create_task(self._reflector.run(), name=f"reflect {self.plural}")
            try:
                await asyncio.wait([self._running])
                if not self._running.cancelled():
                    self._running.result()
            finally:
                self._running.cancel()

    def relist(self) -> None:
        """What is known may be wrong: list everything anew."""
        self._reflector.distrust()
        if self._running is not None:
            self._running.cancel()

    def forget_all(self) -> None:
        """The resource is no longer followed: tell the listener that everything is gone."""
        for key, item in self.store.items.items():
            self._listener(key, item, None)


def _never_raising(plural: str, listener: Listener) -> Listener:
    """One object that nobody could foresee must not end the watch of all others, now and after every restart."""

    def listen(key: Key, before: Any, after: Any) -> None:
        try:
            listener(key, before, after)
        except Exception as error:
            log.error("object not understood", resource=plural, key="/".join(key), exc_info=error)

    return listen
