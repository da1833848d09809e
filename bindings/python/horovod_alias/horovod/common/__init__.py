"""What Horovod's frameworks have in common."""
