"""Expensive operators: predicates such as `locIn('Bronx')` that only a call of other code can decide.

operators   operator.py (the decorator), registry.py, operator.py (checks when a subscription is made), builtin/
matching    questions.py (what conjunctions ask, and whether they get it)
calls       operator.py (which are one evaluation), registry.py (time-outs, threads, processes, failures)
problem     problem.py (what one event leaves to be decided, and the Schedule that decides it)
schedules   schedules/ (our own; the papers' and their comparison are in tocsin-lab)

What it all means is defined in language/semantics.py.
"""
