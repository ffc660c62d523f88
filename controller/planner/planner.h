// Makes the plan from job, model and recipe. Pure computation: the CLI runs the same code without a
// server.
#ifndef COXSWAIN_CONTROLLER_PLANNER_PLANNER_H_
#define COXSWAIN_CONTROLLER_PLANNER_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/gpu_table.h"
#include "common/model/model_config.h"
#include "common/plan/plan.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::planner {

// Sustained float32 rate of one CPU thread over a whole training step, counted by FlopsPerToken.
// Source: the quickstart on two workers of one AVX-512 thread, 7,600-8,000 tokens/s of 22.7 MFLOP:
// 86-91 GFLOP/s each.
inline constexpr double kFlopsPerSecondPerThread = 88e9;

struct WorkerResources {
  uint64_t memory_bytes = 0;                 // per worker; 0: unknown, no plan is refused
  int64_t threads = 1;                       // per worker, for the predicted time
  int32_t compute_capability = 0;            // of its GPU x 10; 0: unknown or none
  std::vector<plan::LinkSpeed> links = {};   // measured between the workers; empty: assumed
  std::vector<int32_t> ranks_of_hosts = {};  // ranks per host, in order of rank; empty: one host
  uint64_t host_bytes = 0;                   // memory of each host; 0: unknown, taken as enough
  Gpu gpu = {};                              // of each worker; of several kinds the slowest
};

struct Estimate {
  int64_t total_parameters = 0;
  int64_t trainable_parameters = 0;
  int64_t active_parameters = 0;  // that a token meets: fewer than all where there are experts
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0,
           workspace = 0;           // bytes per rank
  uint64_t runtime = 0;             // bytes per rank that CUDA takes in addition
  uint64_t communication = 0;       // bytes per rank that NCCL takes in addition; cuda
  uint64_t total_bytes = 0;         // of the device; on the CPU all memory
  uint64_t host = 0;                // bytes per rank of host memory besides the device's
  bool snapshot_in_slices = false;  // Plan::snapshot_in_slices
  uint64_t checkpoint = 0;          // bytes of one checkpoint on storage
  double flops_per_token = 0;       // forward + backward, attention over the mean document
  int64_t threads = 1;              // per worker, assumed by the two below
  // Of a GPU whose rates are not known nothing is predicted: 0.
  double tokens_per_second = 0;  // all ranks
  double seconds = 0;            // whole job
  double mfu = 0;                // cuda: of Gpu::peak_flops_per_second; 0: not known, or the CPU
};

struct PlannedJob {
  plan::Plan plan;
  std::string bytes;  // SerializePlan(plan), serialised once
  std::string hash;   // 32 bytes
  Estimate estimate;
  std::vector<std::string> advice;  // settings far from the recommended ones, which stay
  int32_t compute_capability = 0;   // of the planned GPU, x 10; 0: unknown or none
  Gpu gpu = {};                     // as in WorkerResources
};

// `generation`: extents of the answers to sample prompts, for which memory is set aside. The advice
// also names the number formats that `auto` chose, and how hosts changed the mesh.
// ResourceExhausted names need per class, limit, and changes that would fit.
absl::StatusOr<PlannedJob> MakePlan(const std::string& job_id, const config::JobSpec& job,
                                    const model::ModelConfig& model, const Recipe& recipe,
                                    const WorkerResources& resources,
                                    const plan::Generation& generation = {});

// The text that `cox plan` prints, and its JSON form.
std::string FormatPlan(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned,
                       const data::PreparedData& data);
std::string PlanJson(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned,
                     const data::PreparedData& data);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_PLANNER_H_
