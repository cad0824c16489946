"""The bridge in somebody else's program: opened in its process, or reached in the daemon.

Above is nothing of ours but the command line. `bridge` and `run` see `RouterApi` and a requester,
and cannot tell which of the two they have; `opening` makes both.
"""
