#!/usr/bin/env python3
"""Sums the kernels of one training step by what they do.   profile_table.py NCU_CSV [JSON]

The input is ncu's --csv of gpu__time_duration.sum. Under the profiler kernels run one at a time, so the
device is cooler and its clock higher than in a step: compare shares, not milliseconds.
"""
import csv
import json
import re
import sys

# Kernels of kernels/cuda begin with the name of their op; the others belong to libraries.
FAMILIES = [
    ("fused gated products", r"\bFusedGatedLinear\w*Kernel"),
    ("attention", r"\b(Flash|Plain)Attention\w*Kernel|fmha|flash|sdpa|cudnn|mha"),
    ("SwiGLU", r"\bGlu\w*Kernel"),
    ("GELU", r"\bGelu\w*Kernel"),
    ("RMSNorm", r"\bRmsNorm\w*Kernel"),
    ("LayerNorm", r"\bLayerNorm\w*Kernel"),
    ("QK-norm", r"\bQkNorm\w*Kernel"),
    ("DoRA", r"\bDora\w*Kernel"),
    ("weight gradients of norms and DoRA", r"\bPartialSumsKernel"),  # the last addition, shared by them
    ("RoPE", r"\bRopeKernel"),
    ("cross-entropy", r"\bCrossEntropy\w*Kernel"),
    ("low-rank adapters", r"\bLowRank\w*Kernel"),
    ("optimizer and norm", r"\b(AdamW|GlobalNorm|DecideUpdate)\w*Kernel"),
    ("embedding and rows", r"\b(Embedding|GatherRows|ScatterAddRows)\w*Kernel|RadixSort"),
    ("bias", r"\bBiasBackward\w*Kernel"),
    ("GEMM", r"nvjet|cutlass|gemm|xmma|splitK"),
]
UNITS = {"nsecond": 1e-6, "ns": 1e-6, "usecond": 1e-3, "us": 1e-3, "msecond": 1.0, "ms": 1.0}


def family(kernel):
    return next((name for name, pattern in FAMILIES if re.search(pattern, kernel)), "other")


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if line.startswith('"')]
    sums, kernels = {}, {}
    for row in csv.DictReader(lines):
        if row["Metric Name"] != "gpu__time_duration.sum":
            continue
        ms = float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]]
        name = row["Kernel Name"]
        for table, key in ((sums, family(name)), (kernels, name[:100])):
            total, count = table.get(key, (0.0, 0))
            table[key] = (total + ms, count + 1)
    whole = sum(ms for ms, _ in sums.values())
    if whole == 0:
        sys.exit(f"{sys.argv[1]}: no kernel was recorded")
    for title, table in (("family", sums), ("kernel", kernels)):
        print(f"{title:<100} {'ms':>9} {'share':>6} {'calls':>6}")
        ordered = sorted(table.items(), key=lambda item: -item[1][0])
        for name, (ms, count) in ordered[:24]:
            print(f"{name:<100} {ms:9.2f} {100 * ms / whole:5.1f}% {count:6d}")
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump({"ms": whole, "families": {k: {"ms": v[0], "calls": v[1]} for k, v in sums.items()}}, file,
                      indent=1)


main()
