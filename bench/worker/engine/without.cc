#include "bench/worker/engine/without.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/plan/checks/plan_bytes.h"
#include "common/plan/checks/plan_checks.h"
#include "common/status_macros.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"

namespace coxswain::bench {
namespace {

// The x with P(normal(0, 1) > x) = p, by bisection.
double UpperQuantile(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double x = (low + high) / 2;
    (std::erfc(x / std::numbers::sqrt2) / 2 > p ? low : high) = x;
  }
  return low;
}

}  // namespace

double WidthOfFullest(int64_t experts, int64_t chosen, double share) {
  const double mean = static_cast<double>(chosen) / static_cast<double>(experts);
  return UpperQuantile(mean) / UpperQuantile(share);
}

absl::StatusOr<Without> ParseWithout(const std::vector<std::string>& words) {
  constexpr std::pair<const char*, bool Without::*> kWords[] = {
      {"packing", &Without::packing},
      {"lengths", &Without::lengths},
      {"chunks", &Without::chunks},
      {"fusions", &Without::fusions},
      {"fused_update", &Without::fused_update},
      {"tuning", &Without::tuning},
      {"graphs", &Without::graphs},
      {"balance", &Without::balance}};
  Without without;
  for (const std::string& word : words) {
    bool known = false;
    for (const auto& [name, field] : kWords) {
      if (word != name) continue;
      without.*field = true;
      known = true;
    }
    if (!known) return absl::InvalidArgumentError(absl::StrCat("nothing to be without: ", word));
  }
  return without;
}

absl::Status RemoveFromPlan(const Without& without, planner::PlannedJob* planned) {
  plan::Plan& plan = planned->plan;
  if (without.fusions) plan.fusions.clear();
  if (without.chunks) plan.lm_head_chunk_tokens = plan.micro_batch_bins * plan.sequence_len;
  plan.buffers = planner::BufferTable(plan);
  RETURN_IF_ERROR(plan::CheckPlan(plan));
  planned->bytes = plan::SerializePlan(plan);
  planned->hash = plan::PlanHash(planned->bytes);
  const planner::MemoryByClass memory = planner::PlannedMemory(plan);
  planned->estimate.activations = memory.activations;
  planned->estimate.workspace = memory.workspace;
  planned->estimate.total_bytes = memory.total();
  return absl::OkStatus();
}

void Unpack(engine::TrainStep* step) {
  engine::BinBatch& bins = step->bins;
  const size_t documents = bins.document_lengths.size();
  bins.documents_per_bin.assign(documents, 1);
  bins.bin_ids.resize(documents);
  std::iota(bins.bin_ids.begin(), bins.bin_ids.end(), int64_t{0});
}

void PadLengths(const plan::Plan& plan, engine::TrainStep* step) {
  const engine::BinBatch packed = std::move(step->bins);
  engine::BinBatch& padded = step->bins;
  padded = {};
  const std::vector<int32_t>& lengths = packed.document_lengths;
  int64_t left = 0;  // of the last bin
  size_t begin = 0;  // of the document's tokens
  int32_t longest = 0;
  for (size_t d = 0; d < lengths.size(); ++d) {
    if (d % kCollated == 0) {
      const size_t end = std::min(d + kCollated, lengths.size());
      longest = *std::max_element(lengths.data() + d, lengths.data() + end);
    }
    if (left < longest || padded.documents_per_bin.back() >= plan.max_documents_per_bin) {
      padded.bin_ids.push_back(static_cast<int64_t>(padded.bin_ids.size()));
      padded.documents_per_bin.push_back(0);
      left = plan.sequence_len;
    }
    padded.documents_per_bin.back() += 1;
    padded.document_lengths.push_back(longest);
    left -= longest;
    const size_t end = begin + static_cast<size_t>(lengths[d]);
    padded.token_ids.insert(padded.token_ids.end(), packed.token_ids.data() + begin,
                            packed.token_ids.data() + end);
    padded.targets.insert(padded.targets.end(), packed.targets.data() + begin,
                          packed.targets.data() + end);
    padded.token_ids.resize(padded.token_ids.size() + static_cast<size_t>(longest - lengths[d]), 0);
    padded.targets.resize(padded.token_ids.size(), 0);
    begin = end;
  }
}

}  // namespace coxswain::bench
