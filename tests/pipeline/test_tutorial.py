"""The examples of docs/spark.md run, one after the other, as a reader would."""

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.project.files import ROOT

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs" / "spark.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.mark.slow
def test_the_tutorial_runs(spark: "SparkSession", capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"spark": spark}
    for block in BLOCKS:
        code = block.replace(".head(20000)", ".head(2000)")  # enough to see that it runs
        exec(compile(code, "docs/spark.md", "exec"), names)  # noqa: S102 - our own documentation
    shown = capsys.readouterr().out
    assert "|  1|         ada|" in shown
    assert "late to Chicago" in shown
    assert "draft" in shown
