"""Joiners: machines that exist only as the requests a kubelet sends when it joins, hundreds of them per core."""

from lab.cloud.joiner.herd import Admit, Herd
from lab.cloud.joiner.settings import JoinerSettings, JoinRecord, joiners

__all__ = ["Admit", "Herd", "JoinRecord", "JoinerSettings", "joiners"]
