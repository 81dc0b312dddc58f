"""Whether HiGHS can serve somebody whom the planner passes over, on idle fleets whose nodes are short of CPU and memory.

    pip install highspy
    cargo bench -p slicewright-planner --bench rooms --profile dev -- oldest-first who SNAPSHOT.json ... > TABLE
    python crates/planner/benches/rooms_who.py SECONDS MOST TABLE SNAPSHOT.json ...

The fleets and the program are those of `rooms_highs.py`. HiGHS is asked about the first MOST who are passed over of
each fleet: can this one be served beside everybody older whom the planner serves? Of pods that are alike only the
oldest is asked about. And then: beside everybody whom the planner serves, how much more can be served? Each question
has so many seconds, with one thread. The exit status tells whether HiGHS served anybody more in either way.
"""

import collections
import json
import math
import pathlib
import sys

import highspy
import numpy as np
from rooms_highs import COMPUTE, PROFILES, program, read


def by_age(path):
    """The kind of each pod, the oldest first; of pods that are equally old, the first name."""
    pods = []
    for thing in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["objects"]:
        if thing["kind"] != "Node":
            asks = thing["spec"]["containers"][0]["resources"]["limits"]
            (profile,) = [r.removeprefix("nvidia.com/mig-") for r in asks if r.startswith("nvidia.com/mig-")]
            kind = (PROFILES.index(profile), int(asks["cpu"]), int(asks["memory"].removesuffix("Gi")))
            pods.append((thing["metadata"]["creationTimestamp"], thing["metadata"]["name"], kind))
    return [kind for _, _, kind in sorted(pods)]


def solved(lp, least, most, seconds):
    """The solver after its search, with so much of each kind served. The rows of demand are the first of the program."""
    low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
    low[: len(least)], high[: len(most)] = least, most
    lp.row_lower_, lp.row_upper_ = low, high
    solver = highspy.Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("time_limit", seconds)):
        solver.setOptionValue(option, setting)
    solver.passModel(lp)
    solver.run()
    return solver


def passed_over(nodes, kinds, queue, serves, most, seconds):
    """Of the first who are passed over: their place in the queue, and whether they can be served."""
    order, served, closed, answers = sorted(kinds), collections.Counter(), set(), []
    for place, (kind, is_served) in enumerate(zip(queue, serves)):
        if is_served == "1":
            served[kind] += 1
        elif kind not in closed and len(answers) < most:
            closed.add(kind)
            wanted = [served[other] + (other == kind) for other in order]
            lp = program(nodes, kinds)
            lp.col_cost_ = np.zeros(lp.num_col_)
            status = solved(lp, wanted, wanted, seconds).getModelStatus()
            found = {highspy.HighsModelStatus.kOptimal: "can be", highspy.HighsModelStatus.kInfeasible: "cannot be"}
            answers.append((place, found.get(status, "unknown")))
    return answers


def beside(nodes, kinds, queue, serves, seconds):
    """Compute slices that are not served: by the planner, by HiGHS beside everybody whom the planner serves, its bound."""
    order = sorted(kinds)
    served = collections.Counter(kind for kind, is_served in zip(queue, serves) if is_served == "1")
    solver = solved(
        program(nodes, kinds), [served[kind] for kind in order], [kinds[kind] for kind in order], seconds
    )
    asked = sum(COMPUTE[kind[0]] * n for kind, n in kinds.items())
    mine = asked - sum(COMPUTE[kind[0]] * n for kind, n in served.items())
    found = solver.getInfo()
    least = mine if abs(found.objective_function_value) > 1e9 else asked + round(found.objective_function_value)
    bound = asked + math.ceil(found.mip_dual_bound - 1e-6) if abs(found.mip_dual_bound) < 1e9 else None
    return mine, least, bound


def main():
    seconds, most, paths = float(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]
    lines = pathlib.Path(sys.argv[3]).read_text(encoding="utf-8").splitlines()
    served = {name: serves for name, _, serves in (line.split() for line in lines if " serves " in line)}
    print("| fleet | passed over: place, and whether it can be served | unserved | HiGHS beside them (bound) |")
    print("|---|---|---|---|")
    more = 0
    for path in paths:
        name = pathlib.Path(path).name
        (nodes, kinds), queue = read(path), by_age(path)
        if len(queue) != len(served[name]):
            sys.exit(f"{name} has {len(queue)} pods, and the table says of {len(served[name])} whether they are served")
        answers = passed_over(nodes, kinds, queue, served[name], most, seconds)
        mine, least, bound = beside(nodes, kinds, queue, served[name], seconds)
        more += any(answer == "can be" for _, answer in answers) or least < mine
        said = ", ".join(f"{place} {answer}" for place, answer in answers) or "nobody"
        print(f"| {name} | {said} | {mine} | {least} ({bound}) |", flush=True)
    sys.exit(f"on {more} fleets HiGHS serves somebody more" if more else 0)


if __name__ == "__main__":
    main()
