"""Labels for whole sequences: texts and images."""
