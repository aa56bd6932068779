"""`python -m lab.manifests`: write everything that is generated from the manifests."""

from lab.manifests.generated import CHART, ROOT, generated


def main() -> None:
    """Write what differs, and remove copies whose source is gone."""
    wanted = generated()
    for path in sorted(set((CHART / "files").rglob("*.*")) - set(wanted)):
        if path.is_file():
            path.unlink()
            print(f"removed {path.relative_to(ROOT)}")
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
