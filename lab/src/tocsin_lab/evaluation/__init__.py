"""The evaluation of Liu et al. (section 5) again, with every schedule.

workloads.py (their parameters), lower_bound.py (what no schedule can beat), measure.py (one setting), figures.py (their
figures 4 to 8), drift.py (a mix that changes midway), report.py (the page and its plots). `python -m benchmarks.operators`
runs it all.
"""
