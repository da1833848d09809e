"""What the runners of tests leave for whoever adds them up: a file with "passed failed skipped" and, below it, what failed and why."""

WHY_LINES = 12  # of a failed test's last words


def with_reason(text, lines):
    """A failure's text with the last of these lines below it."""
    said = [f"    | {line.rstrip()}" for line in lines if line.strip()]
    return "\n".join([text, *said[-WHY_LINES:]])


def write_counts(path, passed, failed, skipped, failures):
    with open(path, "w", encoding="utf-8") as file:
        print(f"{passed} {failed} {skipped}", *failures, sep="\n", file=file)
