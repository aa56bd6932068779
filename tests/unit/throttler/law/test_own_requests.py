"""Our own requests are a source of errors and no server."""

from tests.unit.throttler.law.looks import Loop, begun, reading
from throttler.joins.joins import Joins
from throttler.law import error_brake
from throttler.law.server_health import examine
from throttler.law.settings import LawSettings
from throttler.law.verdict import ThrottleReason
from throttler.signals.reading import Reading, Signals
from throttler.signals.servers import OWN_REQUESTS


def test_own_requests_that_were_not_sent_are_no_silent_server():
    server = Reading(server="a", ended_s=99.0, span_s=5.0, requests=100.0, errors=0.0, latency_s=0.004)
    none_sent = Reading(server=OWN_REQUESTS, ended_s=99.0, span_s=5.0, requests=0.0, errors=0.0)
    health = examine(Signals(readings=(server, none_sent)), (), now_s=100.0)
    assert health.silent is None
    assert health.servers == 1


def test_where_no_server_is_ever_read_the_safe_pace_is_kept():
    """A throttle without scrape and Prometheus must name it; 500 machines were ordered within two minutes."""
    loop, ordered = Loop(settings=LawSettings(safe_per_min=20.0)), 0
    for _ in range(60):
        figures = {"requests": 12.0, "errors": 0.0, "latency_s": 0.01}
        own = Reading(server=OWN_REQUESTS, ended_s=loop.now_s + 5.0, span_s=5.0, **figures)
        joins = Joins(waiting=500 - ordered, booting=min(ordered, 30), joined=max(0, ordered - 30), join_s=40.0)
        ordered += loop.look(Signals(readings=(own,)), joins).allowance
    assert 90 <= ordered <= 105, "20 a minute for five minutes"


def test_errors_of_our_own_requests_are_judged_once():
    """The window before is there until the next one is complete; it must not brake again, nor keep admissions shut."""
    loop, joins = begun()
    own = Reading(server=OWN_REQUESTS, ended_s=loop.now_s + 4.0, span_s=5.0, requests=20.0, errors=10.0)
    first = loop.look(Signals(readings=(reading(loop.now_s + 5.0), own)), joins)
    assert first.because.reason is ThrottleReason.ERRORS
    began_s = loop.now_s
    while loop.now_s - began_s <= error_brake.PAUSE_S:
        again = loop.look(Signals(readings=(reading(loop.now_s + 5.0), own)), joins)
    assert again.because.reason is not ThrottleReason.RECOVERING, "the pause is over although the window is still there"
