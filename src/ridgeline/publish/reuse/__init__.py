"""Results that are there already: which run of a pull request may stand in at merge, which stored points for a cell.

In: what is known of a pull request and of runs, or planned run keys and stored points. Out: a choice, or every reason
against. It starts nothing and fetches nothing itself.
"""
