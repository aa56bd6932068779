"""Files that commands write, whole or not at all, and nobody else's; and what of files that they read is refused."""

import os
from pathlib import Path

import pytest

from balloons.cli.input_and_output_files import DEEPEST, MOST_BYTES, MOST_DOCUMENTS, documents, write
from balloons.cli.terminal import CommandError


def test_a_link_under_the_drafts_usual_name_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write in a shared folder must not choose which file of ours is overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".plan.json.draft").symlink_to(victim)
    write(str(tmp_path / "plan.json"), "{}")
    assert (victim.read_text(), (tmp_path / "plan.json").read_text()) == ("mine", "{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".plan.json.draft", "plan.json", "victim"]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = str(tmp_path / "no" / "page.html")
    with pytest.raises(CommandError, match=r"page\.html cannot be written: no such file or directory$"):
        write(file, "")


@pytest.mark.parametrize("name", ["file/page.html", "a" * 300])
def test_a_name_under_which_nothing_can_be_is_told(tmp_path: Path, name: str) -> None:
    """Neither the file nor its draft: the draft's end must not hide why."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CommandError, match=r"cannot be written: (not a directory|file name too long)$"):
        write(str(tmp_path / name), "")


def test_a_name_that_is_nearly_too_long_is_no_trouble(tmp_path: Path) -> None:
    write(str(tmp_path / ("a" * 250)), "whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_is_no_file_to_write(name: str) -> None:
    with pytest.raises(CommandError, match=r"cannot be written: is a directory$"):
        write(name, "")


def test_a_pipe_or_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As root a plan for /dev/null took the place of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(str(pipe), "whole")
        assert (os.read(reading, 100), pipe.is_fifo()) == (b"whole", True)
    finally:
        os.close(reading)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe"]


def test_a_file_that_is_too_large_is_no_bad_text(tmp_path: Path) -> None:
    """It was read up to the middle of a letter."""
    (tmp_path / "x.yaml").write_bytes(b"# " + "é".encode() * (MOST_BYTES // 2))
    with pytest.raises(CommandError, match=r"more than 16,777,216 bytes$"):
        documents(str(tmp_path / "x.yaml"))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"items":[', "]}")])
def test_json_is_no_deeper_than_yaml_may_be(tmp_path: Path, opening: str, closing: str) -> None:
    """Its own reader goes to a depth at which nothing else can follow."""
    path, deepest = tmp_path / "pods.json", DEEPEST // len(opening.replace('"items":', ""))
    path.write_text(opening * deepest + closing * deepest)
    assert len(documents(str(path))) == 1
    path.write_text(opening * (deepest + 1) + closing * (deepest + 1))
    with pytest.raises(CommandError, match=rf"nested more than {DEEPEST} deep$"):
        documents(str(path))


@pytest.mark.whole
def test_a_file_of_more_documents_than_are_read_is_refused(tmp_path: Path) -> None:
    """Those beyond were left out without a word, and the plan was for fewer pods."""
    path = tmp_path / "pods.yaml"
    path.write_text("a: 1\n---\n" * MOST_DOCUMENTS)
    assert len(documents(str(path))) == MOST_DOCUMENTS
    path.write_text("a: 1\n---\n" * (MOST_DOCUMENTS + 1))
    with pytest.raises(CommandError, match=r"10,001 documents; accepted: at most 10,000, or one List of all objects$"):
        documents(str(path))
