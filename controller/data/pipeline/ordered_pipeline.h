// produce (one thread) -> map (many threads) -> consume (the caller), in order and bounded.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_ORDERED_PIPELINE_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_ORDERED_PIPELINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/guarded.h"
#include "common/mutex.h"

namespace coxswain::data {

// At most `in_flight` items exist at once, whatever the speeds of the stages. The first error in
// item order ends the run and is returned. The items consumed before it are the same in every run.
// An exception of a stage ends the run too; Guarded turns it into a status.
template <typename In, typename Out>
class OrderedPipeline {
 public:
  struct Stages {
    std::function<absl::StatusOr<bool>(In*)> produce;  // false: no more
    // Called once in each worker thread. Returns the map of that thread.
    std::function<std::function<Out(In)>()> make_map;
    std::function<absl::Status(Out)> consume;
    int threads = 1;
    int64_t in_flight = 2;
  };

  static absl::Status Run(const Stages& stages) {
    OrderedPipeline pipeline(stages);
    std::vector<std::thread> threads;
    absl::Status status = Guarded([&] {
      threads.emplace_back([&] { pipeline.Stage([&] { pipeline.Produce(); }); });
      for (int i = 0; i < stages.threads; ++i) {
        threads.emplace_back([&] { pipeline.Stage([&] { pipeline.Map(); }); });
      }
      return pipeline.Consume();
    });
    pipeline.Stop();
    for (std::thread& thread : threads) thread.join();
    return status;
  }

 private:
  explicit OrderedPipeline(const Stages& stages) : stages_(stages) {}

  // Runs on a thread of the pipeline. An exception there ends the run.
  void Stage(const std::function<void()>& work) {
    const absl::Status thrown = Guarded([&work] {
      work();
      return absl::OkStatus();
    });
    if (thrown.ok()) return;
    MutexLock lock(mu_);
    thrown_ = thrown;
    changed_.NotifyAll();
  }

  void Produce() {
    for (int64_t item = 0;; ++item) {
      {
        MutexLock lock(mu_);
        changed_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
          return stopped_ || item - consumed_ < stages_.in_flight;
        });
        if (stopped_) return;
      }
      In in;
      absl::StatusOr<bool> more = stages_.produce(&in);
      MutexLock lock(mu_);
      if (more.ok() && *more) {
        inputs_.emplace_back(item, std::move(in));
      } else {
        end_ = item;
        end_status_ = more.status();
      }
      changed_.NotifyAll();
      if (end_ >= 0) return;
    }
  }

  void Map() {
    const std::function<Out(In)> map = stages_.make_map();
    while (true) {
      MutexLock lock(mu_);
      changed_.Wait(
          lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stopped_ || !inputs_.empty(); });
      if (stopped_) return;
      auto [item, in] = std::move(inputs_.front());
      inputs_.pop_front();
      lock.Unlock();
      Out out = map(std::move(in));
      lock.Lock();
      outputs_.emplace(item, std::move(out));
      changed_.NotifyAll();
    }
  }

  absl::Status Consume() {
    while (true) {
      MutexLock lock(mu_);
      changed_.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return !thrown_.ok() || consumed_ == end_ || outputs_.contains(consumed_);
      });
      if (!thrown_.ok()) return thrown_;
      if (consumed_ == end_) return end_status_;
      Out out = std::move(outputs_.extract(consumed_).mapped());
      lock.Unlock();
      if (absl::Status status = stages_.consume(std::move(out)); !status.ok()) return status;
      lock.Lock();
      ++consumed_;
      changed_.NotifyAll();
    }
  }

  void Stop() {
    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }

  const Stages& stages_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::pair<int64_t, In>> inputs_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Out> outputs_ ABSL_GUARDED_BY(mu_);
  int64_t consumed_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t end_ ABSL_GUARDED_BY(mu_) = -1;  // number of items, once known
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  absl::Status thrown_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_ORDERED_PIPELINE_H_
