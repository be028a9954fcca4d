"""Tests of the store: tables, migrations, the seq, durability, clock, backup."""
