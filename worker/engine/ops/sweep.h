// A sweep: one forward over the units of the model, or one head and backward, of a micro-step.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_SWEEP_H_
#define COXSWAIN_WORKER_ENGINE_OPS_SWEEP_H_

#include "kernels/device.h"
#include "worker/engine/batches/batch.h"
#include "worker/engine/exchange/unit_exchange.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/ops/bound_ops.h"

namespace coxswain::engine {

// How attention uses the cache of keys and values. kFill: it also writes the cache. kRead: it reads
// the cache, and each row of the batch is the next token of a text.
enum class CacheUse { kNone, kFill, kRead };

// The inputs of every function of a sweep.
struct Sweep {
  const Model& model;
  const Buffers& buffers;
  const BoundModel& ops;
  MicroBatch batch;
  kernels::Stream* stream = nullptr;
  // Forward: the first sweep of the command, which computes the factors of DoRA and the codes of
  // trained weights that are kept in FP8. Backward: the first since the last update, whose products
  // write the gradients (written_gradients.h) to which later sweeps add.
  bool first = false;
  // Forward: the first since weights were read, which computes the codes of those that stay as they
  // are.
  bool after_load = false;
  UnitSweep* units = nullptr;  // the sweep's exchange
  CacheUse cache = CacheUse::kNone;

  // A rank with fewer bins than others joins their collectives and computes nothing.
  bool idle() const { return batch.tokens == 0; }

  // Where an op of forward finds the amax of what it makes. Products for answers read none.
  float* AmaxOf(const BoundStoredAmax& amax) const {
    return cache == CacheUse::kNone ? amax.value : nullptr;
  }
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_SWEEP_H_
