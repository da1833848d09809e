"""The ways in which the processes of a job find each other before they are in it."""
