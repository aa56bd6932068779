"""What one side holds per node, in a fresh process: `python -m benchmarks.decode.memory ours|official COUNT`."""

import gc
import sys
import tracemalloc

import msgspec

from benchmarks.decode.node_list import node_pages
from benchmarks.decode.sides import Side, official, ours
from benchmarks.fresh_process import resident_bytes

SIDES: dict[str, Side] = {"ours": ours, "official": official}


def main(side: str, count: int) -> dict[str, float]:
    """Bytes per node that stay: by the allocator's own account, and by growth of the process."""
    read = SIDES[side]
    read(node_pages(10))
    pages = node_pages(count)
    before = _settled()
    held = read(pages)
    resident = (_settled() - before) / count
    del held
    traced = _traced(read, pages)
    return {"resident_bytes_per_node": resident, "traced_bytes_per_node": traced / count}


def _traced(read: Side, pages: list[bytes]) -> int:
    gc.collect()
    tracemalloc.start()
    held = read(pages)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del held
    return size


def _settled() -> int:
    gc.collect()
    return resident_bytes()


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(main(sys.argv[1], int(sys.argv[2]))))
