// The experts that routers chose in the newest micro-step of a run (routed_ids.cc).
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_ROUTED_IDS_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_ROUTED_IDS_H_

#include <cstdint>
#include <vector>

namespace coxswain::bench {

// ids of the tokens, `chosen` each and none of padding, of each layer with experts, one after the
// other, in the order in which the process first ran their routers. After a step has ended; empty
// without experts.
std::vector<int32_t> RoutedIds();

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_ROUTED_IDS_H_
