"""The composition root: it names concrete classes of every floor, as `serving`, `checking` do.

From below: `setup` (what is given, and what all share), `opening` (everything below the faces),
`clients` (the control socket), `daemon` (from its lock to its last breath). `embed` uses all but
the last.
"""
