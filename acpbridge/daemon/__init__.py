"""The daemon's faces on the control socket: the server, and clients for it.

Below is the router, seen as `RouterApi`. `paths`, `lock` and `quick` import only what starts fast.
"""
