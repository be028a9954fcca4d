"""Benchmarks: check the answers, then time; raw results are kept, tables and plots are made from them."""
