"""The parts that the layers of all frameworks share. Nothing here imports a framework."""
