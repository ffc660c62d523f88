// When each fake worker's engine got the command of each step, and how long a step takes there: one
// file that bench and workers map.
#ifndef COXSWAIN_BENCH_CONTROLLER_DISPATCH_STAMPS_H_
#define COXSWAIN_BENCH_CONTROLLER_DISPATCH_STAMPS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::bench {

// Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a host share.
class Stamps {
 public:
  // Maps `path`, which is made large enough. Exits the process with a message when it cannot.
  Stamps(const std::string& path, int workers, int steps);
  ~Stamps();
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  void Add(int64_t step);  // now; any process and thread
  // Returns when every worker has added `step`: what a collective does to the ranks of a gang.
  void AwaitAll(int64_t step);
  void Clear();
  void SetStepMs(int64_t ms) { *rows_ = ms; }  // of the fake engines, after all have begun a step
  int64_t step_ms() const { return *rows_; }
  std::vector<int64_t> Of(int64_t step) const;  // of every worker that has come so far

 private:
  std::atomic<int64_t>* Row(int64_t step) const;  // its length, then its times

  const int workers_, steps_;
  const size_t bytes_;
  std::atomic<int64_t>* rows_ = nullptr;  // milliseconds of a step, then rows
};

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_CONTROLLER_DISPATCH_STAMPS_H_
