"""The dashboard: results that people look at, question and share, from their own machine or a team's server.

In: a library (run folders, result files, a store) and a few settings. Out: an ASGI application: pages, a JSON
interface, static files. It computes no metric and decides no membership: it asks `results` and shows the answer. No
path that a request carries reaches the file system: requests name things by ids that the library gave out.
"""
