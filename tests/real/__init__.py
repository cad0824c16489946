"""The real agents against the scripted model: how they are installed, started and probed."""
