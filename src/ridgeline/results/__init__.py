"""Records become points, points become a frontier.

In: records and samples. Out: measures with units and reasons, validity, frontiers, and the formats that hold them.
The formulas do no IO. It refuses to know how records were made.
"""
