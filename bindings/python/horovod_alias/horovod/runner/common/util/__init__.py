"""Small questions about the environment."""
