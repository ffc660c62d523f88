#!/usr/bin/env python3
"""The setting of step_bench's row 0.5b_full_1024 as a job of cox: writes its folder, or reads its result.

  large_job.py make FOLDER MODEL     MODEL holds config.json and a tokenizer; documents of more than 1,024 tokens
                                     are made of the quickstart's records, so that every bin is one document
  large_job.py table JOB_JSON [STEPS_JSON]    speed of the job beside the row's of gpu_step_bench
"""
import json
import os
import random
import shutil
import sys

STEPS, BINS = 14, 128
JOB = """apiVersion: coxswain/v1
kind: FineTuneJob
metadata: {{name: large}}
spec:
  base_model: {{path: ./model, init: random}}
  method: pretrain
  datasets: [{{path: ./train.jsonl, format: completion}}]
  sequence_len: 1024
  train: {{global_batch_size: {bins}, micro_batch_size: 32, max_steps: {steps}, learning_rate: 2.0e-5}}
  recompute: none
  checkpoint: {{output_dir: ./out, save_steps: 1000, resume: never}}
  resources: {{device: cuda, workers: 1}}
"""


def write_documents(path, count, tokens=1024):
    """`count` records of more than `tokens` tokens, of the quickstart's records."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "deploy", "quickstart", "train.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    texts = [" ".join(str(value) for value in record.values()) for record in records]
    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            text = ""
            while len(text) < 9 * tokens:  # of up to 8 letters
                text += draw.choice(texts) + "\n"
            file.write(json.dumps({"text": text}) + "\n")


def make(folder, model):
    os.makedirs(folder, exist_ok=True)
    shutil.copytree(model, os.path.join(folder, "model"))
    write_documents(os.path.join(folder, "train.jsonl"), STEPS * BINS)
    with open(os.path.join(folder, "job.yaml"), "w", encoding="utf-8") as file:
        file.write(JOB.format(steps=STEPS, bins=BINS))


def table(job_path, steps_path):
    with open(job_path, encoding="utf-8") as file:
        job = json.load(file)
    speed = job["progress"].get("tokens_per_second", 0)
    print(f"job {job['id']}: {speed:,.0f} tokens/s over its last 10 steps, controller, logging and commands included")
    if steps_path and os.path.exists(steps_path):
        with open(steps_path, encoding="utf-8") as file:
            rows = {row["row"]: row for row in json.load(file)["rows"]}
        bench = rows.get("0.5b_full_1024", {}).get("tokens_per_second")
        if bench:
            print(f"gpu_step_bench: {bench:,.0f}; the job is at {100 * speed / bench:.2f} % of it (goal 99)")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3])
    else:
        table(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
