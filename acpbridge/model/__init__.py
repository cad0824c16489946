"""The words of the domain: keys, agents, events, permissions, requesters, sessions.

Values only: no I/O, no clock, no third-party package, so that every floor and the quick commands
can afford to import it. Below is `errors`; everything else is above.
"""
