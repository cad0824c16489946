"""Agents as supervised processes: their life, their truth from the kernel, and ACP to one of them.

Below is `transport`; above are the runtimes. Nothing here knows sessions of ours, permissions or
faces: a session key is only a name by which a tree is filed.
"""
