// Vectors on the device and small whole numbers in them, whose sums are exact.
#ifndef COXSWAIN_TESTS_WORKER_COMM_CUDA_DEVICE_VECTORS_H_
#define COXSWAIN_TESTS_WORKER_COMM_CUDA_DEVICE_VECTORS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/device.h"
#include "tests/worker/comm/cuda/nccl_rank.h"
#include "worker/comm/collectives.h"
#include "worker/comm/rank_order_sum.h"

namespace coxswain::comm {

struct StreamDeleter {
  void operator()(kernels::Stream* stream) const { kernels::DestroyStream(stream); }
};
using StreamHandle = std::unique_ptr<kernels::Stream, StreamDeleter>;

// A vector on the device.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    data_ = static_cast<T*>(kernels::AllocateMemory(bytes()));
    kernels::CopyMemory(data_, values.data(), bytes(), nullptr);
  }
  explicit OnDevice(int64_t size) : OnDevice(std::vector<T>(static_cast<size_t>(size))) {}
  ~OnDevice() { kernels::FreeMemory(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() const { return data_; }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    kernels::CopyMemory(values.data(), data_, bytes(), nullptr);
    return values;
  }

 private:
  int64_t bytes() const { return static_cast<int64_t>(size_ * sizeof(T)); }
  const size_t size_;
  T* data_;
};

// Small integers: their sums over a few ranks are exact in every type.
template <typename T>
T Whole(int rank, int64_t i) {
  const auto value = static_cast<float>((i * 7 + rank * 3) % 8);
  if constexpr (std::is_same_v<T, BFloat16>) {
    BFloat16 half;
    Store(value, &half);
    return half;
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
std::vector<T> Wholes(int rank, int64_t n) {
  std::vector<T> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = Whole<T>(rank, i);
  return values;
}

inline double SumAt(const std::vector<int>& ranks, int64_t i) {
  double sum = 0;
  for (int rank : ranks) sum += Whole<float>(rank, i);
  return sum;
}

inline std::vector<int> Everyone() {
  std::vector<int> ranks;
  for (int rank = 0; rank < ThisRank().world; ++rank) ranks.push_back(rank);
  return ranks;
}

template <typename T>
void ExpectSums(const std::vector<T>& values, const std::vector<int>& ranks, int64_t first) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(static_cast<double>(static_cast<float>(values[i])),
              SumAt(ranks, first + static_cast<int64_t>(i)))
        << "element " << i << " of " << values.size();
  }
}

inline void Finish(const Collectives& group, kernels::Stream* stream) {
  kernels::Synchronize(stream);
  ASSERT_EQ(group.Poll(), absl::OkStatus());
}

// Wholes of every rank, in memory that `group` moves, added to a total of ones.
template <typename T>
void TestScatterAdd(Collectives& group, kernels::DType dtype, T* send, int64_t n,
                    kernels::Stream* stream) {
  const int64_t all = group.world_size() * n;
  const std::vector<T> mine = Wholes<T>(group.rank(), all);
  kernels::CopyMemory(send, mine.data(), all * static_cast<int64_t>(sizeof(T)), nullptr);
  const OnDevice<float> total(std::vector<float>(static_cast<size_t>(n), 1.0f));
  ASSERT_EQ(group.ReduceScatterAdd(Communicator::kWorld, send, total.data(), n, dtype, stream),
            absl::OkStatus());
  Finish(group, stream);
  std::vector<float> gained = total.Read();
  for (float& value : gained) value -= 1.0f;
  ExpectSums(gained, Everyone(), group.rank() * n);
}

}  // namespace coxswain::comm

#endif  // COXSWAIN_TESTS_WORKER_COMM_CUDA_DEVICE_VECTORS_H_
