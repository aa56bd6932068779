"""What is generated from the manifests is what lies there: `make manifests`."""

from pathlib import Path

import pytest

from lab.manifests import CHART, generated
from lab.manifests.values import Value, read_values, values_schema
from lab.manifests.values_pages import groups_part, platform_rows, platforms_part, reasoned, values_page, with_parts


def test_every_generated_file_is_as_it_would_be_written_now() -> None:
    wanted = generated()
    assert {path for path, text in wanted.items() if path.read_text(encoding="utf-8") != text} == set()


def test_the_chart_has_no_copy_whose_source_is_gone() -> None:
    assert {path for path in (CHART / "files").rglob("*.*") if path.is_file()} <= set(generated())


def test_every_value_says_what_it_is_for() -> None:
    def undocumented(values: tuple[Value, ...]) -> list[str]:
        return [each.dotted for each in values if not each.text] + [u for v in values for u in undocumented(v.below)]

    assert undocumented(read_values((CHART / "values.yaml").read_text(encoding="utf-8"))) == []


def test_a_comment_is_the_documentation_and_narrows_what_is_accepted() -> None:
    text = '# Replicas;\n# one decides\n# @schema {"minimum": 0}\nreplicas: 2\nrun:\n  # Own words\n  labels: {}\n'
    schema = values_schema((*read_values(text), Value(path=("global",), text="", default={})))
    assert schema["properties"]["replicas"] == {
        "description": "Replicas; one decides",
        "type": "integer",
        "minimum": 0,
    }
    assert schema["properties"]["run"]["properties"]["labels"]["additionalProperties"] is False
    assert schema["additionalProperties"] is False


def test_a_value_of_a_platform_says_why_it_is_set() -> None:
    text = "# A platform\n\nrun:\n  # Because of A\n  replicas: 1\n# Because of B\nguard: {after: 50, period: 5}\n"
    assert [(each.dotted, each.text) for each in reasoned(text)] == [
        ("run.replicas", "Because of A"),
        ("guard", "Because of B"),
    ]
    with pytest.raises(ValueError, match=r"run\.replicas is set without a reason"):
        list(reasoned("# A platform\n\nrun:\n  replicas: 1\n"))


def test_every_value_stands_on_the_page_in_the_section_to_which_its_group_leads() -> None:
    values = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    page = values_page(values, "# Values\n")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    leads = groups_part(values, "values.md")
    for value in values:
        section = sections[value.key] if value.below else sections["Names, labels and other objects"]
        assert all(f"| `{leaf}` |" in section for leaf in leaves(value))
        assert f"[`{value.key}`](values.md#{value.key.lower()})" in leads if value.below else f"`{value.key}`" in leads
    assert page.count("\n| `") == sum(len(leaves(value)) for value in values) > 150


def leaves(value: Value) -> list[str]:
    return [leaf for below in value.below for leaf in leaves(below)] if value.below else [value.dotted]


def test_a_platform_has_a_row_and_a_table_and_its_sources_are_links(tmp_path: Path) -> None:
    path = tmp_path / "moon.yaml"
    path.write_text(
        "# The Moon. Its dust is\n# fine.\n\n# As docs/levers.md says (https://moon.example/a#b)\nreplicas: 1\n"
    )
    assert "| [moon.yaml](platforms.md#moon) | The Moon |\n" in platform_rows([path], "platforms.md")
    part = platforms_part([path])
    assert part.startswith("## moon\n\nThe Moon. Its dust is fine.\n")
    assert "| `replicas` | `1` | As [levers.md](levers.md) says ([source](https://moon.example/a#b)) |\n" in part


def test_a_page_without_a_place_for_a_part_is_refused() -> None:
    marks = "<!-- values: written by make manifests -->\nold\n<!-- end of values -->"
    assert "\nnew\n" in with_parts(f"before\n{marks}\nafter\n", {"values": "new"})
    with pytest.raises(ValueError, match="no place for values"):
        with_parts("before\n", {"values": "new"})
