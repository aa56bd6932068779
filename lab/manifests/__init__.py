"""What is generated from the manifests: the chart's copies, schema and table of values, and the table of rights."""

from lab.manifests.generated import CHART, MANIFESTS, generated

__all__ = ["CHART", "MANIFESTS", "generated"]
