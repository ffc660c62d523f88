// The algorithm of every product launched so far, shared by the threads of the process.
#ifndef COXSWAIN_KERNELS_CUDA_GEMM_TABLE_H_
#define COXSWAIN_KERNELS_CUDA_GEMM_TABLE_H_

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/gemm_plan.h"

namespace coxswain::kernels::cuda {

struct GemmEntry {
  GemmChoice choice = {};
  bool settled = false;  // tuned or loaded: not tuned again
  bool checked = false;  // this library runs it; false for a loaded one until its first launch
};

class GemmChoices {
 public:
  static GemmChoices& Instance();

  std::optional<GemmEntry> Find(const GemmKey& key);
  // What stands for `key` from now on: `entry`, unless another thread settled it before.
  GemmChoice Remember(const GemmKey& key, const GemmEntry& entry);

  std::string ToJson();
  bool Load(const std::string& table);

 private:
  GemmChoices();

  const std::string device_;
  const int64_t library_;
  std::mutex mutex_;
  // Protected by mutex_.
  std::unordered_map<GemmKey, GemmEntry, GemmKeyHash> entries_;
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_GEMM_TABLE_H_
