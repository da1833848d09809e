"""The results of a campaign, as a table by fault and phase."""

import plan as plans


def table(rows):
    ran = [row for row in rows if "skipped" not in row]
    faults = sorted({action for row in ran for action, _, _ in row["faults"]})
    lines = [
        "| fault | phase | struck | failed | longest time to know | of one that never came to init |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for action in faults:
        for phase in plans.PHASES:
            hit = [row for row in ran if [action, phase, True] in row["faults"]]
            if not hit:
                continue
            # With several faults, the late knowledge belongs to no single fault.
            alone = [row for row in hit if len(row["faults"]) == 1]
            known = longest(alone, "know"), longest(alone, "know in init")
            failed = sum(bool(row["failures"]) for row in hit)
            times = sum(row["faults"].count([action, phase, True]) for row in hit)
            lines.append(f"| {action} | {phase} | {times} | {failed} | {known[0]} | {known[1]} |")
    starts = sorted({row["start"] for row in ran})
    counts = ", ".join(f"{sum(row['start'] == start for row in ran)} {start}" for start in starts)
    on_devices, of_python = (sum(row.get(what, False) for row in ran) for what in ("devices", "python"))
    return "\n".join(
        [
            *lines,
            "",
            f"{len(ran)} seeds: {counts}; {on_devices} with tensors on devices, {of_python} of Python.",
        ]
    )


def longest(rows, what):
    times = [seconds for row in rows for seconds in row[what].values()]
    return f"{max(times):.2f} s" if times else ""
