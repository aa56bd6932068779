"""Joiners: machines that exist only as the requests a kubelet sends when it joins, hundreds of them per core."""

from lab.joiner.herd import Admit, Herd
from lab.joiner.record import JoinRecord
from lab.joiner.settings import JoinerSettings, joiners

__all__ = ["Admit", "Herd", "JoinRecord", "JoinerSettings", "joiners"]
