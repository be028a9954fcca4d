"""Expensive operators: predicates such as `locIn('Bronx')` that only a call of other code can decide.

problem     problem.py (what one event leaves to be decided, and the Schedule that decides it), statistics.py
schedules   naive_schedule.py, schedules/ (the papers' and our own), evaluation/ (their comparison)
"""
