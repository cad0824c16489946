"""A question for a person: how it is shown, what may be typed at it, and how it is asked."""
