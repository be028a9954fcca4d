"""Tests of the parts that the papers' engines are made of; the engines themselves are in the shared suite."""
