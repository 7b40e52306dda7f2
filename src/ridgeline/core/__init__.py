"""The nouns every room speaks.

In: nothing of ours. Out: frozen values (topology, cell, deployment, finding, record, point) with derived properties,
and units, clocks and errors. It refuses to know files, engines, HTTP and time of day.
"""
