"""Who is served of several priorities, the highest first, by HiGHS and by the planner.

    pip install highspy
    python crates/planner/benches/rooms_family.py FOLDER few 1 41 5
    cargo bench -p slicewright-planner --bench rooms --profile dev -- FOLDER/*.json > TABLE
    python crates/planner/benches/rooms_priorities.py SECONDS TABLE FOLDER/*.json

The program is that of `rooms_highs.py`, with a variable for what is served of each kind of pods at each priority. It is
solved once for each priority, and what the higher ones get is held. HiGHS has one thread and so many seconds for each
priority; where it does not end by then, the fleet is compared up to the priority before. Printed are the compute slices
that are not served at each priority, of both. The exit status tells whether HiGHS serves anybody better, or a bound of the
planner is above what HiGHS found.
"""

import collections
import json
import pathlib
import sys

import highspy
from rooms_highs import COMPUTE, LAYOUTS, PROFILES, read


def demand(path):
    """How many pods of each kind ask at each priority."""
    asked = collections.Counter()
    for thing in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["objects"]:
        if thing["kind"] == "Pod":
            asks = thing["spec"]["containers"][0]["resources"]["limits"]
            (profile,) = [r.removeprefix("nvidia.com/mig-") for r in asks if r.startswith("nvidia.com/mig-")]
            kind = PROFILES.index(profile), int(asks["cpu"]), int(asks["memory"].removesuffix("Gi"))
            asked[kind, thing["spec"].get("priority", 0)] += 1
    return asked


def unserved(path, seconds):
    """What HiGHS leaves unserved at each priority, the highest first, as far as it comes to an end."""
    nodes, kinds = read(path)
    asked = demand(path)
    solver = highspy.Highs()
    for option, setting in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("time_limit", seconds)):
        solver.setOptionValue(option, setting)

    def whole(most):
        solver.addVar(0, most)
        column = solver.getNumCol() - 1
        solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        return column

    def row(least, most, entries):
        solver.addRow(least, most, len(entries), [column for column, _ in entries], [float(a) for _, a in entries])

    infinity = highspy.kHighsInf
    placed = collections.defaultdict(list)
    for gpus, cores, gib, pods in nodes:
        cut = [(counts, whole(gpus)) for counts in LAYOUTS]
        here = [(kind, whole(n)) for kind, n in sorted(kinds.items()) if kind[1] <= cores and kind[2] <= gib]
        row(gpus, gpus, [(column, 1) for _, column in cut])
        row(-infinity, cores, [(column, kind[1]) for kind, column in here])
        row(-infinity, gib, [(column, kind[2]) for kind, column in here])
        row(-infinity, pods, [(column, 1) for _, column in here])
        for profile in range(len(PROFILES)):
            supply = [(column, counts[profile]) for counts, column in cut if counts[profile]]
            row(0, infinity, supply + [(column, -1) for kind, column in here if kind[0] == profile])
        for kind, column in here:
            placed[kind].append((column, 1))
    served = {key: whole(n) for key, n in sorted(asked.items())}
    for kind in kinds:
        row(0, infinity, placed[kind] + [(column, -1) for (of, _), column in served.items() if of == kind])

    found = []
    for priority in sorted({priority for _, priority in asked}, reverse=True):
        counted = {column: COMPUTE[kind[0]] for (kind, of), column in served.items() if of == priority}
        for column in range(solver.getNumCol()):
            solver.changeColCost(column, -float(counted.get(column, 0)))
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            break
        gets = -round(solver.getInfo().objective_function_value)
        row(gets, infinity, list(counted.items()))
        found.append(sum(COMPUTE[kind[0]] * n for (kind, of), n in asked.items() if of == priority) - gets)
    return found


def table(path):
    """By fleet, the values and the bounds of the levels of unserved compute slices, and the time."""
    planned = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 8 and cells[1].endswith(".json"):
            levels = [level.replace("(", "").replace(")", "").split() for level in cells[6].split(",")]
            planned[cells[1]] = [[int(number) for number in level] for level in levels], cells[4]
    return planned


def main():
    seconds, planned, paths = float(sys.argv[1]), table(sys.argv[2]), sys.argv[3:]
    print("| fleet | planner | HiGHS | first difference | time |\n|---|---|---|---|---|")
    worse, better, false, compared = 0, 0, 0, 0
    for path in paths:
        name = pathlib.Path(path).name
        levels, took = planned[name]
        least = unserved(path, seconds)
        values = [value for value, _ in levels[: len(least)]]
        first = next((k for k, (a, b) in enumerate(zip(values, least)) if a != b), None)
        same = len(least) if first is None else first + 1
        false += any(bound > of for (_, bound), of in zip(levels[:same], least))
        compared += len(least) == len(levels)
        worse += values > least
        better += values < least
        difference = "" if first is None else f"{values[first]} and {least[first]}"
        print(f"| {name} | {values} | {least} | {difference} | {took} |", flush=True)
    print(f"\nof {len(paths)} plans, {compared} are compared at all priorities; {worse} are worse and {better} better")
    sys.exit(1 if worse or false else 0)


if __name__ == "__main__":
    main()
