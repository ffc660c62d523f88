// The order in which a library adds up, measured: ranks contribute numbers whose sum has other bits
// in another order, and what comes out is hashed.
#ifndef COXSWAIN_WORKER_COMM_SUM_PROBE_H_
#define COXSWAIN_WORKER_COMM_SUM_PROBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/dtype.h"

namespace coxswain::comm {

class SumProbe {
 public:
  static constexpr int64_t kNumbers = int64_t{1} << 18;

  explicit SumProbe(int rank);

  // Gives kNumbers elements that are this rank's own, float32 or bfloat16.
  const void* Numbers(kernels::DType dtype) const;
  // Takes the result of a sum, or this rank's part of it.
  void Take(const void* result, int64_t bytes);
  // The digest of everything taken so far has 16 hex digits.
  std::string Digest() const;

 private:
  std::vector<float> floats_;
  std::vector<uint16_t> halves_;  // bfloat16 bits
  uint64_t digest_ = 0;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_SUM_PROBE_H_
