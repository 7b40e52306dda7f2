"""Results in the formats other tools read. Pure: each module turns points or replays into plain data or text."""
