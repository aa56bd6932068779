"""Which of a node's extended resources are devices: accelerators, and the network cards beside them.

By well-known names. Anything else that a node offers may be a node agent's (a CNI's branch interfaces, reclaimed cpu).
"""

import re
from collections.abc import Iterable

_ACCELERATOR = re.compile(r"[^/]+/(gpu(\.shared)?|tpu|mig-.+|neuron|neuroncore|neurondevice)|gpu\.intel\.com/(i915|xe)")
_NETWORK = re.compile(r"[^/]+/(efa|rdma([_-].+)?)|rdma/.+")
_VIRTUAL = ("koordinator.sh/",)
"""Domains whose resources a node agent makes up and moves; they say gpu and rdma, too."""
_NEURON = re.compile(r"[^/]+/neuron.*")


def is_device(name: str) -> bool:
    """Whether a balloon asks for this resource by itself; others only where the pool names them in `shape.devices`."""
    return is_accelerator(name) or (_NETWORK.fullmatch(name) is not None and not name.startswith(_VIRTUAL))


def is_accelerator(name: str) -> bool:
    """Whether this counts GPUs or the like: whole ones, slices or shares of them, TPUs, Neuron devices or cores."""
    return _ACCELERATOR.fullmatch(name) is not None and not name.startswith(_VIRTUAL)


def counted_apart(names: Iterable[str]) -> list[list[str]]:
    """Groups of accelerators whose amounts may be added up.

    A Neuron node offers the same chips three times (devices, cores and their old name): these are never added. Slices
    and whole GPUs are different chips.
    """
    accelerators = sorted(filter(is_accelerator, names))
    added = [name for name in accelerators if not _NEURON.fullmatch(name)]
    alone = [[name] for name in accelerators if _NEURON.fullmatch(name)]
    return [added, *alone] if added else alone
