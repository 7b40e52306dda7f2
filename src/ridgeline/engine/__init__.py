"""What an engine build does with a model on a GPU, as pure arithmetic.

In: model and GPU facts, a topology, engine options. Out: weights, KV bytes and blocks, capture ladders, scheduler
limits, names of flags, metrics and log lines. It refuses to know files, processes and time.
"""
