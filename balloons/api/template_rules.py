"""The rules of `spec.template`: what the balloon pods may carry besides what the service gives them.

Keys of Kubernetes and of the service itself are not accepted: by them schedulers and autoscalers are told how to treat
balloons, and whoever writes a pool does not decide that.
"""

import re
from collections.abc import Iterator

from balloons.api.pool import PodTemplate
from throttler.kube.decoding import Problem
from throttler.kube.selectors import KEY_PATTERN, VALUE_PATTERN

LONGEST_KEY = 317
RESERVED_PATTERN = r"(.*\.)?(kubernetes\.io|k8s\.io|kube-balloons\.github\.io)/.*"
NAME_PATTERN = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_KEY, _VALUE = re.compile(KEY_PATTERN, re.ASCII), re.compile(VALUE_PATTERN, re.ASCII)
_RESERVED, _NAME = re.compile(RESERVED_PATTERN, re.ASCII), re.compile(NAME_PATTERN, re.ASCII)


def template_problems(template: PodTemplate) -> Iterator[Problem]:
    """What is wrong with the template."""
    for field, pairs in (("labels", template.labels), ("annotations", template.annotations)):
        for key in pairs:
            if len(key) > LONGEST_KEY or not _KEY.fullmatch(key) or _RESERVED.fullmatch(key):
                yield Problem(
                    f"spec.template.{field}",
                    f'key "{key}" is not accepted; '
                    "accepted: a key outside kubernetes.io, k8s.io and kube-balloons.github.io, such as team",
                )
    for key, value in template.labels.items():
        if not _VALUE.fullmatch(value):
            yield Problem(
                f"spec.template.labels[{key}]",
                f'label value "{value}" cannot be on a pod; accepted: at most 63 letters, digits, -, _ and .',
            )
    for index, secret in enumerate(template.image_pull_secrets):
        if not _NAME.fullmatch(secret.name):
            yield Problem(
                f"spec.template.imagePullSecrets[{index}].name",
                f'name "{secret.name}" is not accepted; accepted: the name of a Secret, such as registry',
            )
    if template.runtime_class_name and not _NAME.fullmatch(template.runtime_class_name):
        yield Problem(
            "spec.template.runtimeClassName",
            f'name "{template.runtime_class_name}" is not accepted; '
            "accepted: the name of a RuntimeClass, such as nvidia",
        )
