"""Tests: one folder for each layer of src/tocsin, and project/ for the project itself.

A matcher is to be tested, and not the definition that answers for it as long as kernels are not compiled (matching/young.py):
whoever imports this, all tests and the fuzz, has the index answer from the first subscription on.
"""

from tocsin.matching import young

young.MOST_YOUNG = 0
