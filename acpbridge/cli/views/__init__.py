"""Events as somebody sees them: on a screen, in a pipe, as a log."""
