"""Algorithm 1, compiled: respond, recruit, learn. Knows arrays only."""
