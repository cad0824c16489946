"""The session tools as a model sees them: names, descriptions, schemas, and one function each.

Above is the command `mcp`, and whoever hands tools to an agent; below is `RouterApi`. Which of them
somebody has, and whether a call is allowed, is decided below: nothing here decides.
"""
