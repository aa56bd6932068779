"""A Prometheus on loopback that answers what a test gives it."""

import json

from aiohttp import web

from throttler.scraping.prometheus_watch import SAMPLE_QUERY
from throttler.scraping.settings_and_allowed_hosts import AlarmSetting

EVALUATED_AT = 1_700_000_100.0
ALARM = AlarmSetting(name="cni", query="max(cni_free)", threshold=3.0)


def element(value: object, **labels: str) -> dict[str, object]:
    return {"metric": labels, "value": [EVALUATED_AT, str(value)]}


def answer(*elements: dict[str, object], **more: object) -> bytes:
    data = {"resultType": "vector", "result": list(elements)}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def server(name: str, requests: float, *, age_s: float = 4.0, **figures: float) -> list[dict[str, object]]:
    """The points of one API server that Prometheus scraped `age_s` before the evaluation."""
    known = {
        "servers": EVALUATED_AT - age_s,
        "started": 1_700_000_000.0,
        "requests": requests,
        "dispatched": requests,
        "latency_sum": requests / 100,
        "latency_count": requests,
        **figures,
    }
    return [element(value, instance=name, figure=figure) for figure, value in known.items()]


class FakePrometheus:
    """Answers the sample query from `servers`, every other from `alarms`."""

    def __init__(self) -> None:
        self.servers: list[dict[str, object]] = []
        self.alarms: dict[str, bytes] = {}
        self.queries: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        assert (request.method, request.path) == ("POST", "/api/v1/query")
        assert "Authorization" not in request.headers
        query = str((await request.post())["query"])
        self.queries.append(query)
        body = answer(*self.servers) if query == SAMPLE_QUERY else self.alarms[query]
        return web.Response(body=body)
