// A kernel that is wrong, for benchmarks that must tell it from one that rounds.
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_BROKEN_ROPE_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_BROKEN_ROPE_H_

namespace coxswain::bench {

// From now on gradients of queries and keys are not turned back in this process: the backward of
// RoPE does nothing. Forward and loss of a given model stay right.
void BreakRopeBackward();

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_BROKEN_ROPE_H_
