// Runs sweeps and updates as captured graphs: recorded at the first use of a shape, replayed after.
// On the CPU, and for a plan whose shapes change, launches run directly.
#ifndef COXSWAIN_WORKER_ENGINE_BATCHES_GRAPHS_H_
#define COXSWAIN_WORKER_ENGINE_BATCHES_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "worker/engine/batches/batch.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/device/stopwatch.h"

namespace coxswain::engine {

class Graphs {
 public:
  // The launches get a stopwatch that measures their waits for other ranks.
  using Launches = std::function<void(Stopwatch* exposed)>;

  // Captures nothing until enabled.
  void Enable() { enabled_ = true; }
  void Disable() { enabled_ = false; }
  // The first use of a shape runs directly, because a transport may do set-up in its first calls
  // that must not be captured.
  void CaptureAtSecondUse() { capture_at_ = 2; }

  // `launches` must depend on `name` and `batch` alone. The objects that it refers to must outlive
  // this object. Returns the waits of its last run; read them when the device has finished that
  // run.
  const Stopwatch& Run(const std::string& name, const MicroBatch& batch, Launches launches,
                       kernels::Stream* stream);

  // Shapes that were run: each has, or will have, a graph of its own.
  size_t shapes() const { return cached_.size(); }

 private:
  // name, train, dense, idle, target rows
  using Key = std::tuple<std::string, bool, bool, bool, int64_t>;
  struct CachedGraph {
    GraphHandle graph;
    Stopwatch exposed;
    int uses = 0;
  };
  bool enabled_ = false;
  int capture_at_ = 1;
  std::map<Key, CachedGraph> cached_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BATCHES_GRAPHS_H_
