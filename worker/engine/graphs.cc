#include "worker/engine/graphs.h"

#include <utility>

namespace coxswain::engine {

void Graphs::Run(const std::string& name, const MicroBatch& batch, std::function<void()> launches,
                 kernels::Stream* stream) {
  if (!enabled_) {
    launches();
    return;
  }
  GraphHandle& graph = graphs_[Key{name, batch.train, batch.dense, batch.target_rows}];
  if (graph == nullptr) graph.reset(kernels::CaptureGraph(std::move(launches), stream));
  kernels::LaunchGraph(graph.get(), stream);
}

}  // namespace coxswain::engine
