"""Values become cells.

In: benchmarks and filters. Out: cells in a stable order, their table, and what the checks find. It refuses to read
files, run engines and print.
"""
