#include "worker/engine/batches/graphs.h"

#include <utility>

namespace coxswain::engine {

const Stopwatch& Graphs::Run(const std::string& name, const MicroBatch& batch, Launches launches,
                             kernels::Stream* stream) {
  CachedGraph& cached =
      cached_[Key{name, batch.train, batch.dense, batch.tokens == 0, batch.target_rows}];
  if (!enabled_ || ++cached.uses < capture_at_) {
    launches(&cached.exposed);
    return cached.exposed;
  }
  if (cached.graph == nullptr) {
    Stopwatch* exposed = &cached.exposed;
    cached.graph.reset(kernels::CaptureGraph(
        [launches = std::move(launches), exposed] { launches(exposed); }, stream));
  }
  kernels::LaunchGraph(cached.graph.get(), stream);
  return cached.exposed;
}

}  // namespace coxswain::engine
