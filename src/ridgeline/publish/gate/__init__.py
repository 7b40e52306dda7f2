"""The pull-request gate: what a change to the benchmarks sets in motion, and whether it may.

In: a policy file, an event as GitHub writes it, two commits of a checkout, and what is known of the pull request (from
GitHub or from recorded files). Out: a verdict as plain values, a comment and annotations. Everything that comes in is
treated as hostile: no text of a payload or of the change reaches a shell, a ref or a file name, and nothing is written.
"""
