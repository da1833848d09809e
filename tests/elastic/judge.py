"""Judges a random elastic job by the logs of its processes.

1. Each step's sum is that of the samples which the members of its epoch brought, and is equal on all of them.
   The inexact sum is equal bit for bit, and within rounding of arithmetic.
2. The weights after a step are those before it plus the sum. Where a step was repeated, the last one counts.
   Inexact weights are equal bit for bit on all members, also after a change.
3. Each sample comes once a pass, but for repeated steps.
4. An epoch begins with the newest commit of its members, on all of them.
5. The job ends with status 0, and its last members have equal weights. It may also fail for a reason that
   the plan gives: all members were killed, or ranks were lost again and again without a commit.
"""

import collections

REASONS = {
    "no rank is left": "killed",
    "the last epoch lost a rank": "killed",
    "without a commit between": "killed",
    "no process has come as far as init": "killed",
}


def contribution(sample, number):
    return [1.0, sample + 1.0, (sample + 1.0) ** 2, number + 1.0]


ROUNDINGS = 2.0**-20  # more than that of each part and each addition of a sum of 8 parts in float32


def thirds(sample):
    """Returns the part of a sample in the inexact sum, not rounded."""
    return [(sample + 1) / divisor for divisor in (3, 5, 7, 9)]


class Judge:
    def __init__(self, plan, events, killed):
        """
        Args:
            events: all lines of all logs.
            killed: the workers that the harness or the plan has killed.
        """
        self.plan, self.killed, self.complaints = plan, killed, []
        self.events = sorted(events, key=lambda each: each["time"])
        self.begins = collections.defaultdict(list)  # by (epoch, step)
        self.ends = collections.defaultdict(list)
        self.last_epoch_of = {}  # by step: the epoch whose end counts
        for each in self.events:
            place = (each.get("epoch"), each.get("step"))
            if each["event"] == "begin":
                self.begins[place].append(each)
            elif each["event"] == "end":
                self.ends[place].append(each)
                self.last_epoch_of[each["step"]] = max(each["epoch"], self.last_epoch_of.get(each["step"], 0))

    def complain(self, text):
        self.complaints.append(text)

    def judge(self, status, errors):
        self._check_sums()
        self._check_inexact_sums()
        self._check_weights()
        self._check_samples()
        self._check_epochs()
        self._check_end(status, errors)
        return self.complaints

    def _check_sums(self):
        for place, ends in self.ends.items():
            begins = self.begins[place]
            size = ends[0]["size"]
            if sorted(each["rank"] for each in begins) != list(range(size)):
                self.complain(f"epoch, step {place}: {len(begins)} of {size} ranks began, and it ended")
                continue
            total = [0.0] * 4
            for each in begins:
                for sample in each["samples"]:
                    total = [a + b for a, b in zip(total, contribution(sample, each["number"]))]
            for each in ends:
                if each["total"] != total:
                    self.complain(
                        f"epoch, step {place}: rank {each['rank']} has {each['total']}, not {total}"
                    )
                if each["weights"] != ends[0]["weights"]:
                    self.complain(f"epoch, step {place}: ranks have different weights")

    def _check_inexact_sums(self):
        for place, ends in self.ends.items():
            exact = [0.0] * 4
            for each in self.begins[place]:
                for sample in each["samples"]:
                    exact = [a + b for a, b in zip(exact, thirds(sample))]
            for each in ends:
                who = f"epoch, step {place}: rank {each['rank']}"
                if any(abs(a - b) > ROUNDINGS * b for a, b in zip(each["inexact"], exact)):
                    self.complain(f"{who} has the inexact sum {each['inexact']}, not about {exact}")
                for what in ("inexact_bits", "inexact_weights_bits"):
                    if each[what] != ends[0][what]:
                        self.complain(f"{who} has other {what} than rank {ends[0]['rank']}")

    def _check_weights(self):
        for (epoch, step), ends in self.ends.items():
            before = [0.0] * 4
            if step > 0:
                epochs = [other for other, at in self.ends if at == step - 1 and other <= epoch]
                if not epochs:
                    self.complain(f"step {step} ended in epoch {epoch}, but no step {step - 1}")
                    continue
                before = self.ends[(max(epochs), step - 1)][0]["weights"]
            expected = [a + b for a, b in zip(before, ends[0]["total"])]
            if ends[0]["weights"] != expected:
                self.complain(f"epoch {epoch}, step {step}: weights {ends[0]['weights']}, not {expected}")

    def _check_samples(self):
        seen = collections.defaultdict(collections.Counter)  # by pass
        for step, epoch in self.last_epoch_of.items():
            for each in self.begins[(epoch, step)]:
                seen[each["number"]].update(each["samples"])
        for number, samples in seen.items():
            again = [sample for sample, count in samples.items() if count > 1]
            if again:
                self.complain(f"pass {number}: samples {again} came twice")
            if number + 1 in seen and len(samples) != self.plan.samples:
                self.complain(f"pass {number}: {len(samples)} of {self.plan.samples} samples came")

    def _check_epochs(self):
        starts = collections.defaultdict(list)
        committed = collections.defaultdict(int)  # by worker: the steps that its newest logged commit has
        done = collections.defaultdict(int)
        for each in self.events:
            worker = each["worker"]
            if each["event"] == "commit":
                committed[worker] = max(committed[worker], each["step"] + 1)
            elif each["event"] == "end":
                done[worker] = max(done[worker], each["step"] + 1)
            elif each["event"] == "epoch":
                starts[each["epoch"]].append((each, committed[worker], done[worker]))
        for epoch, members in starts.items():
            steps = {each["step"] for each, _, _ in members}
            if len(steps) > 1:
                self.complain(f"epoch {epoch} began at steps {sorted(steps)}")
            least = max(steps_committed for _, steps_committed, _ in members)
            if max(steps) < least:
                self.complain(f"epoch {epoch} began at step {max(steps)}, but a member had committed {least}")

    def _check_end(self, status, errors):
        finishes = [each for each in self.events if each["event"] == "finish"]
        if status == 0:
            if not finishes:
                self.complain("the job ended with status 0, and no rank has finished")
            for each in finishes:
                names = ("weights", "inexact_weights_bits")
                is_equal = all(each[name] == finishes[0][name] for name in names)
                if not is_equal or each["step"] != self.plan.steps:
                    self.complain(
                        f"worker {each['worker']} finished at step {each['step']} with other weights"
                    )
            return
        reason = next((text for text in REASONS if text in errors), None)
        if reason is None:
            self.complain(f"the job ended with status {status}, without a reason that the plan gives")
        elif not self.killed:
            self.complain(f"the job ended with status {status}: '{reason}', but no process was killed")
        epochs = [each["epoch"] for each in self.events if each["event"] == "epoch"]
        if reason == "no rank is left" and epochs:
            members = {each["worker"] for each in self.events if each.get("epoch") == max(epochs)}
            alive = members - self.killed
            if alive:
                self.complain(f"'{reason}', but nobody has killed the workers {sorted(alive)}")
