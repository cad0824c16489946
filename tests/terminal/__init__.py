"""A person at a real terminal: tmux types what a person types and reads what a person sees."""
