"""Review rules: each module looks at one kind of file of a change and says what it finds.

In: a `Change`, the policy, and what the module's own kind needs. Out: remarks. No module reads files or runs anything.
"""
