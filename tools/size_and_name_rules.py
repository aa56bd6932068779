"""`python -m tools.size_and_name_rules`: holds the tree to its own house rules.

No file is longer than 650 lines; the product has at most 160 modules; no module below 60 lines has its only importer
beside it, in its own folder, unless it is a program of its own; no two public classes and no two files of the product
share a name; no text names a document that is not there; and outside of tests no variable is called each, found, given
or seen.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("balloons", "throttler")
MODULES = (*PRODUCT, "lab", "benchmarks", "tools")
LONGEST_FILE, SHORTEST_MODULE = 650, 60
MOST_MODULES = 160
"""Of the product, `__init__.py` not counted. Whoever adds one joins two others that are one concept."""
MAY_SHARE_A_NAME = frozenset({"__init__.py", "__main__.py", "settings.py"})
VAGUE_NAMES = frozenset({"each", "found", "given", "seen"})
TEXTS = frozenset({".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".tpl", ".txt"})
NAME_WHAT_IS_NOT_THERE = frozenset(
    {
        "CHANGELOG.md",
        "tests/unit/packaging/test_doc_links.py",
        "tests/unit/tools/test_size_and_name_rules.py",
    }
)
"""The first tells of the past, and the tests try broken links."""
_DOCUMENT = re.compile(r"(?<![\w{}*<>/.-])(?:\.{1,2}/)*[A-Za-z0-9_][\w./-]*\.md\b")
_PROGRAM = '\nif __name__ == "__main__":\n'
_GENERATED = ("_pb2.py", "_pb2_grpc.py")


def look(files: Mapping[str, str]) -> set[str]:
    """Hold `files`, texts by their paths from the root of the tree, against the rules; a sentence for each breach."""
    trees = {path: ast.parse(text) for path, text in files.items() if _is_module(path)}
    product = {path: tree for path, tree in trees.items() if path.startswith(tuple(f"{top}/" for top in PRODUCT))}
    return {
        *_too_long(files),
        *_too_many(product),
        *_crumbs(files, trees),
        *_shared("class", _public_classes(product)),
        *_shared("file name", ((PurePosixPath(path).name, path) for path in product)),
        *_absent_documents(files),
        *_vague_names(trees),
    }


def tracked_texts(root: Path) -> dict[str, str]:
    """Return every text under version control that is there, by its path."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        stdout=subprocess.PIPE,  # git itself says what is wrong, as with a folder that belongs to somebody else
        text=True,
    )
    paths = [path for path in listed.stdout.split("\0") if PurePosixPath(path).suffix in TEXTS or path == "Makefile"]
    return {path: (root / path).read_text() for path in paths if (root / path).is_file()}


def main() -> int:
    """Print what has to be repaired; the exit status says whether there was anything."""
    breaches = sorted(look(tracked_texts(ROOT)))
    sys.stdout.writelines(f"house: {breach}\n" for breach in breaches)
    return 1 if breaches else 0


def _is_module(path: str) -> bool:
    return path.split("/")[0] in MODULES and path.endswith(".py") and not path.endswith(_GENERATED)


def _too_long(files: Mapping[str, str]) -> Iterator[str]:
    for path, text in files.items():
        if path.endswith(".py") and text.count("\n") > LONGEST_FILE:
            yield f"{path} is longer than {LONGEST_FILE} lines"


def _too_many(product: Iterable[str]) -> Iterator[str]:
    modules = sum(PurePosixPath(path).name != "__init__.py" for path in product)
    if modules > MOST_MODULES:
        yield f"{' and '.join(PRODUCT)} have {modules} modules, more than {MOST_MODULES}"


def _crumbs(files: Mapping[str, str], trees: Mapping[str, ast.Module]) -> Iterator[str]:
    importers: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for module in _imported(tree):
            importers[module].add(path)
    for path in trees:
        name = PurePosixPath(path)
        if name.name in MAY_SHARE_A_NAME or files[path].count("\n") >= SHORTEST_MODULE or _PROGRAM in files[path]:
            continue
        users = importers[".".join(name.with_suffix("").parts)]
        user = PurePosixPath(min(users, default=""))
        if len(users) == 1 and user.parent == name.parent and user.name != "__init__.py":
            yield f"{path} is a crumb of {user.name}"


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _public_classes(trees: Mapping[str, ast.Module]) -> Iterator[tuple[str, str]]:
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def _shared(what: str, named: Iterable[tuple[str, str]]) -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, path in named:
        places[name].append(path)
    for name, paths in places.items():
        if len(paths) > 1 and name not in MAY_SHARE_A_NAME:
            yield f"{what} {name} is used twice: {', '.join(sorted(paths))}"


def _absent_documents(files: Mapping[str, str]) -> Iterator[str]:
    for path, text in files.items():
        if path in NAME_WHAT_IS_NOT_THERE:
            continue
        for document in {match[0] for match in _DOCUMENT.finditer(text)}:
            if not any(place in files for place in _meant(path, document)):
                yield f"{path} names {document}, which is not there"


def _meant(path: str, document: str) -> Iterator[str]:
    """Yield where a document may be that a text names: beside it, above it, in docs/ or at the root."""
    for folder in (PurePosixPath(path).parent, PurePosixPath("docs"), PurePosixPath(".")):
        parts: list[str] = []
        for part in (folder / document).parts:
            if part == "..":
                parts = parts[:-1]
            elif part != ".":
                parts.append(part)
        yield "/".join(parts)


def _vague_names(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
            name = node.arg if isinstance(node, ast.arg) else name
            if name in VAGUE_NAMES:
                yield f"{path} has a variable called {name}; name the thing"


if __name__ == "__main__":
    sys.exit(main())
