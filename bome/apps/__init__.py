"""Applications made of the library: cleaning of labels and mixing of sources, with files in and pages out."""
