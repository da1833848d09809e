"""The results of a campaign, as a table by fault and phase."""

import plan as plans


def table(rows):
    ran = [row for row in rows if "skipped" not in row]
    faults = sorted({fault[0] for row in ran for fault in row["faults"]})
    lines = [
        "| fault | phase | struck | in the phase | failed | longest time to know "
        "| of one that never came to init |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for action in faults:
        for phase in plans.PHASES:
            struck = [row for row in ran if any(one[:3] == [action, phase, True] for one in row["faults"])]
            if not struck:
                continue
            # With several faults, the late knowledge belongs to no single fault.
            alone = [row for row in struck if len(row["faults"]) == 1]
            known = longest(alone, "know"), longest(alone, "know in init")
            failed = sum(bool(row["failures"]) for row in struck)
            these = [one for row in struck for one in row["faults"] if one[:3] == [action, phase, True]]
            hit = sum(one[-1] for one in these)
            lines.append(
                f"| {action} | {phase} | {len(these)} | {hit} | {failed} | {known[0]} | {known[1]} |"
            )
    starts = sorted({row["start"] for row in ran})
    counts = ", ".join(f"{sum(row['start'] == start for row in ran)} {start}" for start in starts)
    on_devices, of_python, of_messages = (
        sum(row.get(what, False) for row in ran) for what in ("devices", "python", "messages")
    )
    return "\n".join(
        [
            *lines,
            "",
            f"{len(ran)} seeds: {counts}; {on_devices} with tensors on devices, {of_python} of Python, "
            f"{of_messages} of messages.",
        ]
    )


def longest(rows, what):
    times = [seconds for row in rows for seconds in row[what].values()]
    return f"{max(times):.2f} s" if times else ""
