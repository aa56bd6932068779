"""A plan as a picture and as a page: what is drawn, in which words, and how. Reads no cluster and no clock."""
