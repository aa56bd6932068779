"""What the site's hooks make of a page."""

import pytest

from lab.site.hooks import on_page_content


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<code>--quick</code>", '<code><span class="option">--quick</span></code>'),
        (
            "<code>balloons run --kubeconfig FILE</code>",
            '<code>balloons run <span class="option">--kubeconfig</span> FILE</code>',
        ),
        ("<code>a--b -o wide</code>", "<code>a--b -o wide</code>"),
        ("<p>--quick</p>", "<p>--quick</p>"),
    ],
)
def test_options_inside_code_stay_in_one_line(html: str, made: str) -> None:
    assert on_page_content(html) == made
