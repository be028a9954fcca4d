"""`tocsin lab` and `tocsin bench`. They import what they need when they run."""
