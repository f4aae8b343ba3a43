"""The network in the terms of other packages; each adapter needs its own extra."""
