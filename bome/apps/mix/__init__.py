"""What 'bome mix' does: folders of texts in, weights of the sources and a page out."""
