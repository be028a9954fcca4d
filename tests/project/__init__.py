"""Tests of the project itself: layers, imports, dependencies, documentation."""
