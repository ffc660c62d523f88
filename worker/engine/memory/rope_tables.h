// The tables of the rotary embeddings of a plan.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_ROPE_TABLES_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_ROPE_TABLES_H_

#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/memory/buffers.h"

namespace coxswain::engine {

// Fills cos, sin and query scales for every position of a bin, because a document is at most one
// bin long; where common/plan/extents.h says so, for short documents before.
void FillRopeTables(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_ROPE_TABLES_H_
