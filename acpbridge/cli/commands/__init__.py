"""The commands, a module each or a few of one kind; `root` finds them when they are used."""
