"""One question of the preflight, answered from named inputs: what `ridgeline calc` prints.

In: a mapping of inputs under the engines' own names. Out: a mapping of plain data, `error` in it where the engine would
refuse to start. Inputs that cannot be understood raise InputError with every problem. The checks use the same functions
of `engine/` underneath; nothing is computed here.
"""
