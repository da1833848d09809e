"""The parts that Horovod's frameworks share."""
