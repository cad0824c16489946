"""YAML text to an immutable snapshot, and the catalogue of agents. Reading files is app's job."""
