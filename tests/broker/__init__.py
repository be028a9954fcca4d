"""Tests of the broker: its promises, and the whole of it against a model."""
