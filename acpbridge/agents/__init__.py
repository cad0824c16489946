"""Internal agents that ship: ordinary Python agents, each an async function over a `Turn`."""
