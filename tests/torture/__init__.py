"""Torture: kill -9 under mixed load, at random and at named crash points, and look whether anything acknowledged is lost.

    python -m tests.torture --cycles 500 --database sqlite
    python -m tests.torture --cycles 20 --database postgres --control      must find losses, and says so

load.py is what the killed process does, verdict.py what must hold afterwards, cycle.py one round of both.
"""
