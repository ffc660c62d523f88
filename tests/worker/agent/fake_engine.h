// A coxswain::engine::Engine of the same header without tensors, linked in place of the real one.
//
// Its numbers are pure functions of the commands, so a controller's bookkeeping can be checked:
// with s_r the sum over rank r's tokens t of (t + 1) at target positions,
//   loss_sum = s_r / 1000 / (1 + updates applied), grad_norm = |sum over ranks of s_r| /
//   denominator.
// In a gang of several ranks the sums go through the real collectives.
#ifndef COXSWAIN_TESTS_WORKER_AGENT_FAKE_ENGINE_H_
#define COXSWAIN_TESTS_WORKER_AGENT_FAKE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "worker/engine/engine.h"

namespace coxswain::fake_engine {

// Called on the executor thread before the operation; an error becomes its result. Every engine of
// the process shares them. `aborted` says whether Abort was called on the engine since.
struct Hooks {
  std::function<absl::Status(const plan::Plan&, int rank)> prepare = {};
  std::function<absl::Status(int rank, int64_t step, const std::function<bool()>& aborted)> train =
      {};
  std::function<absl::Status(int rank)> evaluate = {};
  std::function<absl::Status(int rank, int64_t finished_steps)> snapshot = {};
  // On the thread that saves.
  std::function<absl::Status(int rank, const std::function<bool()>& cancelled)> save = {};
  std::function<void(const std::string& table)> use_gemm_table = {};  // not empty
  engine::ExpertUse experts = {};                                     // what every step tells
  engine::PolicyStats policy = {};  // what every step and evaluation tells
};

void SetHooks(Hooks hooks);  // Hooks{} resets
int LiveEngines();           // engines not yet destroyed

}  // namespace coxswain::fake_engine

#endif  // COXSWAIN_TESTS_WORKER_AGENT_FAKE_ENGINE_H_
