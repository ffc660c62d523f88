// A sweep: one forward over the units of the model, or one head and backward, of a micro-step.
#ifndef COXSWAIN_WORKER_ENGINE_SWEEP_H_
#define COXSWAIN_WORKER_ENGINE_SWEEP_H_

#include "kernels/device.h"
#include "worker/engine/batch.h"
#include "worker/engine/bound_ops.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"
#include "worker/engine/unit_exchange.h"

namespace coxswain::engine {

// What attention does with the cache of keys and values: nothing; fills it beside its own work; or
// reads it, each row of the batch being the next token of a text.
enum class CacheUse { kNone, kFill, kRead };

// What every function of a sweep reads.
struct Sweep {
  const Model& model;
  const Buffers& buffers;
  const BoundModel& ops;
  MicroBatch batch;
  kernels::Stream* stream = nullptr;
  // Of the step or evaluation: it computes the factors of DoRA, and its products write gradients
  // (written_gradients.h) that later ones add to.
  bool first = false;
  UnitSweep* units = nullptr;  // the sweep's exchange
  CacheUse cache = CacheUse::kNone;

  // A rank with fewer bins than others joins their collectives and computes nothing.
  bool idle() const { return batch.tokens == 0; }
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SWEEP_H_
