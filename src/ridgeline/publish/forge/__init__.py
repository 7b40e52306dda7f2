"""GitHub as the other rooms see it: pull requests, comments, runs and artifacts as frozen values.

In: event payloads, an API over HTTP, or the same answers recorded in a folder. Out: frozen values; failures that say
what to do. It decides nothing, retries what is safe to retry, and never lets a token into a message.
"""
