#!/bin/sh
# The application on a cluster that is there: standalone, YARN or Kubernetes, by MASTER. What it does is match_job.py's --help.
# Tocsin must be installed for the executors' Python: the image (Dockerfile), or an environment by --archives.
set -eu
exec "${SPARK_SUBMIT:-spark-submit}" \
    --master "${MASTER:?spark://host:7077, yarn, or k8s://https://host:6443}" \
    --name tocsin-match \
    --conf spark.sql.execution.arrow.maxRecordsPerBatch=5000 \
    --conf spark.python.worker.reuse=true \
    --conf spark.python.daemon.module=tocsin.pipeline.worker_daemon \
    --conf spark.sql.session.timeZone=UTC \
    --conf spark.driver.extraJavaOptions=-Xss8m \
    --conf spark.executorEnv.TOCSIN_CACHE="${TOCSIN_CACHE:-/tmp/tocsin-tables}" \
    --conf spark.executorEnv.NUMBA_CACHE_DIR="${NUMBA_CACHE_DIR:-/tmp/tocsin-kernels}" \
    --conf spark.executor.cores="${CORES:-4}" \
    --conf spark.executor.memory="${HEAP:-2g}" \
    --conf spark.executor.memoryOverhead="${OVERHEAD:-6g}" \
    "$(dirname "$0")/match_job.py" "$@"
