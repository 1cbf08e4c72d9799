"""Files of users: scanned, checked, made into features."""
