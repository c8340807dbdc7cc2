"""The strength profile: what labelled samples do at every strength, and how it is counted."""
