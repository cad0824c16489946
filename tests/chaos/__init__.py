"""Seeded chaos: a real daemon under load and faults, judged by an observer that trusts nobody.

`python -m tests.chaos --seed N --seconds 45` prints its figures as Markdown. `plan` is pure; `wire`
speaks to the daemon without any code of acpbridge; `load` works, `faults` breaks, `oracle` judges.
"""
