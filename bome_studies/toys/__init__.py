"""The toy problems of the paper."""
