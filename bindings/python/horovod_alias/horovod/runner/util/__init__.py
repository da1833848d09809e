"""Small helpers that programs use."""
