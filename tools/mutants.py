"""`python -m tools.mutants`: change the pure modules in one place at random, and tell which changes no test notices.

The modules are those that the import contract calls pure, as far as users get them. Each mutant is tried in a copy of
the tree in a temporary folder, never in the tree itself, against the unit tests nearest to its module: the file of its
name, then those that import it, then the rest of its mirrored folder, then `FURTHER`, then those that import a module
which imports it; the first failure ends it. The nearest file runs alone at first: most mutants die there, before
anything else is imported. The tests that take whole simulations come after all the others, but for the indirect ones:
nearly every simulation reaches nearly every module so.

A loop without an end is noticed: tests that take more than `TIMES` the CPU that they took without a mutant have failed.
No mutant is begun after `--minutes`; where it stopped is told, and `--skip` goes on from there with the same seed. The
exit status is 1 where fewer die, of all that were drawn, than `--floor` asks for.

What nobody can observe is not drawn, by these rules of syntax:

- annotations, types in `cast`, `Literal`, `TypeVar` and `NewType`, and `if TYPE_CHECKING`: mypy reads them, and no
  program does;
- decorators and the options of a class, `frozen=True` and `slots=True` among them: they forbid what the code never
  does;
- `strict=True` of a `zip`: it raises where the code itself is wrong;
- the size of a `lru_cache`, and a constant that its module reads for nothing else: it changes how long an answer takes,
  and not the answer;
- None where False is returned: whoever asks whether cannot tell them apart, and True is drawn as well;
- what `assert` and an AssertionError or NotImplementedError that is raised say, and `assert_never`: they run where the
  code itself is wrong.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import copy
import itertools
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from queue import SimpleQueue

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = "importlinter:contract:pure"
PRODUCT = ("balloons.", "throttler.")
TREES = ("balloons", "throttler", "lab", "tests")
"""Where modules are that tests import."""
QUICK, WHOLE = "not whole", "whole"
"""How tests are marked, as pytest's -m has it."""
LONGEST_S = 1200
"""Of one run of tests, should nothing else end it; time in which this program stood still as well does not count."""
START_S, TIMES = 20, 3
"""CPU that a run may take with a mutant: to begin, and per second that its tests took without one, by the clock.

CPU, for a machine that does other things as well is no mutant's fault.
"""
MEMORY_BYTES = 6 * 1024**3
"""Per mutant: a loop without an end that appends does not take the machine with it."""
FURTHER: Mapping[str, str] = {
    "balloons/preview/": "tests/unit/lab/test_pictures.py",
    "balloons/report/": "tests/unit/lab/test_pictures.py",
    "throttler/law/": "tests/unit/throttler/service/test_*.py",
    "throttler/simulator/": "tests/unit/lab/simulator/test_*.py",
}
"""Where a package is judged by what comes of it as well: drawings byte by byte, what the law does to whole stories."""
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", "build", ".hypothesis", "__pycache__", ".*_cache", ".import_linter*"
)

_NEGATED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_NEIGHBOURS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITES: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_TYPES = frozenset({"TypeVar", "ParamSpec", "NewType"})
_OF_A_WRONG_PROGRAM = frozenset({"AssertionError", "NotImplementedError"})
_TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module: the `index`-th of those that `changes` yields for it."""

    path: str
    index: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    is_dead: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class _Change:
    """A node of a tree and what would stand in its place."""

    node: ast.expr | ast.stmt
    new: ast.AST


def changes(tree: ast.Module) -> Iterator[_Change]:
    """Yield every single change that this tool makes to `tree`, always in the same order."""
    for node in _code(tree, _cache_sizes(tree)):
        yield from _of_logic(node)
        yield from _of_values(node)


def _of_logic(node: ast.expr | ast.stmt) -> Iterator[_Change]:
    match node:
        case ast.Compare():
            yield from _operator_changes(node, _NEGATED)
            yield from _operator_changes(node, _NEIGHBOURS)
        case ast.BoolOp():
            yield _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
            for value in node.values:
                others = [other for other in node.values if other is not value]
                yield _set(node, "values", others) if len(others) > 1 else _Change(node, others[0])
        case ast.UnaryOp(op=ast.Not()):
            yield _Change(node, node.operand)
        case ast.If() | ast.IfExp():
            yield from (_set(node, "test", ast.Constant(value)) for value in (True, False))
        case ast.Continue() | ast.Expr(value=ast.Call()):
            yield _Change(node, ast.Pass())
        case ast.Return(value=ast.expr() as value) if not (_is_constant(value, None) or _is_constant(value, False)):
            yield _set(node, "value", ast.Constant(None))


def _of_values(node: ast.expr | ast.stmt) -> Iterator[_Change]:
    match node:
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPPOSITES and not _is_text(node):
            yield _set(node, "op", _OPPOSITES[type(node.op)]())
        case ast.Call(func=ast.Name(id=name)) if name in _TWINS:
            yield _set(node, "func", ast.Name(_TWINS[name]))
        case ast.Constant(value=bool() as value):
            yield _set(node, "value", not value)
        case ast.Constant(value=int() | float() as value):
            yield _set(node, "value", 2 * value or 1)


def _is_constant(node: ast.expr, value: bool | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _operator_changes(node: ast.Compare, into: Mapping[type[ast.cmpop], type[ast.cmpop]]) -> Iterator[_Change]:
    for number, operator in enumerate(node.ops):
        if (other := into.get(type(operator))) is not None:
            yield _set(node, "ops", [*node.ops[:number], other(), *node.ops[number + 1 :]])


def _set(node: ast.expr | ast.stmt, field: str, value: object) -> _Change:
    new = copy.copy(node)
    setattr(new, field, value)
    return _Change(node, new)


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    return any(isinstance(part, ast.JoinedStr | ast.Constant) and _is_string(part) for part in ast.walk(node))


def _is_string(node: ast.JoinedStr | ast.Constant) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node.value, str)


def _code(node: ast.AST, unread: Set[str]) -> Iterator[ast.expr | ast.stmt]:
    """Yield what runs and can be observed: the docstring of this module says what that leaves out."""
    ignored = _ignored(node)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "keywords" if isinstance(node, ast.ClassDef) else ""):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or child in ignored or _is_unobservable(child, unread):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from _code(child, unread)


def _ignored(node: ast.AST) -> Sequence[ast.AST]:
    """Return the children of a node that only a type checker, a cache or a wrong program reads."""
    match node:
        case ast.Call(func=func, args=[kind, *_]) if _last_name(func) == "cast":
            return [kind]
        case ast.Call(func=func) if _last_name(func) in _TYPES | {"lru_cache"}:
            return [*node.args, *node.keywords]
        case ast.Call(func=func, keywords=options) if _last_name(func) == "zip":
            return [option for option in options if _is_constant(option.value, True)]
        case ast.Subscript(value=value) if _last_name(value) == "Literal":
            return [node.slice]
        case ast.Assert(msg=ast.expr() as message):
            return [message]
        case ast.Raise(exc=ast.Call(func=func) as error) if _last_name(func) in _OF_A_WRONG_PROGRAM:
            return [error]
    return []


def _is_unobservable(node: ast.AST, unread: Set[str]) -> bool:
    match node:
        case ast.If(test=test):
            return _last_name(test) == "TYPE_CHECKING"
        case ast.Expr(value=ast.Call(func=func)):
            return _last_name(func) == "assert_never"
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in unread
    return False


def _last_name(node: ast.expr) -> str:
    """Return `cast` of `cast` and of `typing.cast`, and nothing of what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _cache_sizes(tree: ast.Module) -> Set[str]:
    """Return the names that this module reads as the size of a cache, and nowhere else."""
    sizes = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node.func) == "lru_cache"]
    read = [node for size in sizes for child in _ignored(size) for node in ast.walk(child)]
    return _read_names(read) - _read_names(node for node in ast.walk(tree) if node not in read)


def _read_names(nodes: Iterable[ast.AST]) -> Set[str]:
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def mutated(source: str, index: int) -> str:
    """Return `source` with its `index`-th change made, as Python writes it from the tree."""
    tree = ast.parse(source)
    change = next(itertools.islice(changes(tree), index, None))
    return ast.unparse(ast.fix_missing_locations(_Replace(change.node, change.new).visit(tree))) + "\n"


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of one module."""
    for index, change in enumerate(changes(ast.parse(source))):
        yield _told(path, index, change)


def _told(path: str, index: int, change: _Change) -> Mutant:
    return Mutant(path, index, change.node.lineno, _one_line(change.node), _one_line(change.new))


def _one_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node)).splitlines()[0][:110]


def pure_modules(root: Path) -> list[str]:
    """Return the paths of the modules that the import contract calls pure and that users get."""
    contract = configparser.ConfigParser()
    contract.read(root / ".importlinter")
    paths: list[str] = []
    for name in contract[CONTRACT]["source_modules"].split():
        if name.startswith(PRODUCT):
            place = root / name.replace(".", "/")
            files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
            paths += [str(file.relative_to(root)) for file in files]
    return paths


def nearest_tests(root: Path, path: str) -> list[str]:
    """Return the unit tests of one module, nearest first; a package without a folder of tests has its parent's.

    Those of `FURTHER` come last.
    """
    module = PurePosixPath(path)
    folder = root / "tests/unit" / module.parent
    while not any(folder.glob("test_*.py")):
        folder = folder.parent
    mirrored = sorted(str(test.relative_to(root)) for test in folder.glob("test_*.py"))
    own = [test for test in mirrored if PurePosixPath(test).stem == f"test_{module.stem}"]
    direct = sorted(filter(_is_unit_test, _importers(root)[path]), key=lambda test: (test not in mirrored, test))
    further = [test for package, tests in FURTHER.items() if path.startswith(package) for test in root.glob(tests)]
    return list(dict.fromkeys((*own, *direct, *mirrored, *sorted(str(test.relative_to(root)) for test in further))))


def indirect_tests(root: Path, path: str) -> list[str]:
    """Return the unit tests that import one that imports this module, without the nearest."""
    importers = _importers(root)
    tests = {test for middle in importers[path] for test in importers[middle] if _is_unit_test(test)}
    return sorted(tests - set(nearest_tests(root, path)))


def _is_unit_test(path: str) -> bool:
    return path.startswith("tests/unit/") and PurePosixPath(path).name.startswith("test_")


@lru_cache(maxsize=4)
def _importers(root: Path) -> Mapping[str, Set[str]]:
    """Return for each of our modules the paths of those that import it, or names of it, anywhere in their code."""
    files = [file.relative_to(root) for top in TREES for file in sorted((root / top).rglob("*.py"))]
    paths = {".".join(file.with_suffix("").parts): str(file) for file in files}
    importers: dict[str, set[str]] = defaultdict(set)
    for path in paths.values():
        for name in _imported(ast.parse((root / path).read_text())):
            if name in paths:
                importers[paths[name]].add(path)
    return importers


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str() as package):
                yield package
                yield from (f"{package}.{alias.name}" for alias in node.names)


class Trial:
    """Copies of the tree, one for each mutant that is tried at the same time; a context manager."""

    def __init__(self, root: Path, jobs: int) -> None:
        self._root, self._jobs = root, jobs
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)

    def __enter__(self) -> Trial:
        self._folder = Path(tempfile.mkdtemp(prefix="kube-balloons-mutants-"))
        self._trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(self._jobs):
            tree = self._folder / str(number)
            shutil.copytree(self._root, tree, ignore=NOT_COPIED)
            self._trees.put(tree)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, mutant: Mutant) -> Outcome:
        """Try one; called from `jobs` threads at a time."""
        tree = self._trees.get()
        module = tree / mutant.path
        source = module.read_text()
        began_s = time.monotonic()
        try:
            module.write_text(mutated(source, mutant.index))
            is_dead = not all(
                _passes(tree, marked, tests, cpu_s=self._cpu_s(marked, tests))
                for marked, tests in self._runs(mutant.path)
                if tests
            )
        finally:
            module.write_text(source)
            self._trees.put(tree)
        return Outcome(mutant, is_dead, time.monotonic() - began_s)

    def _runs(self, path: str) -> Sequence[tuple[str, Sequence[str]]]:
        nearest, *others = nearest_tests(self._root, path)
        quick = ([nearest], others, indirect_tests(self._root, path))
        return *((QUICK, tests) for tests in quick), (WHOLE, [nearest, *others])

    def _cpu_s(self, marked: str, tests: Sequence[str]) -> int:
        return START_S + math.ceil(TIMES * sum(self._seconds[marked, test] for test in tests))

    def passes(self, paths: Iterable[str]) -> bool:
        """Whether the tests that judge the mutants of these modules pass without any; remembers what they take."""
        tests: Mapping[str, dict[str, None]] = {QUICK: {}, WHOLE: {}}
        for marked, files in itertools.chain.from_iterable(map(self._runs, paths)):
            tests[marked].update(dict.fromkeys(files))
        return all(self._is_clean(marked, list(files)) for marked, files in tests.items())

    def _is_clean(self, marked: str, tests: Sequence[str]) -> bool:
        report = self._folder / "report.xml"
        options = ("--junitxml", str(report), "-o", "junit_family=xunit1", f"--numprocesses={self._jobs}")
        tree = self._trees.get()
        try:
            passes = _passes(tree, marked, [*options, *tests])
        finally:
            self._trees.put(tree)
        for case in ElementTree.parse(report).iter("testcase"):
            self._seconds[marked, case.attrib["file"]] += float(case.attrib["time"])
            if case.find("failure") is not None or case.find("error") is not None:
                print(f"fails  {case.attrib['file']}::{case.attrib['name']}", flush=True)
        return passes


def _passes(tree: Path, marked: str, tests: Sequence[str], cpu_s: int | None = None) -> bool:
    """Whether those of the tests pass that are marked so, with so much CPU; none is enough."""
    options = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutants", "--timeout=0")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "-m", f"not promtool and {marked}", *tests],
        cwd=tree,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        if cpu_s is not None:
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (cpu_s, cpu_s))
        for _ in range(LONGEST_S):
            with suppress(subprocess.TimeoutExpired):
                return process.wait(1.0) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        return False
    finally:
        # Of a run that was ended the commands which it had begun may be left.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def drawn(root: Path, count: int, seed: int, only: str = "", skip: int = 0) -> list[Mutant]:
    """Return `count` of all mutants of the pure modules whose path begins with `only`; equal for an equal seed.

    What is drawn with `skip` follows the first `skip` of the same seed, whatever the count.
    """
    everything = [
        (path, index, change)
        for path in pure_modules(root)
        if path.startswith(only)
        for index, change in enumerate(changes(ast.parse((root / path).read_text())))
    ]
    random.Random(seed).shuffle(everything)
    # Told only once they are drawn: to write all of them takes longer than to try some.
    return [_told(path, index, change) for path, index, change in everything[skip : skip + count]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants, print each that lives and how many died."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="equal mutants for an equal tree")
    parser.add_argument("--skip", type=int, default=0, help="of the mutants of this seed, leave out the first so many")
    parser.add_argument("--only", default="", help="modules whose path begins so, such as throttler/law")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no mutant after so long")
    parser.add_argument("--floor", type=float, default=0.0, help="percent that must die")
    asked = parser.parse_args(arguments)
    ends_s = time.monotonic() + 60.0 * asked.minutes
    mutants = drawn(ROOT, asked.count, asked.seed, asked.only, asked.skip)
    if not mutants:
        parser.error(f"nothing to try: no mutants, or no pure module begins with {asked.only!r}")
    print(f"seed {asked.seed}: {len(mutants)} mutants", flush=True)
    with Trial(ROOT, asked.jobs) as trial, ThreadPoolExecutor(asked.jobs) as pool:
        if not trial.passes(sorted({mutant.path for mutant in mutants})):
            print("the tests fail without any mutant")
            return 2
        tried = [outcome for outcome in pool.map(_before(ends_s, trial), mutants) if outcome]
    print(summary(tried, len(mutants)))
    if len(tried) < len(mutants):
        print(f"to go on: --seed {asked.seed} --skip {asked.skip + len(tried)} --count {len(mutants) - len(tried)}")
    return int(100.0 * sum(outcome.is_dead for outcome in tried) < asked.floor * len(mutants))


def _before(ends_s: float, trial: Trial) -> Callable[[Mutant], Outcome | None]:
    def run(mutant: Mutant) -> Outcome | None:
        if time.monotonic() > ends_s:
            return None
        outcome = trial.run(mutant)
        if not outcome.is_dead:
            print(f"lives  {mutant}", flush=True)
        return outcome

    return run


def summary(tried: Sequence[Outcome], drawn_count: int) -> str:
    """Say how many died, by folder and in all."""
    lines = []
    for folder in sorted({str(PurePosixPath(outcome.mutant.path).parent) for outcome in tried}):
        here = [outcome.is_dead for outcome in tried if str(PurePosixPath(outcome.mutant.path).parent) == folder]
        lines.append(f"{folder:24} {sum(here):3} of {len(here)} died")
    dead = sum(outcome.is_dead for outcome in tried)
    share = 100.0 * dead / len(tried) if tried else 0.0
    late = f"; {drawn_count - len(tried)} were not tried in time" if len(tried) < drawn_count else ""
    return "\n".join([*lines, f"{dead} of {len(tried)} died ({share:.0f} %){late}"])


if __name__ == "__main__":
    sys.exit(main())
