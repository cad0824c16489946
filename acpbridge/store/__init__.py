"""What outlives the daemon: the ledger of sessions, runs and questions, and the log of events.

Above are the runtimes and the router. It knows neither processes nor wires nor faces.
"""
