#include "worker/engine/graphs.h"

#include <utility>

namespace coxswain::engine {

const Stopwatch& Graphs::Run(const std::string& name, const MicroBatch& batch, Launches launches,
                             kernels::Stream* stream) {
  Part& part = parts_[Key{name, batch.train, batch.dense, batch.tokens == 0, batch.target_rows}];
  if (!enabled_ || ++part.uses < capture_at_) {
    launches(&part.exposed);
    return part.exposed;
  }
  if (part.graph == nullptr) {
    Stopwatch* exposed = &part.exposed;
    part.graph.reset(kernels::CaptureGraph(
        [launches = std::move(launches), exposed] { launches(exposed); }, stream));
  }
  kernels::LaunchGraph(part.graph.get(), stream);
  return part.exposed;
}

}  // namespace coxswain::engine
