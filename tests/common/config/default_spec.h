// Specs for tests and benchmarks that are handed no job file: what the schema says by default.
#ifndef COXSWAIN_TESTS_COMMON_CONFIG_DEFAULT_SPEC_H_
#define COXSWAIN_TESTS_COMMON_CONFIG_DEFAULT_SPEC_H_

#include <cstdlib>
#include <string>
#include <utility>

#include "common/config/parser/job_parser.h"

namespace coxswain::config {

// Of the smallest job file, on one CPU worker.
inline JobSpec SmallestSpec(const std::string& scheduler = "cosine") {
  ParsedJob job = ParseJob(
      "apiVersion: coxswain/v1\n"
      "kind: FineTuneJob\n"
      "metadata: {name: tiny}\n"
      "spec:\n"
      "  base_model: /model\n"
      "  datasets: [{path: /data.jsonl}]\n"
      "  train: {learning_rate: 1.0e-4, max_steps: 1, warmup_steps: 0, lr_scheduler: " +
          scheduler +
          "}\n"
          "  resources: {device: cpu}\n",
      "/");
  if (!job.errors.empty()) std::abort();
  return std::move(job.spec);
}

// Empty are what every job gives itself (name, model, datasets, output) and how long it trains and
// warms up. The learning rate is 1e-4; what a scheduler reads is set for each of them.
inline JobSpec DefaultSpec() {
  JobSpec spec = SmallestSpec();
  spec.name.clear();
  spec.model_path.clear();
  spec.output_dir.clear();
  spec.datasets.clear();
  spec.train.max_steps.reset();
  spec.train.warmup_steps.reset();
  const auto kwargs_of = [](const char* scheduler) {
    return SmallestSpec(scheduler).train.lr_scheduler_kwargs;
  };
  LrSchedulerKwargs& kwargs = spec.train.lr_scheduler_kwargs;
  kwargs = kwargs_of("warmup_stable_decay");
  kwargs.num_cycles = kwargs_of("cosine_with_restarts").num_cycles;
  kwargs.power = kwargs_of("polynomial").power;
  return spec;
}

// Without a path.
inline DatasetSpec DefaultDataset() {
  DatasetSpec dataset = SmallestSpec().datasets.front();
  dataset.path.clear();
  return dataset;
}

}  // namespace coxswain::config

#endif  // COXSWAIN_TESTS_COMMON_CONFIG_DEFAULT_SPEC_H_
