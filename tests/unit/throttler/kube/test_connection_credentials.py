import asyncio
from contextlib import suppress

import pytest

from throttler.kube.connection import CredentialKeeper, Credentials
from throttler.kube.errors import ConfigError

pytestmark = pytest.mark.virtual_time


class FileSource:
    """A token file that tests change."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text
        self.reads = 0
        self.hangs = False
        self.takes_s = 0.0

    async def read(self, afresh: bool) -> Credentials:
        self.reads += 1
        await asyncio.sleep(self.takes_s)
        if self.hangs:
            await asyncio.Event().wait()
        if self.text is None:
            raise FileNotFoundError("token")
        if not self.text:
            raise ConfigError("token: empty")
        return Credentials(self.text)


async def keeper_of(source: FileSource) -> CredentialKeeper:
    return CredentialKeeper(source, await source.read(afresh=True))


async def seconds_until(keeper: CredentialKeeper, text: str) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    while (await keeper.current()).authorization != text:
        await asyncio.sleep(0.5)
    return loop.time() - start


async def test_a_rotated_token_is_in_use_within_a_minute():
    source = FileSource("old")
    keeper = await keeper_of(source)
    await asyncio.sleep(3)
    source.text = "new"
    assert await seconds_until(keeper, "new") <= 31


@pytest.mark.parametrize("broken", [None, ""])
async def test_a_missing_or_empty_file_keeps_the_old_token_and_the_new_one_is_found_soon(broken):
    source = FileSource("old")
    keeper = await keeper_of(source)
    source.text = broken
    await asyncio.sleep(31)
    assert (await keeper.current()).authorization == "old"
    source.text = "new"
    assert await seconds_until(keeper, "new") <= 6


async def test_the_file_is_not_read_for_every_call():
    source = FileSource("old")
    keeper = await keeper_of(source)
    for _ in range(1000):
        await keeper.current()
        await asyncio.sleep(0.1)
    assert source.reads <= 1 + 100 / 30 + 1


async def test_a_hanging_plugin_delays_one_caller_and_stops_nobody():
    source = FileSource("old")
    keeper = await keeper_of(source)
    await asyncio.sleep(31)
    source.hangs = True
    slow = asyncio.create_task(keeper.current())
    await asyncio.sleep(0)
    before = asyncio.get_running_loop().time()
    assert (await keeper.current()).authorization == "old"
    assert asyncio.get_running_loop().time() == before
    assert (await slow).authorization == "old"
    assert asyncio.get_running_loop().time() - before <= 20.1


async def attempts(keeper: CredentialKeeper, times: int) -> list[str | None]:
    """What attempts of a second each, as those at the Lease, go out with; None where one did not go out."""
    sent = []
    for _ in range(times):
        used = None
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                used = (await keeper.current()).authorization
        sent.append(used)
        await asyncio.sleep(1.0)
    return sent


async def test_a_plugin_slower_than_every_attempt_renews_the_credentials_and_costs_one_attempt():
    """A cloud's plugin takes seconds; the Lease was lost each time its token had to be renewed."""
    source = FileSource("old")
    keeper = await keeper_of(source)
    await asyncio.sleep(31)
    source.text, source.takes_s = "new", 1.5
    assert await attempts(keeper, 4) == [None, "new", "new", "new"]
    assert source.reads == 2


async def test_credentials_that_are_refused_are_renewed_also_by_a_plugin_slower_than_every_attempt():
    source = FileSource("old")
    keeper = await keeper_of(source)
    source.text, source.takes_s = "new", 1.5
    refused = await keeper.current()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await keeper.renew(refused)
    async with asyncio.timeout(1.0):
        assert await keeper.renew(refused)
    assert await attempts(keeper, 1) == ["new"]


async def test_a_token_is_not_shown():
    assert "secret" not in repr(Credentials("Bearer secret"))
