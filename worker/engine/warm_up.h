// Before the first step, runs a micro-step of every shape once. Algorithms are chosen then, and
// nothing is built, loaded or tuned inside a step.
#ifndef COXSWAIN_WORKER_ENGINE_WARM_UP_H_
#define COXSWAIN_WORKER_ENGINE_WARM_UP_H_

#include "worker/engine/step/step.h"

namespace coxswain::engine {

// For a GPU engine only, after this rank's weights are loaded. Weights of other ranks are random
// until they are gathered. It leaves gradients and scalars arbitrary, moments zero and trained
// values unchanged. Then it enables the captured graphs.
void WarmUp(State& state);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_WARM_UP_H_
