// How many rows the experts of a bench have.
#ifndef COXSWAIN_BENCH_KERNELS_CUDA_EXPERT_ROWS_H_
#define COXSWAIN_BENCH_KERNELS_CUDA_EXPERT_ROWS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace coxswain::kernels::bench {

inline std::vector<int32_t> OffsetsOf(const std::vector<int64_t>& counts) {
  std::vector<int32_t> offsets = {0};
  for (const int64_t count : counts) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(count));
  }
  return offsets;
}

// `mean` rows an expert, each of an expert that a draw gives.
inline std::vector<int64_t> DrawnRows(int64_t experts, int64_t mean) {
  std::vector<int64_t> drawn(static_cast<size_t>(experts));
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> expert(0, drawn.size() - 1);
  for (int64_t row = 0; row < experts * mean; ++row) ++drawn[expert(random)];
  return drawn;
}

}  // namespace coxswain::kernels::bench

#endif  // COXSWAIN_BENCH_KERNELS_CUDA_EXPERT_ROWS_H_
