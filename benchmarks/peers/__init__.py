"""Peers: other systems that match events, on the same files and with the same answers checked.

  catalogue.py    the peers: what starts each, what it needs, which version
  __main__.py     the command; run.py runs one peer and checks it; definition.py knows the right answers
  files.py        the two files, and which of them peers can be asked about
  build.py        builds the programs in Java, Rust and Go (java/, a_tree/, quamina/)
  program.py      the frame of the programs in Python: closures.py, numpy_scan.py, tama.py, duckdb_wide.py, duckdb_grouping.py,
                  postgres_grouping.py, columnar.py; they share bounds.py and grouping.py

Every program is started as PROGRAM SUBSCRIPTIONS EVENTS CHECKED SECONDS ANSWERS. It builds its index, writes the ids
that match each of the first CHECKED events to ANSWERS (one JSON list a line), times three repeats over the events (the
first ends early after SECONDS, the others match as many events as the first) and prints one JSON object:

  {"build_s": 1.5, "events": 200, "matches": 3600, "seconds": [0.5, 0.4, 0.4]}    or    {"skipped": "the reason"}

Programs that match several events at once time that, and tell as "single_us" what one event takes, at the median.
"""
