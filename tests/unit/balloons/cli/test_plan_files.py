"""Files that commands write: whole or not at all, and nobody else's."""

from pathlib import Path

import pytest

from balloons.cli.plan_files import write
from balloons.cli.terminal import CommandError


def test_a_link_under_the_drafts_usual_name_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write in a shared folder must not choose which file of ours is overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".plan.json.draft").symlink_to(victim)
    write(str(tmp_path / "plan.json"), "{}")
    assert (victim.read_text(), (tmp_path / "plan.json").read_text()) == ("mine", "{}")
    assert sorted(each.name for each in tmp_path.iterdir()) == [".plan.json.draft", "plan.json", "victim"]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = str(tmp_path / "no" / "page.html")
    with pytest.raises(CommandError, match=r"page\.html cannot be written: no such file or directory$"):
        write(file, "")
