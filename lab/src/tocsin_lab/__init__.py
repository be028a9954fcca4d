"""The laboratory: the papers' algorithms and experiments again, on today's machine; see docs/lab.md.

prepared.py     a seeded workload as schema, table and events; its oracle
workloads.py    the papers' workloads by their parameters
databases.py    DuckDB, SQLite, PostgreSQL, Spark SQL;  dbms.py: matching inside them
timing.py       check the answers, then time
results.py      raw results as JSON lines, with machine and versions
experiments/    one module per paper
report.py       Markdown and HTML from stored results;  plots.py: the pictures
advise.py       a bounded trial on a user's own data
show.py         the compiled structure of an engine, drawn
classic/        the papers' engines
schedules/      the schedules of Liu et al.;  evaluation/: their figures again
bench/          workloads as files, and measuring an engine on them
cli/            `tocsin lab` and `tocsin bench`
"""

__version__ = "0.1.0"  # the same as Tocsin's; a test holds that
