"""Preflight: what is known of a cell before a GPU is rented.

In: a `Subject` (cell, deployment, facts, workload, what was observed before). Out: findings with their arithmetic, and
expectations that the run must later confirm. One module per family of rules; a rule is a function, its id is public.
Refused: files, processes, engines. Whatever has to be read or run is read or run by the caller.
"""
