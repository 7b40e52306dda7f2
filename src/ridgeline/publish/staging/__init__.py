"""Results on their way to people: staged, promoted, withdrawn, each with a receipt.

In: a store and a run in it. Out: receipts. Nothing that was staged before is removed by staging something else; only
measured points are ever published; what was published is read back and compared with its receipt.
"""
