"""Data cleaning and learned penalties, as in the paper."""
