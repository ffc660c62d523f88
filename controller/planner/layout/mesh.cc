#include "controller/planner/layout/mesh.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

// Nothing is held twice but with ZeRO 0, which shares nothing.
void SetMesh(const config::JobSpec& job, plan::Plan* plan) {
  const int64_t whole = job.zero == 0 ? 1 : job.workers;
  plan->shard = static_cast<int32_t>(
      job.shard.value_or(job.replicate.has_value() ? job.workers / *job.replicate : whole));
  plan->replicate = static_cast<int32_t>(job.workers) / plan->shard;
}

bool IsAsGood(const plan::Plan& plan, const plan::Plan& other) {
  return plan.master_dtype == other.master_dtype && plan.gradient_dtype == other.gradient_dtype &&
         plan.gradient_sum == other.gradient_sum && plan.recompute == other.recompute &&
         plan.micro_batch_bins >= other.micro_batch_bins;
}

std::string Why(const plan::Plan& plan, const std::string& reason) {
  return absl::StrCat("parallelism is replicate ", plan.replicate, " x shard ", plan.shard, ": ",
                      reason);
}

}  // namespace

absl::StatusOr<std::string> ChooseMesh(const config::JobSpec& job, const LayoutLimits& limits,
                                       const std::vector<int32_t>& ranks_of_hosts,
                                       plan::Plan* plan) {
  SetMesh(job, plan);
  RETURN_IF_ERROR(ChooseLayout(job, limits, plan));
  const auto hosts = static_cast<int32_t>(ranks_of_hosts.size());
  const bool open = !job.replicate.has_value() && !job.shard.has_value() && plan->shard > 1;
  if (!open || hosts < 2) return std::string();
  const int32_t ranks = ranks_of_hosts.front();
  if (std::any_of(ranks_of_hosts.begin(), ranks_of_hosts.end(),
                  [ranks](int32_t other) { return other != ranks; })) {
    return Why(*plan, absl::StrCat("the ", hosts, " hosts have different numbers of ranks"));
  }
  if (ranks == 1 || hosts * ranks != plan->world_size()) return std::string();
  plan::Plan inside = *plan;
  inside.replicate = hosts;
  inside.shard = ranks;
  if (!ChooseLayout(job, limits, &inside).ok() || !IsAsGood(inside, *plan)) {
    const char* lack =
        " ranks of one host cannot hold a replica with the same number formats, "
        "recomputation and micro-batch";
    return Why(*plan, absl::StrCat("the ", ranks, lack));
  }
  *plan = std::move(inside);
  const char* gain = " hosts holds a replica: only sums of gradients cross hosts";
  return Why(*plan, absl::StrCat("each of ", hosts, gain));
}

}  // namespace coxswain::planner
