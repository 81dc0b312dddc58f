"""The least unserved demand of idle fleets whose nodes are short of CPU and memory, by HiGHS, beside the planner's.

    pip install highspy
    cargo bench -p slicewright-planner --bench rooms --profile dev -- SNAPSHOT.json ... > TABLE
    python crates/planner/benches/rooms_highs.py SECONDS TABLE SNAPSHOT.json ...

HiGHS gets the program that anybody can write down, with one thread and so many seconds for each fleet: an integer
variable for each node and kind of pods, and one for each node and largest set of slices; rows for the GPUs, CPU,
memory, pod slots and slices of each node, and for the pods of each kind. Printed are the compute slices that are not
served, and the bound, of both. The exit status tells whether a bound of the planner is above what HiGHS found. Fleets
are of A100-80GB, and pods ask for one slice each, as `rooms_family.py` writes them.
"""

import collections
import json
import math
import pathlib
import sys
import time

import highspy
import numpy as np

# Memory units, where slices may start, compute slices.
PLACEMENTS = {
    "1g.10gb": (1, range(7), 1),
    "2g.20gb": (2, (0, 2, 4), 2),
    "3g.40gb": (4, (0, 4), 3),
    "7g.80gb": (8, (0,), 7),
}
PROFILES = list(PLACEMENTS)
COMPUTE = [PLACEMENTS[profile][2] for profile in PROFILES]


def layouts():
    """The sets of slices of one GPU that no other one contains, as counts."""
    places = [(p, s, size, one) for p, (size, starts, one) in enumerate(PLACEMENTS.values()) for s in starts]
    found = set()

    def go_on(first, taken, used, counts):
        found.add(tuple(counts))
        for j in range(first, len(places)):
            profile, start, size, one = places[j]
            mask = ((1 << size) - 1) << start
            if not taken & mask and used + one <= 7:
                more = list(counts)
                more[profile] += 1
                go_on(j + 1, taken | mask, used + one, more)

    go_on(0, 0, 0, [0] * len(PROFILES))

    def is_contained(a):
        return any(b != a and all(x >= y for x, y in zip(b, a)) for b in found)

    return sorted(a for a in found if not is_contained(a))


LAYOUTS = layouts()


def read(path):
    """Nodes as GPUs, cores, GiB and pod slots; kinds of pods as profile, cores and GiB."""
    nodes, kinds = [], collections.Counter()
    for thing in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["objects"]:
        if thing["kind"] == "Node":
            has = thing["status"]["allocatable"]
            gpus = int(thing["metadata"]["labels"]["nvidia.com/gpu.count"])
            nodes.append((gpus, int(has["cpu"]), int(has["memory"].removesuffix("Gi")), int(has["pods"])))
        else:
            asks = thing["spec"]["containers"][0]["resources"]["limits"]
            (profile,) = [r.removeprefix("nvidia.com/mig-") for r in asks if r.startswith("nvidia.com/mig-")]
            assert asks[f"nvidia.com/mig-{profile}"] == "1"
            kinds[PROFILES.index(profile), int(asks["cpu"]), int(asks["memory"].removesuffix("Gi"))] += 1
    return nodes, kinds


def program(nodes, kinds):
    """Minimise minus what is served."""
    infinity = highspy.kHighsInf
    low, high, cost, upper, starts, index, value = [], [], [], [], [0], [], []

    def row(least, most):
        low.append(least)
        high.append(most)
        return len(low) - 1

    def column(entries, price, most):
        index.extend(r for r, _ in entries)
        value.extend(float(a) for _, a in entries)
        starts.append(len(index))
        cost.append(price)
        upper.append(most)

    demand = {kind: row(-infinity, n) for kind, n in sorted(kinds.items())}
    for gpus, cores, gib, pods in nodes:
        cut = row(gpus, gpus)
        room = [row(-infinity, most) for most in (cores, gib, pods)]
        supply = [row(0, infinity) for _ in PROFILES]
        for counts in LAYOUTS:
            column([(cut, 1)] + [(r, n) for r, n in zip(supply, counts) if n], 0, gpus)
        for (profile, *takes), n in sorted(kinds.items()):
            if takes[0] <= cores and takes[1] <= gib:
                entries = list(zip(room, (*takes, 1))) + [(supply[profile], -1), (demand[profile, *takes], 1)]
                column(entries, -COMPUTE[profile], n)

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(cost), len(low)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.array(cost, float), np.zeros(len(cost)), np.array(upper, float)
    lp.row_lower_, lp.row_upper_ = np.array(low, float), np.array(high, float)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = np.array(starts), np.array(index), np.array(value)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(cost)
    return lp


def least_unserved(path, seconds):
    """What HiGHS leaves unserved, what has to be by its bound, and its processor seconds."""
    nodes, kinds = read(path)
    solver = highspy.Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("time_limit", seconds)):
        solver.setOptionValue(option, setting)
    solver.passModel(program(nodes, kinds))
    before = time.process_time()
    solver.run()
    took = time.process_time() - before
    asked = sum(COMPUTE[profile] * n for (profile, _, _), n in kinds.items())
    found = solver.getInfo()
    bound = asked + math.ceil(found.mip_dual_bound - 1e-6)
    return asked + round(found.objective_function_value), bound, took


def table(path):
    """By fleet, the value and the bound of the level of unserved compute slices, and the time."""
    planned = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 8 and cells[1].endswith(".json"):
            value, bound = cells[6].replace("(", "").replace(")", "").split()
            planned[cells[1]] = (int(value), int(bound), cells[4])
    return planned


def main():
    seconds, planned, paths = float(sys.argv[1]), table(sys.argv[2]), sys.argv[3:]
    print("| fleet | planner (bound) | HiGHS (bound) | more unserved | planner | HiGHS, s |\n|---|---|---|---|---|---|")
    worse, false = 0, 0
    for path in paths:
        name = pathlib.Path(path).name
        value, bound, took = planned[name]
        least, of_highs, took_highs = least_unserved(path, seconds)
        worse += value > least
        false += bound > least
        print(
            f"| {name} | {value} ({bound}) | {least} ({of_highs}) | {value - least} | {took} | {took_highs:.2f} |",
            flush=True,
        )
    print(f"\nof {len(paths)} plans, {worse} leave more unserved than HiGHS does")
    sys.exit(f"{false} bounds are above what HiGHS found" if false else 0)


if __name__ == "__main__":
    main()
