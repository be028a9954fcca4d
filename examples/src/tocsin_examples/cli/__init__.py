"""`tocsin demo` and `tocsin load`. They import what they need when they run."""
