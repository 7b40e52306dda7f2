"""The store: everything that was measured, kept for good, found again and never overwritten.

In: what importers read. Out: points, frontiers, requests, evaluations and receipts. A catalogue (SQLite or PostgreSQL)
holds runs and points; a folder beside it holds the files they came from, immutable and named by their content. See
design/store.md.
"""

from ridgeline.results.store.location import Location, locate
from ridgeline.results.store.store import Added, Rebuilt, Store

__all__ = ["Added", "Location", "Rebuilt", "Store", "locate"]
