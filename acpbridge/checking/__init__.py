"""What `doctor` finds out, without a daemon: a composition root of its own, beside `app`."""
