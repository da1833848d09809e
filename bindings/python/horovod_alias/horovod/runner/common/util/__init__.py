"""Small functions that read the environment."""
