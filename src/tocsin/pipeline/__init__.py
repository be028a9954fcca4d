"""The pipeline on Spark: events in, validated, matched against many subscriptions, notifications out.

    session.py         a local Spark session, and the settings that matter
    worker_daemon.py   Spark's Python daemon with the engine loaded, from which workers are forked
    layout.py          which columns of a DataFrame are the event, and in which form
    raw_rows.py        rows of an Arrow batch as raw events
    admission.py       a batch of rows -> admitted columns, admitted events, rejections
    open_index.py      the index as a worker process holds it: opened once, moved forward
    store_index.py     an index on disk that follows the store, change by change
    match_batches.py   what runs in the workers: Arrow in, Arrow out
    match.py           match(events, subscriptions, ...): DataFrame in, DataFrame out
    validate.py        validate(events, schema)
    backfill.py        what a subscription would have matched
    store_source.py    the store's event log as a streaming source
    run.py             `tocsin pipeline run`: source -> validate -> match as of seq -> sinks

tocsin.spark is its public face. Importing this package does not import Spark; the modules that need it do.
"""
