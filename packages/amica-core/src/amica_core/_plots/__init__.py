"""Pictures of a fit, one file each; they need matplotlib, and scalp maps need MNE."""
