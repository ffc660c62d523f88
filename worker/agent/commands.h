// A decoded command, as it waits for the executor thread.
#ifndef COXSWAIN_WORKER_AGENT_COMMANDS_H_
#define COXSWAIN_WORKER_AGENT_COMMANDS_H_

#include <cstdint>
#include <variant>

#include "worker/agent/agent.h"
#include "worker/engine/engine.h"

namespace coxswain::agent {

struct Agent::Work {
  struct Snapshot {
    int64_t finished_steps;
  };
  struct Stop {};
  struct Eval {
    engine::BinBatch bins;
    kernels::DocumentScalars documents;
  };
  struct LogProbs {
    engine::BinBatch bins;
    bool without_adapters;
  };
  std::variant<engine::TrainStep, engine::GradientBatch, engine::UpdateStep, Eval,
               engine::GenerateChunk, LogProbs, engine::WrittenWeights, Snapshot, Stop>
      what;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_COMMANDS_H_
