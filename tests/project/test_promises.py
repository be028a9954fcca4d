"""docs/promises.md names the tests that hold the promises; each of them exists, and each test of promises is named."""

import re

from tests.project.files import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")


def names_in(*folders: str) -> set[str]:
    """Return the names of the tests in these folders."""
    files = [path for folder in folders for path in (ROOT / folder).rglob("test_*.py")]
    return {
        name
        for path in files
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }


def test_every_test_named_on_the_page_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert (
        named
        - names_in(
            *(
                f"tests/{room}"
                for room in ("broker", "store", "torture", "service", "xml", "operators", "language", "index")
            ),
            "examples/tests",
        )
        == set()
    )


def test_every_test_of_a_promise_is_named_on_the_page() -> None:
    missing = {name for name in names_in("tests/broker/promises") if f"`{name}`" not in PAGE}
    assert missing == {"test_broker_is_used_in_ten_lines"}
