"""Tests of the thesis's XML requests: its samples, errors, attacks, and the daemon over real sockets."""
