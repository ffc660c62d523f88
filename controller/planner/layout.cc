#include "controller/planner/layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/planner/buffer_table.h"
#include "controller/planner/parameter_groups.h"

namespace coxswain::planner {
namespace {

using config::Recompute;

constexpr int64_t kCpuMicroStepTokens = 4096;
constexpr int64_t kMaxMicroStepTokens = int64_t{1} << 27;  // keeps byte counts inside int64
constexpr int64_t kLogitsBudgetBytes = int64_t{64} << 20;
constexpr int64_t kSmallestChunk = 128;  // rows below which a GEMM over the vocabulary is slow

// Rows of the logits buffer: what the budget holds, in multiples of 64, at most all rows.
int64_t HeadChunk(const plan::Plan& plan) {
  const int64_t rows = kLogitsBudgetBytes / (4 * plan.model.vocab_size) / 64 * 64;
  return std::min(std::max(rows, kSmallestChunk), plan.micro_batch_bins * plan.sequence_len);
}

void Apply(int64_t micro_batch, const char* recompute, plan::Plan* plan) {
  plan->micro_batch_bins = micro_batch;
  plan->recompute = recompute;
  plan->lm_head_chunk_tokens = HeadChunk(*plan);
  plan->buffers = BufferTable(*plan);
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Micro-batches to try, largest first.
std::vector<int64_t> MicroBatches(const config::JobSpec& job, const LayoutLimits& limits,
                                  const plan::Plan& plan) {
  if (job.train.micro_batch_size.has_value()) return {*job.train.micro_batch_size};
  const int64_t share = CeilDiv(limits.global_batch_bins, plan.world_size());
  const int64_t most =
      std::min(share, std::max<int64_t>(1, kCpuMicroStepTokens / plan.sequence_len));
  std::vector<int64_t> sizes;
  for (int64_t size = most; size >= 1; --size) {
    const int64_t equal = CeilDiv(share, CeilDiv(share, size));
    if (sizes.empty() || sizes.back() > equal) sizes.push_back(equal);
  }
  return sizes;
}

std::vector<const char*> RecomputeLevels(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return {"none"};
    case Recompute::kBlock:
      return {"block"};
    case Recompute::kAuto:
      break;
  }
  return {"none", "block"};
}

// Smallest layout of the job: what it comes down to when everything left to the planner is small.
uint64_t SmallestBytes(const config::JobSpec& job, const LayoutLimits& limits, plan::Plan plan) {
  Apply(MicroBatches(job, limits, plan).back(), RecomputeLevels(job.recompute).back(), &plan);
  return SumByClass(plan.buffers).total();
}

// Changes of the job, one at a time, under which it would fit.
std::vector<std::string> WhatFits(const config::JobSpec& job, const LayoutLimits& limits,
                                  const plan::Plan& plan) {
  std::vector<std::string> fitting;
  const auto consider = [&](const std::string& text, const config::JobSpec& changed) {
    plan::Plan candidate = plan;
    candidate.sequence_len = changed.sequence_len;
    if (!MakeParameters(changed, &candidate).ok()) return false;
    const uint64_t bytes = SmallestBytes(changed, limits, std::move(candidate));
    if (bytes > limits.memory_bytes) return false;
    fitting.push_back(absl::StrCat(text, " (", FormatBytes(bytes), ")"));
    return true;
  };
  config::JobSpec small = job;
  small.recompute = Recompute::kBlock;
  small.train.micro_batch_size = 1;
  consider("recompute: block with train.micro_batch_size: 1", small);
  config::JobSpec lora = job;
  lora.adapter = config::Adapter::kLora;
  if (job.adapter == config::Adapter::kNone) consider("adapter: lora", lora);
  config::JobSpec shorter = job;
  while (shorter.sequence_len > 128) {
    shorter.sequence_len /= 2;
    if (consider(absl::StrCat("sequence_len: ", shorter.sequence_len), shorter)) break;
  }
  return fitting;
}

absl::Status DoesNotFit(const config::JobSpec& job, const LayoutLimits& limits,
                        const plan::Plan& plan) {
  const MemoryByClass need = SumByClass(plan.buffers);
  std::string message = absl::StrCat(
      "a worker needs ", FormatBytes(need.total()), " (weights ", FormatBytes(need.weights),
      ", gradients ", FormatBytes(need.gradients), ", optimizer ", FormatBytes(need.optimizer),
      ", activations ", FormatBytes(need.activations), ", workspace ", FormatBytes(need.workspace),
      "), its limit is ", FormatBytes(limits.memory_bytes), ". ");
  const std::vector<std::string> fitting = WhatFits(job, limits, plan);
  if (fitting.empty()) {
    absl::StrAppend(&message, "No single change would fit: use a smaller model or a worker with ",
                    "at least ", FormatBytes(SmallestBytes(job, limits, plan)), ".");
  } else {
    absl::StrAppend(&message, "What would fit: ", absl::StrJoin(fitting, "; or "), ".");
  }
  return absl::ResourceExhaustedError(message);
}

}  // namespace

MemoryByClass SumByClass(const std::vector<plan::Buffer>& buffers) {
  MemoryByClass sum;
  for (const plan::Buffer& buffer : buffers) {
    const auto bytes = static_cast<uint64_t>(buffer.bytes);
    switch (buffer.memory_class) {
      case plan::MemoryClass::kWeights:
        sum.weights += bytes;
        break;
      case plan::MemoryClass::kGradients:
        sum.gradients += bytes;
        break;
      case plan::MemoryClass::kOptimizer:
        sum.optimizer += bytes;
        break;
      case plan::MemoryClass::kActivations:
        sum.activations += bytes;
        break;
      case plan::MemoryClass::kWorkspace:
        sum.workspace += bytes;
        break;
      case plan::MemoryClass::kHost:
        sum.host += bytes;
        break;
    }
  }
  return sum;
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", value < 10 ? 2 : 1, value, units[unit]);
}

absl::Status ChooseLayout(const config::JobSpec& job, const LayoutLimits& limits,
                          plan::Plan* plan) {
  const int64_t most = kMaxMicroStepTokens / plan->sequence_len;
  if (const int64_t bins = job.train.micro_batch_size.value_or(1); bins > most) {
    return absl::InvalidArgumentError(absl::StrCat("train.micro_batch_size is ", bins, ", at most ",
                                                   most, " bins of sequence_len ",
                                                   plan->sequence_len, " fit a micro-step"));
  }
  for (const char* recompute : RecomputeLevels(job.recompute)) {
    for (const int64_t micro_batch : MicroBatches(job, limits, *plan)) {
      Apply(micro_batch, recompute, plan);
      const uint64_t need = SumByClass(plan->buffers).total();
      if (limits.memory_bytes == 0 || need <= limits.memory_bytes) return absl::OkStatus();
    }
  }
  return DoesNotFit(job, limits, *plan);
}

}  // namespace coxswain::planner
