"""Compiles what the service imports, inside an image build: the root file system is read-only when it runs.

Only that: the client's package brings 2,000 modules, of which 66 are ever imported. Hash-based and unchecked, so that
two builds give the same bytes and nothing is looked at again at start.
"""

import importlib
import pkgutil
import py_compile
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from py_compile import PycInvalidationMode

ROOTS = ("balloons", "throttler", "kubernetes.aio.client", "kubernetes.aio.config")
LEFT_OUT = "__main__"


def main(folder: Path) -> None:
    """Write the bytecode beside each module of `folder` that the service imports."""
    sys.path.insert(0, str(folder))
    for root in ROOTS:
        _import_all(root)
    # In a process of its own that has imported nothing: what else is in memory may show in the bytecode.
    names = "\n".join(str(path) for path in sorted(_files(folder)))
    command = [sys.executable, "-S", __file__]
    subprocess.run(command, input=names, text=True, check=True, env={"PYTHONHASHSEED": "0"})


def compile_named(names: Iterable[str]) -> None:
    """Write the bytecode of these files."""
    for name in names:
        py_compile.compile(name, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)


def _import_all(root: str) -> None:
    package = importlib.import_module(root)
    if root.startswith("kubernetes"):
        return
    for module in pkgutil.walk_packages(package.__path__, f"{root}."):
        if not module.name.endswith(LEFT_OUT):
            _import_unless_extra(module.name)


def _import_unless_extra(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # What draws pictures needs libraries that the image does not have, on purpose.
        print(f"{name} is not compiled: {error}", file=sys.stderr)


def _files(folder: Path) -> Iterator[Path]:
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "")
        if path.suffix == ".py" and path.is_relative_to(folder):
            yield path


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        compile_named(sys.stdin.read().splitlines())
