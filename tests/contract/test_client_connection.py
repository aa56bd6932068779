"""What our connection relies on in the installed kubernetes client: configuration, authentication, TLS."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.throttler.kube.loopback_api import LoopbackApi, accepting, authority, loopback_api
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.errors import ConfigError, TlsRefusedError, UnauthorizedError
from throttler.kube.kube_client import KubeClient, open_client
from throttler.kube.requests import Resource

NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)


@asynccontextmanager
async def client_of(options: ConnectionOptions) -> AsyncIterator[KubeClient]:
    async with open_client(await load_connection(options), "contract") as client:
        yield client


@pytest.fixture
def read_again_at_once(monkeypatch):
    """Credentials count as old at once, instead of after 30 s."""
    monkeypatch.setattr("throttler.kube.connection.MAX_AGE_S", 0.0)


class Pod:
    """The files that a kubelet projects, and the environment."""

    def __init__(self, folder: Path, api: LoopbackApi, ca: Path, token: str = "first") -> None:
        self.folder = folder / "serviceaccount"
        self.folder.mkdir()
        self.set_token(token)
        self.set_ca(ca)
        (self.folder / "namespace").write_text("our-namespace")
        port = api.url.rsplit(":", 1)[1]
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        self.options = ConnectionOptions(environ=environ, service_account=self.folder)

    def set_token(self, token: str) -> None:
        (self.folder / "token").write_text(f"{token}\n")

    def set_ca(self, ca: Path) -> None:
        (self.folder / "ca.crt").write_bytes(ca.read_bytes())


async def test_in_a_pod_requests_carry_the_token_and_then_the_rotated_one(tmp_path, read_again_at_once):
    ca = authority(tmp_path)
    async with loopback_api(pair=ca.issue_server("server")) as api:
        pod = Pod(tmp_path, api, ca.pair.certificate)
        async with client_of(pod.options) as client:
            await client.get(NODES, "n")
            pod.set_token("second")
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer first", "Bearer second"]


async def test_in_a_pod_a_refused_token_is_read_again_at_once(tmp_path):
    ca = authority(tmp_path)
    async with loopback_api(accepting("Bearer second"), ca.issue_server("server")) as api:
        pod = Pod(tmp_path, api, ca.pair.certificate)
        async with client_of(pod.options) as client:
            with pytest.raises(UnauthorizedError):
                await client.get(NODES, "n")
        async with client_of(pod.options) as client:
            pod.set_token("second")
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer first", "Bearer first", "Bearer second"]


async def test_in_a_pod_a_missing_or_empty_token_file_leaves_the_old_one_in_use(tmp_path, read_again_at_once):
    ca = authority(tmp_path)
    async with loopback_api(pair=ca.issue_server("server")) as api:
        pod = Pod(tmp_path, api, ca.pair.certificate)
        async with client_of(pod.options) as client:
            (pod.folder / "token").write_text("")
            await client.get(NODES, "n")
            (pod.folder / "token").unlink()
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer first"] * 2


async def test_in_a_pod_a_new_authority_is_trusted_as_soon_as_its_file_is_there(tmp_path):
    old, new = authority(tmp_path / "old"), authority(tmp_path / "new")
    async with loopback_api(pair=new.issue_server("server")) as api:
        pod = Pod(tmp_path, api, old.pair.certificate)
        async with client_of(pod.options) as client:
            with pytest.raises(TlsRefusedError):
                await client.get(NODES, "n")
        async with client_of(pod.options) as client:
            pod.set_ca(new.pair.certificate)
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer first"]


async def test_in_a_pod_the_default_namespace_is_the_pods(tmp_path):
    ca = authority(tmp_path)
    async with loopback_api(pair=ca.issue_server("server")) as api:
        pod = Pod(tmp_path, api, ca.pair.certificate)
        assert (await load_connection(pod.options)).namespace == "our-namespace"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
async def test_in_a_pod_empty_files_at_the_start_are_named(tmp_path, name):
    ca = authority(tmp_path)
    async with loopback_api(pair=ca.issue_server("server")) as api:
        pod = Pod(tmp_path, api, ca.pair.certificate)
        (pod.folder / name).write_text("")
        with pytest.raises(ConfigError, match="serviceaccount"):
            await load_connection(pod.options)


def write_kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> ConnectionOptions:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return ConnectionOptions(kubeconfig=str(path), environ={})


async def test_kubeconfig_token_and_impersonation(tmp_path):
    async with loopback_api() as api:
        options = write_kubeconfig(tmp_path, api.url, {"token": "t"})
        as_other = ConnectionOptions(kubeconfig=options.kubeconfig, as_user="jane", as_groups=["a", "b"])
        async with client_of(options) as client, client_of(as_other) as other:
            await client.get(NODES, "n")
            await other.get(NODES, "n")
    assert api.tokens == ["Bearer t"] * 2
    assert "Impersonate-User" not in api.asked[0].headers
    assert api.asked[1].headers["Impersonate-User"] == "jane"
    assert api.asked[1].headers.getall("Impersonate-Group") == ["a", "b"]


async def test_kubeconfig_token_file_beside_it_is_read_again(tmp_path, read_again_at_once):
    (tmp_path / "token").write_text("one\n")
    async with loopback_api() as api:
        options = write_kubeconfig(tmp_path, api.url, {"tokenFile": "token"})
        async with client_of(options) as client:
            await client.get(NODES, "n")
            (tmp_path / "token").write_text("two\n")
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer one", "Bearer two"]


async def test_kubeconfig_user_and_password(tmp_path):
    async with loopback_api() as api:
        options = write_kubeconfig(tmp_path, api.url, {"username": "u", "password": "p"})
        async with client_of(options) as client:
            await client.get(NODES, "n")
    assert api.tokens == ["Basic dTpw"]


async def test_kubeconfig_client_certificate_and_server_name(tmp_path):
    ca = authority(tmp_path)
    jane = ca.issue_client("jane", "jane", ["team"])
    async with loopback_api(pair=ca.issue_server("server"), clients=ca.pair.certificate) as api:
        options = write_kubeconfig(
            tmp_path,
            api.url,
            {"client-certificate": jane.certificate.name, "client-key": jane.key.name},
            **{"certificate-authority": ca.pair.certificate.name, "tls-server-name": "kubernetes.default"},
        )
        async with client_of(options) as client:
            await client.get(NODES, "n")
        wrong_name = write_kubeconfig(
            tmp_path, api.url, {}, **{"certificate-authority": "ca.crt", "tls-server-name": "other.example"}
        )
        async with client_of(wrong_name) as client:
            with pytest.raises(TlsRefusedError):
                await client.get(NODES, "n")
    assert api.tokens == [None]


async def test_kubeconfig_may_skip_the_check_of_the_server(tmp_path):
    pair = authority(tmp_path).issue_server("server")
    async with loopback_api(pair=pair) as api:
        options = write_kubeconfig(tmp_path, api.url, {"token": "t"}, **{"insecure-skip-tls-verify": True})
        async with client_of(options) as client:
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer t"]


def plugin(folder: Path, body: str) -> dict[str, Any]:
    """An exec plugin in Python that appends a line to `runs` each time."""
    script = folder / "plugin.py"
    script.write_text(f"open({str(folder / 'runs')!r}, 'a').write('run\\n')\n{body}\n")
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


def printing(token_of_run: Callable[[Path], str], folder: Path) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    return (
        "import json\n"
        f"status = {{'token': {token_of_run(folder)}, 'expirationTimestamp': '2099-01-01T00:00:00Z'}}\n"
        f"print(json.dumps({credential!r} | {{'status': status}}))"
    )


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


async def test_kubeconfig_exec_plugin_runs_once_and_again_when_refused(tmp_path):
    numbered = printing(lambda folder: f"'run-%d' % len(open({str(folder / 'runs')!r}).readlines())", tmp_path)
    async with loopback_api(accepting("Bearer run-2")) as api:
        options = write_kubeconfig(tmp_path, api.url, plugin(tmp_path, numbered))
        async with client_of(options) as client:
            await asyncio.gather(*(client.get(NODES, f"n{i}") for i in range(5)))
    assert runs(tmp_path) == 2
    assert set(api.tokens) == {"Bearer run-1", "Bearer run-2"}


async def test_kubeconfig_exec_plugin_is_not_run_before_its_token_expires(tmp_path, read_again_at_once):
    async with loopback_api() as api:
        steady = plugin(tmp_path, printing(lambda folder: "'steady'", tmp_path))
        async with client_of(write_kubeconfig(tmp_path, api.url, steady)) as client:
            for _ in range(3):
                await client.get(NODES, "n")
    assert api.tokens == ["Bearer steady"] * 3
    assert runs(tmp_path) == 1


@pytest.mark.parametrize("body", ["raise SystemExit(3)", "print('no json')"])
async def test_kubeconfig_exec_plugin_that_fails_is_named(tmp_path, body):
    options = write_kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, body))
    with pytest.raises(ConfigError, match=r"kubeconfig: users\[u\]\.user\.exec"):
        await load_connection(options)


@pytest.mark.parametrize(
    ("user", "cluster", "named"),
    [
        ({"tokenFile": "absent"}, {}, "absent"),
        ({"client-certificate": "absent.crt", "client-key": "absent.key"}, {}, "absent.crt"),
        ({"token": "t"}, {"certificate-authority": "absent-ca.crt"}, "absent-ca.crt"),
        ({"token": "t"}, {"certificate-authority-data": "bm90IGEgY2VydA=="}, "TLS files"),
        ({"auth-provider": {"name": "oidc"}}, {}, "oidc|config"),
    ],
)
async def test_kubeconfig_mistakes_are_named(tmp_path, user, cluster, named):
    options = write_kubeconfig(tmp_path, "https://127.0.0.1:1", user, **cluster)
    with pytest.raises(ConfigError, match=named):
        await load_connection(options)


async def test_no_kubeconfig_at_all_is_said_in_plain_words(tmp_path):
    options = ConnectionOptions(kubeconfig=str(tmp_path / "none"), environ={})
    with pytest.raises(ConfigError, match=r"none: no such kubeconfig"):
        await load_connection(options)


async def test_two_kubeconfigs_are_read_as_one(tmp_path):
    async with loopback_api() as api:
        first = write_kubeconfig(tmp_path, api.url, {"token": "first"}).kubeconfig
        (tmp_path / "b").mkdir()
        second = write_kubeconfig(tmp_path / "b", "http://127.0.0.1:1", {"token": "second"}).kubeconfig
        environ = {"KUBECONFIG": f"{tmp_path}/absent:{first}:{second}"}
        async with client_of(ConnectionOptions(environ=environ)) as client:
            await client.get(NODES, "n")
    assert api.tokens == ["Bearer first"]


@pytest.mark.parametrize("changes", [{"request_timeout_s": 0}, {"request_timeout_s": -1}, {"as_groups": ["g"]}])
def test_options_that_make_no_sense_are_refused(changes):
    with pytest.raises(ConfigError):
        ConnectionOptions(**changes)


def test_importing_the_client_does_not_import_the_official_one():
    code = (
        "import sys, throttler.kube.kube_client, throttler.kube.reflector, throttler.kube.connection\n"
        "import json; print(json.dumps([name for name in sys.modules if name.split('.')[0] == 'kubernetes']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
