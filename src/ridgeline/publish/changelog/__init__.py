"""The benchmark changelog: which entries a change adds, whether it may, and which cells they select.

In: bytes of the file at two or three revisions, the number of the pull request, the master configs. Out: a verdict
with file and line, new bytes, or a selection of rows. Only `repository`, `driver` and `prepare` touch git and files;
every other module is pure. Bytes already in the file are never rewritten.
"""
