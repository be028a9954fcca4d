"""A driver of its own, for tests that kill it: runs a pipeline over a store until it is idle.

python -m tests.pipeline.driver STORE CHECKPOINT [MASTER]
"""

import sys

from tocsin.pipeline.run import Pipeline, PipelineSettings
from tocsin.pipeline.session import session


def main() -> None:
    """Run the pipeline; TOCSIN_CRASH_POINT says where this process, or a worker, dies."""
    store, checkpoint, *more = sys.argv[1:]
    with session(more[0] if more else "local[2]", streaming=True) as spark:
        settings = PipelineSettings(store=store, checkpoint=checkpoint, until_idle=True, events_per_batch=25)
        Pipeline(spark, settings).run()


if __name__ == "__main__":
    main()
