// produce (one thread) -> map (many threads) -> consume (the caller), in order and bounded.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_ORDERED_PIPELINE_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_ORDERED_PIPELINE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

// At most `in_flight` items exist at once, whatever the speeds of the stages. The first error in
// item order ends the run and is returned; what was consumed before it is the same in every run.
template <typename In, typename Out>
class OrderedPipeline {
 public:
  struct Stages {
    std::function<absl::StatusOr<bool>(In*)> produce;  // false: no more
    // Called once in each worker thread; gives that thread's map.
    std::function<std::function<Out(In)>()> make_map;
    std::function<absl::Status(Out)> consume;
    int threads = 1;
    int64_t in_flight = 2;
  };

  static absl::Status Run(const Stages& stages) {
    OrderedPipeline pipeline(stages);
    std::vector<std::thread> threads;
    threads.emplace_back([&] { pipeline.Produce(); });
    for (int i = 0; i < stages.threads; ++i) threads.emplace_back([&] { pipeline.Map(); });
    absl::Status status = pipeline.Consume();
    pipeline.Stop();
    for (std::thread& thread : threads) thread.join();
    return status;
  }

 private:
  explicit OrderedPipeline(const Stages& stages) : stages_(stages) {}

  void Produce() {
    for (int64_t item = 0;; ++item) {
      {
        std::unique_lock lock(mu_);
        changed_.wait(lock, [&] { return stopped_ || item - consumed_ < stages_.in_flight; });
        if (stopped_) return;
      }
      In in;
      absl::StatusOr<bool> more = stages_.produce(&in);
      std::lock_guard lock(mu_);
      if (more.ok() && *more) {
        inputs_.emplace_back(item, std::move(in));
      } else {
        end_ = item;
        end_status_ = more.status();
      }
      changed_.notify_all();
      if (end_ >= 0) return;
    }
  }

  void Map() {
    const std::function<Out(In)> map = stages_.make_map();
    while (true) {
      std::unique_lock lock(mu_);
      changed_.wait(lock, [&] { return stopped_ || !inputs_.empty(); });
      if (stopped_) return;
      auto [item, in] = std::move(inputs_.front());
      inputs_.pop_front();
      lock.unlock();
      Out out = map(std::move(in));
      lock.lock();
      outputs_.emplace(item, std::move(out));
      changed_.notify_all();
    }
  }

  absl::Status Consume() {
    while (true) {
      std::unique_lock lock(mu_);
      changed_.wait(lock, [&] { return consumed_ == end_ || outputs_.contains(consumed_); });
      if (consumed_ == end_) return end_status_;
      Out out = std::move(outputs_.extract(consumed_).mapped());
      lock.unlock();
      if (absl::Status status = stages_.consume(std::move(out)); !status.ok()) return status;
      lock.lock();
      ++consumed_;
      changed_.notify_all();
    }
  }

  void Stop() {
    std::lock_guard lock(mu_);
    stopped_ = true;
    changed_.notify_all();
  }

  const Stages& stages_;
  std::mutex mu_;
  std::condition_variable changed_;
  // All below guarded by mu_.
  std::deque<std::pair<int64_t, In>> inputs_;
  std::map<int64_t, Out> outputs_;
  int64_t consumed_ = 0;
  int64_t end_ = -1;  // number of items, once known
  absl::Status end_status_;
  bool stopped_ = false;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_ORDERED_PIPELINE_H_
