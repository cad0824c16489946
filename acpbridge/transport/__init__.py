"""Bytes and processes: connections, children behind shims, sockets, and two ends in memory.

The only floor that moves bytes and starts processes. Below is `protocol`; above are the
controller and the faces.
"""
