"""Tests: one folder for each layer of src/tocsin, and project/ for the project itself."""
