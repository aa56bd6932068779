"""What the decision may be told by whoever runs the service."""

from dataclasses import dataclass

DEFAULT_IMAGE = "registry.k8s.io/pause:3.10.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideSettings:
    """What balloons run, and which images pools may name."""

    image: str = DEFAULT_IMAGE
    """The pause image, where a pool names none."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets of a pool's namespace with which its images are fetched, where the pool's template names none."""
    names_user: bool = True
    """Whether balloons name the user that they run as; else the namespace gives one, or the image has one."""
    allowed_images: tuple[str, ...] = ()
    """Prefixes of images that pools may name for `image` and `prePull`."""
