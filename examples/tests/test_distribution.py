"""What the distribution declares is what there is."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tocsin
import tocsin_examples

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_is_of_the_version_of_tocsin() -> None:
    assert tocsin_examples.__version__ == tocsin.__version__
    ours = [line for lines in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()] for line in lines]
    versions = {line.partition("==")[2] for line in ours if line.startswith("tocsin")}
    assert versions == {tocsin.__version__}
