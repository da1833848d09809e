"""The result file of a runner of tests: "passed failed skipped" and, below it, the failures with their
reasons."""

WHY_LINES = 12  # of a failed test's last lines


def with_reason(text, lines):
    """Returns a failure's text with the last of these lines below it."""
    said = [f"    | {line.rstrip()}" for line in lines if line.strip()]
    return "\n".join([text, *said[-WHY_LINES:]])


def write_counts(path, passed, failed, skipped, failures):
    with open(path, "w", encoding="utf-8") as file:
        print(f"{passed} {failed} {skipped}", *failures, sep="\n", file=file)
