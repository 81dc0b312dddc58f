"""The planner beside HiGHS, on problems that `slicewright solve` reads (docs/reference/solve.md).

    pip install highspy
    python crates/planner/benches/highs.py SLICEWRIGHT PROBLEM.json ...

HiGHS gets a program of its own making: GPUs with the same slices are one class, and there is an integer variable for
each class and each set of slices that it can have, without those that another one replaces. The three objectives are
solved one after another, each with the earlier ones held. Printed are the values of both, the processor seconds of
HiGHS in its solver alone (one thread), and those of `slicewright solve` as a whole, reading the file included.
"""

import collections
import json
import resource
import subprocess
import sys
import time

import highspy
import numpy as np


def supersets(geometry, compute, held):
    """Every legal set of slices of a GPU that has these."""
    placements = sorted((p, s, r["size"], r["compute"]) for p, r in geometry.items() for s in r["starts"])
    taken = sum(((1 << geometry[p]["size"]) - 1) << s for p, s in held)
    found = []

    def go_on(first, taken, used, chosen):
        found.append(tuple(chosen))
        for j in range(first, len(placements)):
            profile, start, size, one = placements[j]
            mask = ((1 << size) - 1) << start
            if not taken & mask and used + one <= compute:
                go_on(j + 1, taken | mask, used + one, chosen + [(profile, start)])

    go_on(0, taken, sum(geometry[p]["compute"] for p, _ in held), [])
    return found


def best(columns):
    """The columns that no other one is at least as good as in every place."""
    rows = np.array(sorted(set(columns), reverse=True), dtype=np.int32)
    kept = []
    for i in range(len(rows)):
        if not kept or not np.any(np.all(rows[kept] >= rows[i], axis=1)):
            kept.append(i)
    return tuple(map(tuple, rows[kept].tolist()))


def classes_of(problem, profiles):
    """How many GPUs have which choices: what is supplied, whether the GPU changes, and in how many operations."""
    states = collections.Counter(
        (gpu["model"],)
        + tuple(tuple(sorted((x["profile"], x["start"]) for x in gpu[kind])) for kind in ("in_use", "idle"))
        for gpu in problem["gpus"]
    )
    rules, known, classes = problem["rules"], {}, collections.Counter()
    for (model, held, idle), count in states.items():
        if (model, held) not in known:
            compute = rules["totals"][model]["compute"]
            known[model, held] = supersets(rules["geometry"][model], compute, held)
        cheapest = {}
        for chosen in known[model, held]:
            supply = tuple(sum(p == profile for p, _ in chosen) for profile in profiles)
            operations = len(set(idle).symmetric_difference(chosen))
            key = supply + (-int(operations > 0),)
            cheapest[key] = max(cheapest.get(key, -operations), -operations)
        classes[tuple(sorted(key + (operations,) for key, operations in cheapest.items()))] += count
    return classes


def level_of(problem, profiles, classes, level, held):
    """The program of one objective."""
    n = len(profiles)
    groups = collections.Counter()
    for columns, count in classes.items():
        groups[best([column[: n + level - 1] for column in columns])] += count
    rows = len(groups) + n + len(held)
    cost, upper, starts, index, value = [], [], [0], [], []
    low, high = np.zeros(rows), np.zeros(rows)

    def column(entries, price, most):
        index.extend(row for row, _ in entries)
        value.extend(float(a) for _, a in entries)
        starts.append(len(index))
        cost.append(price)
        upper.append(most)

    for g, (columns, count) in enumerate(sorted(groups.items())):
        low[g] = high[g] = count
        for one in columns:
            entries = [(g, 1)] + [(len(groups) + p, one[p]) for p in range(n) if one[p]]
            if level == 3 and one[n]:
                entries.append((len(groups) + n + 1, -one[n]))
            column(entries, -one[n + level - 2] if level > 1 else 0, highspy.kHighsInf)
    for p, profile in enumerate(profiles):
        weight, wanted = problem["weights"][profile], problem["demand"][profile]
        entries = [(len(groups) + p, 1)] + ([(len(groups) + n, weight)] if level > 1 else [])
        column(entries, weight if level == 1 else 0, wanted)
        low[len(groups) + p], high[len(groups) + p] = wanted, highspy.kHighsInf
    for k, most in enumerate(held):
        low[len(groups) + n + k], high[len(groups) + n + k] = -highspy.kHighsInf, most

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(cost), rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.array(cost, float), np.zeros(len(cost)), np.array(upper, float)
    lp.row_lower_, lp.row_upper_ = low, high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array(starts), np.array(index), np.array(value)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(cost)
    return lp


def highs(problem):
    profiles = sorted(problem["demand"])
    classes = classes_of(problem, profiles)
    values, seconds = [], 0.0
    for level in (1, 2, 3):
        solver = highspy.Highs()
        for option, setting in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("time_limit", 300.0)):
            solver.setOptionValue(option, setting)
        solver.passModel(level_of(problem, profiles, classes, level, values))
        before = time.process_time()
        solver.run()
        seconds += time.process_time() - before
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None, seconds
        values.append(round(solver.getInfo().objective_function_value))
    return tuple(values), seconds


def ours(program, path):
    def used():
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of_children.ru_utime + of_children.ru_stime

    times = []
    for _ in range(3):
        before = used()
        done = subprocess.run([program, "solve", path, "-o", "json"], capture_output=True, text=True, check=False)
        times.append(used() - before)
    objectives = json.loads(done.stdout)["objectives"]
    names = ("unserved_weight", "gpus_changed", "operations")
    return tuple(objectives[name] for name in names), done.returncode == 0, min(times)


def main():
    program, paths = sys.argv[1], sys.argv[2:]
    print("| problem | GPUs | HiGHS | slicewright | proved | HiGHS, s | slicewright, s |\n|---|---|---|---|---|---|---|")
    differ = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            problem = json.load(file)
        (mine, proved, seconds), (theirs, of_highs) = ours(program, path), highs(problem)
        differ += mine != theirs
        name, gpus = path.rsplit("/", 1)[-1], len(problem["gpus"])
        print(f"| {name} | {gpus} | {theirs} | {mine} | {proved} | {of_highs:.3f} | {seconds:.3f} |", flush=True)
    sys.exit(f"{differ} problems have other values" if differ else 0)


main()
