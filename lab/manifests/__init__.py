"""What is generated from the manifests: the chart's copies, schema and table of values, and the table of rights."""

from lab.manifests.generated import generated
from lab.manifests.places import CHART, MANIFESTS

__all__ = ["CHART", "MANIFESTS", "generated"]
