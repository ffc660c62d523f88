// Runs the parts of a step as captured graphs: recorded at the first use of a shape, replayed
// after. On the CPU, and for a plan whose shapes change, launches run directly.
#ifndef COXSWAIN_WORKER_ENGINE_GRAPHS_H_
#define COXSWAIN_WORKER_ENGINE_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "worker/engine/batch.h"
#include "worker/engine/device_handles.h"

namespace coxswain::engine {

class Graphs {
 public:
  // Captures nothing until enabled.
  void Enable() { enabled_ = true; }
  void Disable() { enabled_ = false; }

  // `launches` is a function of `name` and `batch` alone, and what it refers to lives as long as
  // this object.
  void Run(const std::string& name, const MicroBatch& batch, std::function<void()> launches,
           kernels::Stream* stream);

 private:
  using Key = std::tuple<std::string, bool, bool, int64_t>;  // name, train, dense, target rows
  bool enabled_ = false;
  std::map<Key, GraphHandle> graphs_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_GRAPHS_H_
