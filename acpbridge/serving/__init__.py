"""One Python agent as a process of its own: its composition root, and the way there.

Of the same floor as `app`, and apart from it: an agent starts fast only without store and router.
"""
