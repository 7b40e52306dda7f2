"""Session trees and an endpoint become records.

In: a pacing machine, prompts, an address. Out: a `Replay`. During the window it only stamps bytes; decoding comes
afterwards. It refuses to know configs, engines' internals and statistics.
"""
