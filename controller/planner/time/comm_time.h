// Predicts the time of a step's collectives, and how long compute waits for them. It simulates the
// order of worker/engine/exchange/unit_exchange.h with the time of each unit and each collective.
#ifndef COXSWAIN_CONTROLLER_PLANNER_TIME_COMM_TIME_H_
#define COXSWAIN_CONTROLLER_PLANNER_TIME_COMM_TIME_H_

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::planner {

// Speeds to assume when none was measured. cuda: NCCL over NVLink without multicast on 4 H200, the
// slower of all-gather and reduce-scatter. cpu: Gloo over loopback (worker/comm/README.md).
std::vector<plan::LinkSpeed> DefaultLinks(const plan::Plan& plan);

// Seconds to move `bytes` through the link of `plan`: linear between the measured points and beyond
// them. 0 for no bytes.
double LinkSeconds(const std::vector<plan::LinkSpeed>& links, double bytes);

// Compute time of one rank, in seconds.
struct ComputeSeconds {
  double forward = 0, backward = 0;  // of a micro-step; backward with recomputation
  double update = 0;
  int64_t micro_steps = 1;
  double dequantized_bytes_per_second = 0;  // read + written; wanted by a quantised base
};
// That rate on the CPU, and on a GPU as a share of its copies: alone the kernels reach 82 to 95 %
// of a copy (bench/results/README.md), beside the products of a step what h200_qlora.json leaves.
inline constexpr double kCpuDequantizedBytesPerSecond = 2e9;
inline constexpr double kDequantizedShare = 0.75;

// Predicts one optimizer step. plan.links must be set for a plan with several ranks.
plan::Prediction PredictStep(const plan::Plan& plan, const ComputeSeconds& compute);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_TIME_COMM_TIME_H_
