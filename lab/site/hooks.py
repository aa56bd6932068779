"""What MkDocs does for us besides: links that leave docs/ lead to the repository, and options stay in one line.

On a page of the repository `../SECURITY.md` works as it is; the site has docs/ alone. A browser breaks a line after
the hyphens of `--quick`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/kube-balloons/kube-balloons"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")

CODE = re.compile(r"<code>[^<]*</code>")
OPTION = re.compile(r"(?<![\w-])--\w[\w-]*")


class SourceFile(Protocol):
    """A page's source as MkDocs knows it."""

    src_uri: str


class Page(Protocol):
    """A page as MkDocs hands it over."""

    file: SourceFile


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """The page's text with every link that leaves docs/ made absolute; MkDocs calls this for each page."""
    return LINK.sub(lambda match: _target(page.file.src_uri, match[1], match[2] or ""), markdown)


def on_page_content(html: str, **_: object) -> str:
    """The page's HTML with every option inside code marked (`docs/site.css`); MkDocs calls this for each page."""
    return CODE.sub(lambda code: OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)


def _target(page: str, link: str, anchor: str) -> str:
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if path.startswith("docs/") or not (ROOT / path).exists():
        return link + anchor
    return f"{REPOSITORY}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}{anchor}"
