"""What is generated from the manifests is what lies there: `make manifests`."""

from lab.manifests import CHART, generated
from lab.manifests.values import Value, read_values
from lab.manifests.values_schema import values_schema


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
