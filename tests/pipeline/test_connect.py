"""Finding 6: Spark Connect. The client's temporary table goes to the server's workers as artifacts.

Connect's packages (grpcio) are in the environment of `make earlierspark` (tools/earlier_spark.lock). A process has either a
classic session or one of Connect, so this runs in one of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is in the environment of `make earlierspark`")

pytestmark = pytest.mark.slow

CLIENT = """
import json, sys
from pathlib import Path
from tocsin.pipeline.session import require_spark, set_worker_environment
require_spark()
set_worker_environment()
from pyspark.sql import SparkSession
from tocsin.schema import Schema
from tocsin.spark import match, register_functions, validate

spark = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
schema = Schema.infer([{"price": 900.0, "brand": "mini"}])
events = spark.createDataFrame([(n, float(n), "mini") for n in range(40)], "id long, price double, brand string")
wishes = spark.createDataFrame([("low", "price < 10"), ("high", "price >= 30")], "id string, text string")
from tocsin.pipeline.given_subscriptions import _folders
plan = match(events, wishes, schema=schema, event_id="id", output="counts")
for folder in _folders:  # the server sees nothing of the client's
    for path in Path(folder).iterdir():
        if path.is_file():
            path.unlink()
counts = {row.id: row.matches for row in plan.collect()}
bad = validate(events.withColumnRenamed("brand", "brnd"), schema).dead_letters.count()
Path(sys.argv[1]).write_text(json.dumps([type(spark).__module__, counts, bad]))
spark.stop()
"""


def test_finding_6_connect_matches_with_subscriptions_that_only_the_client_has(tmp_path: Path) -> None:
    script, out = tmp_path / "client.py", tmp_path / "out.json"
    script.write_text(CLIENT)
    done = subprocess.run(
        [sys.executable, str(script), str(out)], env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    module, counts, bad = json.loads(out.read_text())
    assert module.startswith("pyspark.sql.connect")
    assert counts == {str(n): int(n < 10) + int(n >= 30) for n in range(40)}
    assert bad == 40
