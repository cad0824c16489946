"""Faces of the bridge on a byte stream, for editors and for our own daemon.

They know the seam of the runtimes, and are handed whatever runs behind it.
"""
