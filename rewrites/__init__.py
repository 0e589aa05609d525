"""From matches to edits: the planner, and one module per approach."""
