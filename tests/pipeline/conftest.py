"""The Spark session that all tests here share.

A session takes some seconds to start, and a process can have one only; so there is one for each test process, started
by the first test that asks for it. It is local[2,4]: two cores, and four attempts at a task, so that tests may kill
Python workers. Tests take clean folders and names of their own, and stop the queries they start; what lives as long as
the session (registered sources, open indexes in the workers) is keyed by path, and so by test.
TOCSIN_TEST_MASTER=local-cluster[2,1,1024] runs the same tests on real executor processes.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.databases import postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[2,4]"
__all__ = ["postgres"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what starts drivers and brokers of its own, a minute each, unless TOCSIN_SLOW asks for it (CI does)."""
    if os.environ.get("TOCSIN_SLOW"):
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: set TOCSIN_SLOW=1 to run it"))


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Give the shared session."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    from tocsin.errors import NotSupported
    from tocsin.pipeline.session import require_spark, session

    try:
        require_spark()
    except NotSupported as error:
        pytest.skip(str(error))
    scratch = Path(tempfile.mkdtemp(prefix="tocsin-spark-"))
    settings = {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.memory": "1g",
    }
    with session(os.environ.get("TOCSIN_TEST_MASTER", DEFAULT_MASTER), streaming=True, settings=settings) as spark:
        yield spark
