// What every function of one micro-step's forward and backward reads.
#ifndef COXSWAIN_WORKER_ENGINE_PASS_H_
#define COXSWAIN_WORKER_ENGINE_PASS_H_

#include "kernels/device.h"
#include "worker/engine/batch.h"
#include "worker/engine/buffers.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

struct Pass {
  const Model& model;
  const Buffers& buffers;
  MicroBatch batch;
  kernels::Stream* stream = nullptr;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PASS_H_
