"""What both ways of changing a GPU leave unserved, on problems that `slicewright solve` reads (docs/reference/solve.md).

    python crates/planner/benches/actuators.py SLICEWRIGHT PROBLEM.json ...

Prints a table, one row a problem: the demand and the least of it that can stay unserved (`optimum` of the file), and what
the plan leaves with an agent, which changes single slices, and without one, where only GPUs without any slice in use
change. All are weights. Ends with 1 if a plan is not proved, or leaves more than the optimum of its way.
"""

import json
import pathlib
import subprocess
import sys

WAYS = (("optimum", []), ("optimum_whole_gpu_only", ["--whole-gpu"]))


def unserved(program, file, flags):
    """What the plan leaves, and whether it is proved that no plan leaves less."""
    said = subprocess.run([program, "solve", "--output", "json", *flags, file], capture_output=True, text=True)
    if said.returncode not in (0, 7):
        raise SystemExit(f"{file}: {said.stderr}")
    plan = json.loads(said.stdout)
    return plan["objectives"]["unserved_weight"], plan["certificate"]["unserved_weight"]["proven"]


def row(program, file):
    problem = json.loads(pathlib.Path(file).read_text())
    weights = problem.get("weights", {})
    demand = sum(count * weights.get(profile, 1) for profile, count in problem["demand"].items())
    best = [problem[key]["O1_unmet_weight"] for key, _ in WAYS]
    left = [unserved(program, file, flags) for _, flags in WAYS]
    return problem["name"], len(problem["gpus"]), demand, best, left


def main(program, files):
    rows = sorted((row(program, file) for file in files), key=lambda one: (one[1], one[0]))
    print("| problem | GPUs | demand | optimum, single slices | with an agent | above it | without one | above it |")
    print("|---|---|---|---|---|---|---|---|")
    wrong, total = [], [0, 0, 0, 0]
    for name, gpus, demand, best, left in rows:
        (agent, whole), optimum = (value for value, _ in left), best[0]
        if (agent, whole) != tuple(best) or not all(proven for _, proven in left):
            wrong.append(name)
        print(f"| {name} | {gpus:,} | {demand:,} | {optimum:,} | {agent:,} | {agent - optimum:,} | {whole:,} | {whole - optimum:,} |")
        total = [a + b for a, b in zip(total, (demand, optimum, agent, whole))]
    demand, optimum, agent, whole = total
    print(f"| all {len(rows)} | | {demand:,} | {optimum:,} | {agent:,} | {agent - optimum:,} | {whole:,} | {whole - optimum:,} |")
    if wrong:
        raise SystemExit(f"not as good as the proved optimum: {', '.join(wrong)}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
