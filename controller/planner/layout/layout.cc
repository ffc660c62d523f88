#include "controller/planner/layout/layout.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/format.h"
#include "common/plan/extents.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "controller/planner/layout/gradient_sum.h"
#include "controller/planner/memory/attention_workspace.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/model/parameter_groups.h"
#include "controller/planner/time/cut_head.h"
#include "controller/planner/time/gpu_time.h"

namespace coxswain::planner {
namespace {

constexpr int64_t kMaxMicroStepTokens = int64_t{1} << 27;  // keeps byte counts inside int64

// Collects changes of a job under which it would fit.
class Changes {
 public:
  Changes(const LayoutLimits& limits, const plan::Plan& plan) : limits_(limits), plan_(plan) {}

  // Whether the changed job fits; then `text` is remembered.
  bool Consider(const std::string& text, const config::JobSpec& changed) {
    plan::Plan candidate = plan_;
    candidate.sequence_len = changed.sequence_len;
    candidate.recompute_every = changed.recompute_every;
    if (!MakeParameters(changed, &candidate).ok()) return false;
    const uint64_t bytes = SmallestLayoutBytes(changed, limits_, std::move(candidate));
    if (bytes > limits_.memory_bytes) return false;
    fitting_.push_back(absl::StrCat(text, " (", FormatBytes(bytes), ")"));
    return true;
  }

  const std::vector<std::string>& fitting() const { return fitting_; }

 private:
  const LayoutLimits& limits_;
  const plan::Plan& plan_;
  std::vector<std::string> fitting_;
};

std::vector<std::string> WhatFits(const config::JobSpec& job, const LayoutLimits& limits,
                                  const plan::Plan& plan) {
  Changes changes(limits, plan);
  config::JobSpec small = job;
  small.recompute = RecomputeLevel::kBlock;
  small.recompute_every = 1;
  small.train.micro_batch_size = 1;
  changes.Consider("recompute: block with train.micro_batch_size: 1", small);
  const bool full = job.adapter == config::Adapter::kNone;
  if (plan::TrainsBase(plan) && plan.compute_dtype == Precision::kBfloat16 &&
      (job.master_dtype == Precision::kFloat32 || job.gradient_dtype == Precision::kFloat32)) {
    config::JobSpec half = job;
    half.master_dtype = half.gradient_dtype = Precision::kBfloat16;
    changes.Consider("precision.master_weights: bfloat16 with precision.gradients: bfloat16", half);
  }
  config::JobSpec sharded = job;
  sharded.zero = 3;
  if (plan.shard > 1 && job.zero.has_value()) changes.Consider("parallelism.zero: 3", sharded);
  config::JobSpec lora = job;
  lora.adapter = config::Adapter::kLora;
  if (full) changes.Consider("adapter: lora", lora);
  config::JobSpec quantized = lora;
  quantized.quantization = "auto";
  if (plan.quantization == Quantization::kNone) changes.Consider("adapter: qlora", quantized);
  config::JobSpec shorter = job;
  while (shorter.sequence_len > 128) {
    shorter.sequence_len /= 2;
    if (changes.Consider(absl::StrCat("sequence_len: ", shorter.sequence_len), shorter)) break;
  }
  return changes.fitting();
}

absl::Status DoesNotFit(const config::JobSpec& job, const LayoutLimits& limits,
                        const plan::Plan& plan) {
  const MemoryByClass need = PlannedMemory(plan);
  std::string message = absl::StrCat(
      "a worker needs ", FormatBytes(need.total()), " (weights ", FormatBytes(need.weights),
      ", gradients ", FormatBytes(need.gradients), ", optimizer ", FormatBytes(need.optimizer),
      ", activations ", FormatBytes(need.activations), ", workspace ", FormatBytes(need.workspace),
      need.runtime > 0 ? absl::StrCat(", CUDA's runtime ", FormatBytes(need.runtime)) : "",
      need.communication > 0 ? absl::StrCat(", communication ", FormatBytes(need.communication))
                             : "",
      "), its limit is ", FormatBytes(limits.memory_bytes), ". ");
  const std::vector<std::string> fitting = WhatFits(job, limits, plan);
  if (fitting.empty()) {
    absl::StrAppend(&message, "No single change would fit: use a smaller model or a worker with ",
                    "at least ", FormatBytes(SmallestLayoutBytes(job, limits, plan)), ".");
  } else {
    absl::StrAppend(&message, "What would fit: ", absl::StrJoin(fitting, "; or "), ".");
  }
  return absl::ResourceExhaustedError(message);
}

// The fastest algorithm, where memory is left for it and micro-steps run it.
void AddAttentionWorkspace(const LayoutLimits& limits, plan::Plan* plan) {
  const int64_t before = plan->attention_workspace_bytes;
  const int64_t fastest = WorkspaceOf(FastestAttentionBytes(*plan, limits.compute_capability));
  if (fastest <= before || !RunsSingleDocuments(*plan, limits.single_document_bins)) return;
  plan->attention_workspace_bytes = fastest;
  plan->buffers = BufferTable(*plan);
  if (limits.memory_bytes == 0 || PlannedMemory(*plan).total() <= limits.memory_bytes) return;
  plan->attention_workspace_bytes = before;
  plan->buffers = BufferTable(*plan);
}

// As many slots as there are blocks, or as the memory left by the least of them holds.
void AddWeightSlots(const LayoutLimits& limits, plan::Plan* plan) {
  const uint64_t least = PlannedMemory(*plan).total();
  const int32_t all = std::max<int32_t>(plan->weight_slots, plan->model.num_layers);
  plan->weight_slots += 1;
  plan->buffers = BufferTable(*plan);
  const uint64_t of_one = std::max<uint64_t>(1, PlannedMemory(*plan).total() - least);
  plan->weight_slots -= 1;
  const uint64_t more = limits.memory_bytes == 0 ? static_cast<uint64_t>(all)
                                                 : (limits.memory_bytes - least) / of_one;
  plan->weight_slots = static_cast<int32_t>(std::min<uint64_t>(
      static_cast<uint64_t>(all), static_cast<uint64_t>(plan->weight_slots) + more));
  plan->buffers = BufferTable(*plan);
}

// Larger LM-head chunks, where the head is trained, memory is left for them and none is saved by
// computing twice.
void AddHeadRows(const LayoutLimits& limits, plan::Plan* plan) {
  if (!plan::TrainsBase(*plan) || plan->recompute != RecomputeLevel::kNone ||
      plan->lm_head_panel_bytes > 0)
    return;
  const plan::Plan before = *plan;
  EnlargeHeadChunk(plan);
  if (limits.memory_bytes == 0 || PlannedMemory(*plan).total() <= limits.memory_bytes) return;
  *plan = before;
}

absl::Status HeadMemoryTooSmall(const config::JobSpec& job, const plan::Plan& plan,
                                const std::string& what, int64_t least) {
  return absl::InvalidArgumentError(absl::StrCat(
      "loss.head_memory_mib is ", *job.head_memory_mib, ", ", what, " over ", plan.model.vocab_size,
      " tokens takes ", FormatBytes(static_cast<uint64_t>(least)), "; give at least ",
      CeilDiv(least, int64_t{1} << 20)));
}

// What loss.head_memory_mib must hold: of a cut head what the smallest micro-step needs, else a
// row, and one of each text that is answered at once.
absl::Status CheckHead(const config::JobSpec& job, const LayoutLimits& limits,
                       const plan::Plan& plan) {
  const bool cut = job.loss_head == config::LossHead::kCut;
  if (cut) RETURN_IF_ERROR(CheckCutHead(plan));
  if (!job.head_memory_mib.has_value() || plan.model.labels > 0) return absl::OkStatus();
  if (cut) {
    plan::Plan smallest = plan;
    ApplyLayout(LayoutsToTry(job, limits, plan).back(), &smallest);
    const int64_t least = LeastCutHeadBytes(smallest);
    if (FixedLogitsBytes(job) >= least) return absl::OkStatus();
    return HeadMemoryTooSmall(job, plan,
                              absl::StrCat("a cut head of ", smallest.micro_batch_bins, " x ",
                                           smallest.sequence_len, " rows"),
                              least);
  }
  const int64_t texts = std::max<int64_t>(1, plan.generation.sequences);
  const int64_t least = texts * plan::LogitsRowBytes(plan);
  if (FixedLogitsBytes(job) >= least) return absl::OkStatus();
  return HeadMemoryTooSmall(
      job, plan,
      texts == 1 ? "a row of logits"
                 : absl::StrCat("the rows of ", texts, " texts of eval.sample_prompts"),
      least);
}

absl::Status CheckRecompute(const config::JobSpec& job, const plan::Plan& plan) {
  if (plan.recompute_every > plan.model.num_layers) {
    return absl::InvalidArgumentError(absl::StrCat("recompute is {every: ", plan.recompute_every,
                                                   "}, the model has ", plan.model.num_layers,
                                                   " blocks"));
  }
  if (job.recompute == RecomputeLevel::kExpertOut && plan.model.mixture.experts == 0) {
    return absl::InvalidArgumentError(
        "recompute is expert_out, the model has no experts; take norm_swiglu or ffn");
  }
  return absl::OkStatus();
}

// Applies a layout; false where it does not fit.
bool LayoutFits(const config::JobSpec& job, const LayoutLimits& limits, const Layout& layout,
                plan::Plan* plan) {
  ApplyLayout(layout, plan);
  const bool within =
      !job.head_memory_mib.has_value() || plan->lm_head_panel_bytes <= FixedLogitsBytes(job);
  return within && FitGradientSum(job, limits.global_batch_bins, limits.memory_bytes, plan);
}

// The head of the smallest layout that `loss.head: auto` takes where its usual chunks do not fit:
// of smaller chunks and the cut head the fastest that fits.
bool FitsWithASmallHead(const config::JobSpec& job, const LayoutLimits& limits, Layout layout,
                        plan::Plan* plan) {
  std::vector<Layout> heads;
  for (const int64_t mib : {256, 128, 64}) {
    layout.logits_bytes = mib << 20;
    heads.push_back(layout);
  }
  layout.logits_bytes = 0;
  layout.cut_head = true;
  if (CheckCutHead(*plan).ok()) heads.push_back(layout);
  std::optional<plan::Plan> fastest;
  for (const Layout& head : heads) {
    plan::Plan candidate = *plan;
    if (!LayoutFits(job, limits, head, &candidate)) continue;
    if (fastest && HeadSeconds(*fastest) <= HeadSeconds(candidate)) continue;
    fastest = std::move(candidate);
  }
  if (fastest) *plan = std::move(*fastest);
  return fastest.has_value();
}

// Codes of weights stay beside the weights where memory is left for them. Gathered blocks have no
// memory of their own.
void KeepFp8Weights(const config::JobSpec& job, const LayoutLimits& limits, plan::Plan* plan) {
  if (!job.fp8.has_value() || !job.fp8->keeps_weights || plan->zero == 3) return;
  const plan::Plan before = *plan;
  plan->fp8.keeps_weights = true;
  plan->buffers = BufferTable(*plan);
  if (limits.memory_bytes == 0 || PlannedMemory(*plan).total() <= limits.memory_bytes) return;
  *plan = before;
}

// Of a rank's training step, at the rates of an H200: the sum of fixed times is that of other GPUs
// by one factor, nearly.
double SecondsOfAStep(int64_t global_batch_bins, const plan::Plan& plan) {
  constexpr GpuRates kRates = {685e12, 4.28e12};
  const GpuTime time = PredictGpuTime(plan, plan.sequence_len, kRates);
  const int64_t bins = CeilDiv(global_batch_bins, int64_t{plan.world_size()});
  const int64_t micro_steps = CeilDiv(bins, plan.micro_batch_bins);
  return time.token * static_cast<double>(bins * plan.sequence_len) +
         time.micro_step * static_cast<double>(micro_steps) + time.step;
}

// Memory that is left.
void AddWhatIsLeft(const config::JobSpec& job, const LayoutLimits& limits, plan::Plan* plan) {
  if (plan->device == DeviceKind::kCuda && !job.attention_workspace_gib.has_value()) {
    AddAttentionWorkspace(limits, plan);
  }
  KeepFp8Weights(job, limits, plan);
  const bool stay = plan->zero == 3 && plan->quantization == Quantization::kNone;
  if (stay && !job.resident_blocks.has_value()) AddWeightSlots(limits, plan);
}

// Whether updates of both plans round alike.
bool SameNumbers(const plan::Plan& a, const plan::Plan& b) {
  return a.master_dtype == b.master_dtype && a.gradient_dtype == b.gradient_dtype &&
         a.gradient_sum == b.gradient_sum;
}

// Codes of experts take as many bytes as the experts. Made in every micro-step, they may cost more
// than their products save: where the first layout that has room for them is faster than `plan`, it
// takes that one, which computes more again. Masters and gradients make no room: they keep their
// formats.
void MakeRoomForCodes(const config::JobSpec& job, const LayoutLimits& limits,
                      const std::vector<Layout>& layouts, plan::Plan* plan) {
  if (plan->device != DeviceKind::kCuda || !plan->fp8.experts || !job.fp8->keeps_weights ||
      plan->fp8.keeps_weights) {
    return;
  }
  plan::Plan roomy = *plan;
  for (const Layout& layout : layouts) {
    roomy.fp8.keeps_weights = true;
    if (layout.zero == 3 || !LayoutFits(job, limits, layout, &roomy)) continue;
    if (!SameNumbers(roomy, *plan)) continue;
    AddWhatIsLeft(job, limits, &roomy);
    const int64_t bins = limits.global_batch_bins;
    if (SecondsOfAStep(bins, roomy) < SecondsOfAStep(bins, *plan)) *plan = std::move(roomy);
    return;
  }
}

}  // namespace

absl::Status ChooseLayout(const config::JobSpec& job, const LayoutLimits& limits,
                          plan::Plan* plan) {
  const int64_t most = kMaxMicroStepTokens / plan->sequence_len;
  if (const int64_t bins = job.train.micro_batch_size.value_or(1); bins > most) {
    return absl::InvalidArgumentError(absl::StrCat("train.micro_batch_size is ", bins, ", at most ",
                                                   most, " bins of sequence_len ",
                                                   plan->sequence_len, " fit a micro-step"));
  }
  plan->recompute_every = job.recompute_every;
  RETURN_IF_ERROR(CheckRecompute(job, *plan));
  RETURN_IF_ERROR(CheckHead(job, limits, *plan));
  const std::vector<Layout> layouts = LayoutsToTry(job, limits, *plan);
  for (const Layout& layout : layouts) {
    if (!LayoutFits(job, limits, layout, plan)) continue;
    AddWhatIsLeft(job, limits, plan);
    MakeRoomForCodes(job, limits, layouts, plan);
    if (plan->device == DeviceKind::kCuda && !job.head_memory_mib.has_value())
      AddHeadRows(limits, plan);
    DropNeedlessSum(job, limits.global_batch_bins, plan);
    return absl::OkStatus();
  }
  const bool open = job.loss_head == config::LossHead::kAuto && !job.head_memory_mib.has_value();
  if (open && plan->device == DeviceKind::kCuda && plan->model.labels == 0 &&
      FitsWithASmallHead(job, limits, layouts.back(), plan)) {
    AddWhatIsLeft(job, limits, plan);
    return absl::OkStatus();
  }
  return DoesNotFit(job, limits, *plan);
}

}  // namespace coxswain::planner
