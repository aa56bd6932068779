"""Rights that the replay cannot see in use, each with the reason why it is granted all the same."""

from collections.abc import Mapping

UNSEEN: Mapping[str, str] = {
    "approve signers/kubernetes.io/kube-apiserver-client-kubelet.certificates.k8s.io": (
        "The API server asks for it itself when an approval is patched; no request names it."
    ),
}
"""By the right in words, as `lab.rights.grant.Grant` says it. `docs/rbac.md` shows this table; the replay fails where a
right is missing here, and where one here is no longer granted or is seen in use."""
