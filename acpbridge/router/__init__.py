"""Sessions and whoever asks something of them: the service that every face calls.

Below are the runtimes (one seam), the store and the permissions; above are the faces, which see
only `RouterApi`. The router decides who may do what, and holds no queue of its own: a queue belongs
to its session.
"""
