"""Our own requests are a source of errors and no server."""

from throttler.law.health import examine
from throttler.law.settings import LawSettings
from throttler.signals.reading import Reading, Signals
from throttler.signals.servers import OWN_REQUESTS


def test_own_requests_that_were_not_sent_are_no_silent_server():
    server = Reading(server="a", ended_s=99.0, span_s=5.0, requests=100.0, errors=0.0, latency_s=0.004)
    none_sent = Reading(server=OWN_REQUESTS, ended_s=99.0, span_s=5.0, requests=0.0, errors=0.0)
    health = examine(Signals(readings=(server, none_sent)), (), LawSettings(), now_s=100.0)
    assert health.silent is None
    assert health.servers == 1
