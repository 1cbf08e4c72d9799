"""Eight applications as strangers write them: every method, judged by what its v is worth."""
