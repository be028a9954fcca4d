"""The pipeline on Spark: events in, validated, matched against many subscriptions, notifications out.

DataFrames (tocsin.spark is their public face):
    match.py                match(events, subscriptions, ...) and validate(events, schema): DataFrame in, DataFrame out
    plan.py                 what the driver decides before anything runs: the event's columns, who gets what
    match_batches.py        what runs in the workers: Arrow in, Arrow out
    admission.py            a batch of rows -> events in canonical columns, events, rejections; column_checks.py: by column
    match_lists.py          the matches of a batch, and what their pairs tell
    match_file.py           lists written by the workers to Parquet, with list_chunk.py and the kernels of list_chunk.py
    backfill.py             what a subscription would have matched

Subscriptions:
    given_subscriptions.py  what match() is given: a DataFrame, a table, a store
    subscription_table.py   compiled subscriptions on disk, version by version; table_contents.py: what it takes and keeps
    compile_rows.py         rows and lines compiled, on the executors, and only what is new
    open_index.py           the index as a worker process holds it: opened once, moved forward
    followers.py            a store as a process holds it, followed by seq

The running pipeline (`tocsin pipeline run`):
    run.py                  source -> validate -> match as of seq -> sinks, with its checkpoint
    ingest.py               events from outside (files, Kafka) into the store's log
    store_source.py         the store's log, and its matches, as streaming sources
    stored_matching.py      what runs in the workers between the log and notifications
    log_query.py            the query that matches the log into the store
    meter.py                how it is doing

    session.py              a local Spark session, and the settings that matter
    worker_daemon.py        Spark's Python daemon with the engine loaded, from which workers are forked

Importing this package does not import Spark; the modules that need it do.
"""
