// Before the first step: the micro-steps of every shape run once, so that algorithms are chosen and
// nothing is built, loaded or tuned inside a step.
#ifndef COXSWAIN_WORKER_ENGINE_WARM_UP_H_
#define COXSWAIN_WORKER_ENGINE_WARM_UP_H_

#include "worker/engine/step.h"

namespace coxswain::engine {

// It is for a GPU engine only, when this rank's weights are loaded; those of others are random
// until they are gathered. It leaves gradients and scalars arbitrary, moments zero and trained
// values as they were; then enables the captured graphs.
void WarmUp(State& state);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_WARM_UP_H_
