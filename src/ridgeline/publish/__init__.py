"""Points reach people.

In: runs and points. Out: reports, pages, comments and receipts. It computes no metric of its own: it shows what
`results` says.
"""
