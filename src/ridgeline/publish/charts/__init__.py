"""Charts: what every page shares, whether it is one file or served: the look, the marks, the plot, and their data.

In: points. Out: plain page data, a style sheet and a script. It refuses to compute: frontiers and formulas are
`results`', and the scripts select and draw only.
"""
