"""A cell becomes a deployment.

In: a cell and facts. Out: the services to start, each argument with its origin. It refuses to start anything and to
read files.
"""
