#!/usr/bin/env python3
"""Sums the kernels of a training step by what they do.   profile_table.py TIMES_CSV [JSON]

TIMES_CSV is what libkernel_times.so (kernel_times.cc) wrote of one step.
"""
import csv
import json
import re
import sys

# Kernels of kernels/cuda begin with the name of their op; the others belong to libraries.
FAMILIES = [
    ("fused gated products", r"\bFusedGatedLinear\w*Kernel"),
    ("attention", r"\b(Flash|Plain)Attention\w*Kernel|\bHopper\w*Kernel|fmha|flash|sdpa|cudnn|mha"),
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
    ("codes of FP8", r"\b(Maxima|Quantize|Turn|AttentionCodes|MoveHistory|JudgeObserved)Kernel"),
    ("GEMM", r"nvjet|cutlass|gemm|xmma|splitK"),
]


def family(kernel):
    return next((name for name, pattern in FAMILIES if re.search(pattern, kernel)), "other")


def main():
    sums, kernels = {}, {}
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        for row in csv.DictReader(file):
            ms, calls = int(row["nanoseconds"]) / 1e6, int(row["calls"])
            name = row["name"]
            for table, key in ((sums, family(name)), (kernels, name[:100])):
                total, count = table.get(key, (0.0, 0))
                table[key] = (total + ms, count + calls)
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
