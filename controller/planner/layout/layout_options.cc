#include "controller/planner/layout/layout_options.h"

#include <algorithm>

#include "common/plan/extents.h"
#include "common/plan/storage.h"
#include "controller/planner/layout/gradient_sum.h"
#include "controller/planner/memory/attention_workspace.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/time/cut_head.h"

namespace coxswain::planner {
namespace {

// What a kind of device runs well with.
struct DeviceShape {
  int64_t most_tokens;    // of a micro-step
  int64_t enough_tokens;  // from here on a smaller micro-step is better than more recomputation
  int64_t logits_bytes;   // of an LM-head chunk, at most
  int64_t chunk_rows;     // a chunk is a multiple of so many rows
  int64_t smallest_chunk;
};

// The CPU's smallest chunk: fewer rows make a slow product over the vocabulary.
DeviceShape ShapeOf(const plan::Plan& plan) {
  if (plan.device == DeviceKind::kCuda) return {32768, 8192, (int64_t{5} << 30) / 4, 1024, 1024};
  return {4096, 1, int64_t{64} << 20, 64, 128};
}

// Rows of the logits buffer: equal chunks of a micro-step, as few as `bytes` of logits allow.
int64_t HeadChunk(const plan::Plan& plan, int64_t bytes) {
  const DeviceShape shape = ShapeOf(plan);
  const int64_t held = bytes / (plan::ComputeBytes(plan) * plan.model.vocab_size);
  const int64_t most = std::max(held / shape.chunk_rows * shape.chunk_rows, shape.smallest_chunk);
  const int64_t rows = plan.micro_batch_bins * plan.sequence_len;
  const int64_t equal = CeilDiv(CeilDiv(rows, CeilDiv(rows, most)), shape.chunk_rows);
  return std::min(equal * shape.chunk_rows, rows);
}

// Equal chunks, as few as `bytes` of logits allow: whole tiles of 64 rows, or of 8, where that many
// fit, else what fits; at least the rows of texts that are answered at once.
int64_t FittingHeadChunk(const plan::Plan& plan, int64_t bytes) {
  const int64_t held = std::max<int64_t>(1, bytes / plan::LogitsRowBytes(plan));
  const int64_t tile = held >= 64 ? 64 : held >= 8 ? 8 : 1;
  const int64_t rows = plan.micro_batch_bins * plan.sequence_len;
  const int64_t equal = CeilDiv(rows, CeilDiv(rows, held / tile * tile));
  return std::min(std::max(CeilDiv(equal, tile) * tile, plan.generation.sequences), rows);
}

// Rows with a target are padded to a quarter of a micro-step: few numbers of them, of which each
// has products of its own to choose.
int64_t CutHeadRows(const plan::Plan& plan) {
  const int64_t rows = plan.micro_batch_bins * plan.sequence_len, part = ShapeOf(plan).chunk_rows;
  const int64_t quarter = CeilDiv(CeilDiv(rows, int64_t{4}), part) * part;
  return std::min(std::max(quarter, plan.generation.sequences), rows);
}

void SetHead(const Layout& layout, plan::Plan* plan) {
  plan->lm_head_panel_bytes = 0;
  if (layout.cut_head) {
    plan->lm_head_chunk_tokens = CutHeadRows(*plan);
    plan->lm_head_panel_bytes = CutHeadBytes(*plan, layout.logits_bytes);
    return;
  }
  plan->lm_head_chunk_tokens = layout.logits_bytes > 0
                                   ? FittingHeadChunk(*plan, layout.logits_bytes)
                                   : HeadChunk(*plan, ShapeOf(*plan).logits_bytes);
}

// Micro-batches to try, largest first.
std::vector<int64_t> MicroBatches(const config::JobSpec& job, const LayoutLimits& limits,
                                  const plan::Plan& plan) {
  if (job.train.micro_batch_size.has_value()) return {*job.train.micro_batch_size};
  const int64_t share = CeilDiv(limits.global_batch_bins, plan.world_size());
  const int64_t most =
      std::min(share, std::max<int64_t>(1, ShapeOf(plan).most_tokens / plan.sequence_len));
  std::vector<int64_t> sizes;
  for (int64_t size = most; size >= 1; --size) {
    const int64_t equal = CeilDiv(share, CeilDiv(share, size));
    if (sizes.empty() || sizes.back() > equal) sizes.push_back(equal);
  }
  return sizes;
}

// Recompute levels to try, cheapest first.
std::vector<RecomputeLevel> RecomputeLevels(const config::JobSpec& job, const plan::Plan& plan) {
  using enum RecomputeLevel;
  if (job.recompute.has_value()) return {*job.recompute};
  if (plan.device != DeviceKind::kCuda) return {kNone, kBlock};
  if (plan.model.mixture.experts == 0) return {kNone, kNormSwiglu, kFfn, kBlock};
  return {kNone, kNormSwiglu, kExpertOut, kFfn, kBlock};
}

// ZeRO stages to try.
std::vector<int32_t> Stages(const config::JobSpec& job, const plan::Plan& plan) {
  if (plan.shard == 1) return {0};
  if (job.zero.has_value()) return {static_cast<int32_t>(*job.zero)};
  return {1, 2, 3};
}

// What the job says, of the blocks there are; auto: the least, and ChooseLayout adds what fits.
int32_t FixedWeightSlots(const config::JobSpec& job, const plan::Plan& plan) {
  const int64_t most = std::max<int64_t>(kLeastWeightSlots, plan.model.num_layers);
  return static_cast<int32_t>(std::min(job.resident_blocks.value_or(kLeastWeightSlots), most));
}

// Bytes of attention.workspace_gib; 0: auto.
int64_t FixedWorkspace(const config::JobSpec& job) {
  return static_cast<int64_t>(job.attention_workspace_gib.value_or(0) *
                              static_cast<double>(int64_t{1} << 30));
}

int64_t OrdinaryWorkspace(const plan::Plan& plan, int32_t compute_capability) {
  if (plan.device != DeviceKind::kCuda)
    return kOrdinaryAttentionBytes;  // no algorithm there asks for it
  const int64_t fastest = FastestAttentionBytes(plan, compute_capability);
  return WorkspaceOf(fastest <= kOrdinaryAttentionBytes ? fastest : LeastAttentionBytes(plan));
}

// Levels that cost memory bandwidth only.
bool IsCheap(RecomputeLevel level) {
  return level == RecomputeLevel::kNone || level == RecomputeLevel::kNormSwiglu;
}

// Layouts of one choice of number formats and stage: those of cheap recomputation and large
// micro-steps, and the others.
struct LayoutList {
  std::vector<Layout> fast, slow;
};

LayoutList ListLayouts(const config::JobSpec& job, const LayoutLimits& limits,
                       const plan::Plan& plan, Layout layout) {
  const std::vector<int64_t> sizes = MicroBatches(job, limits, plan);
  const std::vector<RecomputeLevel> levels = RecomputeLevels(job, plan);
  const int64_t enough = std::min(ShapeOf(plan).enough_tokens, sizes.front() * plan.sequence_len);
  const auto small = std::find_if(sizes.begin(), sizes.end(),
                                  [&](int64_t size) { return size * plan.sequence_len < enough; });
  LayoutList list;
  const auto add = [&](int64_t size, RecomputeLevel level, std::vector<Layout>* to) {
    layout.micro_batch = size;
    layout.recompute = level;
    to->push_back(layout);
  };
  for (const RecomputeLevel level : levels) {
    const bool fast = IsCheap(level) || levels.size() == 1;
    for (auto size = sizes.begin(); size != small; ++size) {
      add(*size, level, fast ? &list.fast : &list.slow);
    }
  }
  for (auto size = small; size != sizes.end(); ++size) {
    for (const RecomputeLevel level : levels) add(*size, level, &list.slow);
  }
  return list;
}

}  // namespace

void ApplyLayout(const Layout& layout, plan::Plan* plan) {
  plan->master_dtype = layout.master_dtype;
  plan->gradient_dtype = layout.gradient_dtype;
  plan->gradient_sum = plan::GradientSum::kNearest;
  plan->zero = layout.zero;
  plan->weight_slots = layout.zero == 3 ? layout.weight_slots : kLeastWeightSlots;
  plan->experts_at_once = 0;
  plan->micro_batch_bins = layout.micro_batch;
  plan->recompute = layout.recompute;
  const int64_t workspace = layout.attention_workspace > 0
                                ? layout.attention_workspace
                                : OrdinaryWorkspace(*plan, layout.compute_capability);
  plan->attention_workspace_bytes = std::max(workspace, Fp8AttentionBytes(*plan));
  SetHead(layout, plan);
  plan->buffers = BufferTable(*plan);
}

int64_t FixedLogitsBytes(const config::JobSpec& job) {
  return job.head_memory_mib.value_or(0) << 20;
}

void EnlargeHeadChunk(plan::Plan* plan) {
  plan->lm_head_chunk_tokens = HeadChunk(*plan, int64_t{5} << 30);
  plan->buffers = BufferTable(*plan);
}

std::vector<Layout> LayoutsToTry(const config::JobSpec& job, const LayoutLimits& limits,
                                 const plan::Plan& plan) {
  std::vector<Layout> formats;
  for (const Precision dtype : {Precision::kFloat32, Precision::kBfloat16}) {
    Layout next{.master_dtype = job.master_dtype.value_or(dtype),
                .gradient_dtype = job.gradient_dtype.value_or(dtype),
                .weight_slots = FixedWeightSlots(job, plan),
                .attention_workspace = FixedWorkspace(job),
                .logits_bytes = FixedLogitsBytes(job),
                .cut_head = job.loss_head == config::LossHead::kCut,
                .compute_capability = limits.compute_capability};
    const bool tried = !formats.empty() && formats.back().master_dtype == next.master_dtype &&
                       formats.back().gradient_dtype == next.gradient_dtype;
    // Only weights of the base model can have smaller masters and gradients.
    if (tried || (!formats.empty() && !plan::TrainsBase(plan))) break;
    for (const int32_t stage : Stages(job, plan)) {
      next.zero = stage;
      formats.push_back(next);
    }
  }
  std::vector<Layout> layouts, slow;
  for (const Layout& format : formats) {
    const LayoutList list = ListLayouts(job, limits, plan, format);
    layouts.insert(layouts.end(), list.fast.begin(), list.fast.end());
    slow.insert(slow.end(), list.slow.begin(), list.slow.end());
  }
  layouts.insert(layouts.end(), slow.begin(), slow.end());
  if (plan.device != DeviceKind::kCuda || job.attention_workspace_gib.has_value()) return layouts;
  plan::Plan smallest = plan;
  smallest.micro_batch_bins = layouts.back().micro_batch;
  layouts.push_back(layouts.back());
  layouts.back().attention_workspace = WorkspaceOf(LeastAttentionBytes(smallest));
  return layouts;
}

uint64_t SmallestLayoutBytes(const config::JobSpec& job, const LayoutLimits& limits,
                             plan::Plan plan) {
  ApplyLayout(LayoutsToTry(job, limits, plan).back(), &plan);
  constexpr uint64_t kLeast = 1;
  FitGradientSum(job, limits.global_batch_bins, kLeast, &plan);
  return PlannedMemory(plan).total();
}

}  // namespace coxswain::planner
