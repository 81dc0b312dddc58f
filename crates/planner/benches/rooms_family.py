"""Idle fleets whose nodes are short of CPU and memory, as snapshots that the bench `rooms` reads.

    python crates/planner/benches/rooms_family.py FOLDER few 1 121
    python crates/planner/benches/rooms_family.py FOLDER many 1 21
    python crates/planner/benches/rooms_family.py FOLDER wide 1 7
    python crates/planner/benches/rooms_family.py FOLDER few 1 41 5

`few`: 3 to 40 nodes, 2 to 28 kinds of pods. `many`: 5 to 16 nodes, and each pod has CPU and memory of its own. `wide`:
the same on 24 to 60 nodes. The numbers are the first seed and the one after the last, and how many priorities the pods
have, if they have more than one. A seed always gives the same fleet, FOLDER/few-001.json.
"""

import json
import pathlib
import random
import sys

# Cores and GiB of nodes, and of pods.
SIZES = [(32, 192), (48, 384), (64, 512), (96, 1024)]
TAKES = [(1, 4), (2, 8), (3, 24), (4, 16), (5, 10), (6, 20)]
TAKES += [(8, 32), (10, 80), (12, 48), (16, 64), (20, 100), (24, 128)]
# Profiles with their compute slices.
PROFILES = [("1g.10gb", 1), ("2g.20gb", 2), ("3g.40gb", 3), ("7g.80gb", 7)]
# What the GPUs of a node are found with.
LAYOUTS = [
    {"1g.10gb": 7},
    {"2g.20gb": 3},
    {"3g.40gb": 2},
    {"7g.80gb": 1},
    {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
]
NODES = {"few": [3, 5, 8, 10, 16, 20, 40], "many": [5, 8, 10, 16], "wide": [24, 32, 40, 48, 60]}


def node(name, cores, gib, gpus, layout):
    allocatable = {"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110", "nvidia.com/gpu": "0"}
    for profile, count in layout.items():
        allocatable[f"nvidia.com/mig-{profile}"] = str(count * gpus)
    metadata = {"name": name, "labels": {"nvidia.com/gpu.count": str(gpus)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": allocatable}}


def pod(number, profile, cores, gib):
    """Pods come one a second."""
    limits = {"cpu": str(cores), "memory": f"{gib}Gi", f"nvidia.com/mig-{profile}": "1"}
    hours, minutes, seconds = number // 3600 % 24, number // 60 % 60, number % 60
    since = f"2026-11-20T{hours:02d}:{minutes:02d}:{seconds:02d}Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "t", "name": f"wait-{number}", "creationTimestamp": since},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }


def fleet(seed, family, priorities):
    numbers = random.Random(seed)
    # With numbers of their own, so that the fleet is the same without them.
    which = random.Random(seed)
    nodes = numbers.choice(NODES[family])
    sizes = [numbers.choice(SIZES) for _ in range(numbers.randint(1, 3))]
    load = numbers.uniform(0.5, 1.3)
    kinds = [(numbers.choice(PROFILES), numbers.choice(TAKES)) for _ in range(numbers.randint(2, 28))]
    most = numbers.choice([2, 4, 8])
    objects, slices = [], 0
    for i in range(nodes):
        (cores, gib), layout = numbers.choice(sizes), numbers.choice(LAYOUTS)
        gpus = numbers.choice([most, max(1, most // 2)])
        slices += 7 * gpus
        objects.append(node(f"gpu-{i:04d}", cores, gib, gpus, layout))
    asked, number = 0, 0
    while asked < load * slices:
        (profile, compute), (cores, gib) = numbers.choice(kinds)
        if family != "few":
            cores, gib = numbers.randint(1, 24), numbers.randint(4, 128)
        asked += compute
        objects.append(pod(number, profile, cores, gib))
        if priorities > 1:
            objects[-1]["spec"]["priority"] = which.randrange(priorities)
        number += 1
    return {"apiVersion": "v1", "kind": "List", "objects": objects}


def main():
    folder, family, first, end = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    priorities = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, end):
        (folder / f"{family}-{seed:03d}.json").write_text(json.dumps(fleet(seed, family, priorities)), encoding="utf-8")


main()
