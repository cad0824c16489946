"""Who decides what an agent may do: judged purely, asked of a person, audited before it is sent.

`policy` decides and acts on nothing; `broker` keeps what waits for a person; `audit` is the chain
of what was decided, `record` its lines. Below are the model and redaction; nothing here knows the
wire on which an agent asks.
"""
