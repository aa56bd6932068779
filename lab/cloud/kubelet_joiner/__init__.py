"""Simulated kubelets (joiners): machines that exist only as the requests a kubelet sends, hundreds of them per core."""

from lab.cloud.kubelet_joiner.herd import Admit, Herd
from lab.cloud.kubelet_joiner.settings import JoinerSettings, JoinRecord, joiners

__all__ = ["Admit", "Herd", "JoinRecord", "JoinerSettings", "joiners"]
