"""Small functions that programs use."""
