"""How well wrong labels are found, against other tools."""
