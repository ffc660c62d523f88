#include "worker/engine/link_speed.h"

#include <algorithm>
#include <limits>

#include "common/status_macros.h"
#include "worker/engine/device/stopwatch.h"

namespace coxswain::engine {
namespace {

using comm::Communicator;

// Of each point; the first sets up what a transport needs.
constexpr int kRuns = 4;

// Bytes through each rank: a small call, one of an adapter's or a norm's size, one of a block's.
std::vector<int64_t> Points(const plan::Plan& plan) {
  if (plan.device == DeviceKind::kCuda)
    return {int64_t{1} << 20, int64_t{32} << 20, int64_t{256} << 20};
  return {int64_t{16} << 10, int64_t{512} << 10, int64_t{8} << 20};
}

// Seconds of the fastest run.
template <typename Call>
absl::StatusOr<double> Fastest(kernels::Stream* stream, const Call& call) {
  double fastest = std::numeric_limits<double>::infinity();
  Stopwatch watch;
  for (int run = 0; run < kRuns; ++run) {
    watch.Reset();
    watch.Start(stream);
    RETURN_IF_ERROR(call());
    watch.Stop(stream);
    kernels::Synchronize(stream);
    if (run > 0) fastest = std::min(fastest, watch.Seconds());
  }
  return fastest;
}

struct Floats {
  float* data;
  int64_t count;
};

// What every step writes before it reads it: the logits, or the gradient of the residual where the
// head is of scores.
Floats WrittenFirst(State& state) {
  const plan::Plan& plan = state.plan;
  const bool scores = plan.model.labels > 0;
  const int64_t element = kernels::DTypeBytes(ComputeDType(plan));
  if (plan.lm_head_panel_bytes > 0) {
    return {static_cast<float*>(state.buffers.logits), plan.lm_head_panel_bytes / 4};
  }
  const int64_t elements = scores
                               ? plan.micro_batch_bins * plan.sequence_len * plan.model.hidden_size
                               : plan.lm_head_chunk_tokens * plan.model.vocab_size;
  return {static_cast<float*>(scores ? state.buffers.dres : state.buffers.logits),
          elements * element / 4};
}

}  // namespace

absl::StatusOr<std::vector<plan::LinkSpeed>> MeasureLinks(State& state) {
  std::vector<plan::LinkSpeed> links;
  if (state.group == nullptr || state.plan.world_size() == 1) return links;
  const int64_t world = state.plan.world_size();
  const auto [data, room] = WrittenFirst(state);
  kernels::SetMemory(data, 0, 4 * room, state.stream);
  for (const int64_t bytes : Points(state.plan)) {
    const int64_t part = bytes / 4 / (world - 1) / plan::kShardAlignment * plan::kShardAlignment;
    if (part == 0 || part * world > room) continue;
    float* own = data + state.rank * part;
    ASSIGN_OR_RETURN(const double gather, Fastest(state.stream, [&] {
                       return state.group->AllGather(Communicator::kWorld, own, data, part,
                                                     kernels::DType::kFloat32, state.stream);
                     }));
    ASSIGN_OR_RETURN(const double scatter, Fastest(state.stream, [&] {
                       return state.group->ReduceScatterSum(Communicator::kWorld, data, own, part,
                                                            kernels::DType::kFloat32, state.stream);
                     }));
    RETURN_IF_ERROR(state.group->Poll());
    const double slower = std::max(gather, scatter);
    const int64_t moved = 4 * part * (world - 1);
    if (slower > 0) links.push_back({moved, static_cast<double>(moved) / slower});
  }
  return links;
}

}  // namespace coxswain::engine
