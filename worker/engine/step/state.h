// The state of a prepared engine, on which every command works.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_STATE_H_
#define COXSWAIN_WORKER_ENGINE_STEP_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "worker/comm/collectives.h"
#include "worker/engine/batches/batch.h"
#include "worker/engine/batches/generation_state.h"
#include "worker/engine/batches/graphs.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/device/timeline.h"
#include "worker/engine/exchange/unit_exchange.h"
#include "worker/engine/memory/arena.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/snapshot/state_copy.h"
#include "worker/engine/verify/tensor_list.h"
#include "worker/engine/verify/verified_tensors.h"
#include "worker/engine/verify/verify.h"

namespace coxswain::engine {

// Facts about the values of a verified tensor that this rank loaded, before the first step.
struct LoadedTensor {
  double squares = 0;
  bool nonzero = false;
  uint64_t whole = 0, sample = 0;  // checksums
};

// The model without its adapters, over the same weights and activations.
struct Reference {
  Model model;
  BoundModel ops;
};

// What the gradients hold between two updates.
struct PendingGradients {
  int64_t batches = 0;  // since the last update; 0: none, the next sweep begins the gradients
  int64_t step = 0, loss_denominator = 1;  // of these batches
  bool reduced = false;                    // over the ranks: no batch may follow
  double loss_sum = 0;                     // of this rank's batches that are answered
  double attending_targets = 0;  // AttendingTargets, of this rank, while verification asks
};

struct State {
  State(const plan::Plan& plan, int rank);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const plan::Plan plan;
  const int rank;
  const ParameterLayout layout;
  const std::vector<VerifiedTensor> verified_tensors;
  const std::vector<plan::Range> written_gradients;  // WrittenBytes
  const int64_t router_use_doubles;                  // of "router.use"; 0: there is none
  int64_t router_use_bytes() const {
    return router_use_doubles * static_cast<int64_t>(sizeof(double));
  }
  const StreamHandle owned_stream;
  kernels::Stream* const stream;
  BatchStager stager;
  Arena arena;
  Buffers buffers;
  Model model;
  BoundModel ops;                            // views of buffers and model
  std::unique_ptr<Reference> reference;      // null unless the plan asks for the base
  std::unique_ptr<comm::Collectives> group;  // null: one rank, or not connected yet
  UnitExchange exchange;
  StateCopy snapshot;  // into the arena
  Graphs graphs;       // may hold calls of the group, so it is destroyed first
  Timeline timeline;
  // Waits for other ranks in the current step, and the phase of each.
  std::vector<std::pair<const Stopwatch*, double*>> waits;
  std::unique_ptr<SelfVerification> verification;
  std::vector<LoadedTensor> loaded;       // by verified tensor
  TensorList gradient_list, sample_list;  // sample: the first chunks of the trained values
  bool warming_up = false;                // there is no group yet, and none is needed
  bool holds_written = false;             // weights that LoadWritten read, whatever was trained
  bool has_frozen_codes = false;          // or amaxes, of the weights as they were read last
  int64_t start_step = 0;
  int64_t applied_updates = 0;
  PendingGradients pending;
  std::string attention_algorithms;  // chosen by Prepare, as text for people
  std::string gemm_table;            // choices for the products of the warm-up

  std::unique_ptr<GenerationState> generation;  // null unless the plan generates

  // Scalars that a step sends to and receives from the device, pinned. One step is in flight at a
  // time.
  PinnedArray<Scalars> sent{1}, received{1};
  PinnedArray<double> received_use;                  // "router.use"
  PinnedArray<kernels::DocumentSums> received_sums;  // of a micro-step
  PinnedArray<float> received_rows;                  // likewise, of a policy loss
  PinnedArray<kernels::NormSums> received_norms;     // by verified tensor
  PinnedArray<kernels::TensorBits> received_bits;    // by verified tensor
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_STATE_H_
