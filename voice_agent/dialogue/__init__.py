"""The parts of one call between its ears and its mouth: listening, replies, fixed phrases, the turn log."""
