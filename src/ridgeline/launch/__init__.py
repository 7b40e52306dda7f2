"""A deployment becomes running services, and then nothing.

In: a deployment. Out: addresses, logs, evidence, and the certainty that no process outlives the run. It refuses to
know load, metrics and configs.
"""
