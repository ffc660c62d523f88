// What every function of one micro-step's forward and backward reads.
#ifndef COXSWAIN_WORKER_ENGINE_PASS_H_
#define COXSWAIN_WORKER_ENGINE_PASS_H_

#include "kernels/device.h"
#include "worker/engine/batch.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"
#include "worker/engine/unit_exchange.h"

namespace coxswain::engine {

struct Pass {
  const Model& model;
  const Buffers& buffers;
  MicroBatch batch;
  kernels::Stream* stream = nullptr;
  bool first = false;         // of the step or evaluation: factors of DoRA are computed
  UnitPass* units = nullptr;  // the pass's exchange

  // A rank with fewer bins than others joins their collectives and computes nothing.
  bool idle() const { return batch.tokens == 0; }
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PASS_H_
