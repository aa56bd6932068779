"""Every link between our pages leads somewhere, to the very heading where it names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("manifests/**/*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)">')
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGE_IN_BACKTICKS = re.compile(r"(?<!\[)`((?:docs/)?[\w/-]+\.md)`")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, without punctuation, blanks as hyphens; and those that are set."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = {re.sub(r"[^\w\- ]", "", found.lower()).replace(" ", "-") for found in HEADING.findall(text)}
    return headings | set(ANCHOR.findall(text))


def broken(page: Path) -> list[str]:
    """The links of a page to files or headings that are not there."""
    found = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, two\n[a](#one-two) [b](#three) [c](page.md#one-two) [d](none.md) [e](https://x.example/#y)\n"
    )
    assert broken(page) == ["#three", "none.md"]


def test_readme_links_to_pages_and_does_not_only_name_them() -> None:
    assert PAGE_IN_BACKTICKS.findall((ROOT / "README.md").read_text(encoding="utf-8")) == []


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [page for page in pages if page not in contents] == []


def test_the_site_asks_nothing_of_others() -> None:
    """The theme loads its fonts from elsewhere unless told not to, and asks a repository's host for its stars."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\n  font: false\n" in settings
    assert "\nrepo_url:" not in settings
    assert "\nstrict: true\n" in settings


def test_the_site_works_from_its_files_follows_the_screen_and_fits_a_phone() -> None:
    """Links to folders need a server; a choice of light or dark that nobody made would stay for ever."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\nuse_directory_urls: false" in settings
    assert settings.index('media: "(prefers-color-scheme)"') < settings.index('media: "(prefers-color-scheme: light)"')
    assert "\nextra_css: [site.css]\n" in settings
    assert "overflow-x: auto" in (ROOT / "docs" / "site.css").read_text(encoding="utf-8")
