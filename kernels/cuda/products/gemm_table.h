// The algorithm of every product launched so far and the body of every gated, adapted or rotated
// one, shared by the threads of the process.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TABLE_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TABLE_H_

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/products/gemm_plan.h"
#include "kernels/products/gated_linear.h"

namespace coxswain::kernels::cuda {

struct GemmEntry {
  GemmChoice choice = {};
  bool settled = false;  // tuned or loaded: not tuned again
  bool checked = false;  // this library runs it; false for a loaded one until its first launch
  bool used = false;     // launched since ForgetUse
};

// A product of gated_linear.h whose two bodies both run. What it leaves out may not decide: all
// launches of a model's pass must have the same bits.
struct GatedKey {
  bool backward = false;
  int64_t rows = 0, hidden = 0, intermediate = 0;
  GateActivation activation = GateActivation::kSilu;
  int64_t rank = 0;  // of its adapters (lora_gated_linear.h); 0: none

  bool operator<(const GatedKey& other) const {
    const auto fields = [](const GatedKey& key) {
      return std::tie(key.backward, key.rows, key.hidden, key.intermediate, key.activation,
                      key.rank);
    };
    return fields(*this) < fields(other);
  }
};

// y or dx of lora_linear.h where both bodies run. Leaves out nothing that may decide, as above.
struct LoraKey {
  bool backward = false;
  int64_t rows = 0, in = 0, out = 0, rank = 0, members = 0;

  bool operator<(const LoraKey& other) const {
    const auto fields = [](const LoraKey& key) {
      return std::tie(key.backward, key.rows, key.in, key.out, key.rank, key.members);
    };
    return fields(*this) < fields(other);
  }
};

// qkv of rotated_linear.h where both bodies run. Leaves out nothing that may decide, as above.
struct RotatedKey {
  int64_t rows = 0, in = 0, heads = 0, kv_heads = 0, head_dim = 0;

  bool operator<(const RotatedKey& other) const {
    const auto fields = [](const RotatedKey& key) {
      return std::tie(key.rows, key.in, key.heads, key.kv_heads, key.head_dim);
    };
    return fields(*this) < fields(other);
  }
};

// Of one launch or several.
struct FusedChoice {
  bool fused = false;
  double plain_microseconds = 0, fused_microseconds = 0;  // 0: not measured
  bool settled = false;                                   // tuned or loaded: not tuned again
  bool used = false;                                      // launched since ForgetUse
};

enum class Rows { kAll, kUsed };

class GemmChoices {
 public:
  static GemmChoices& Instance();

  std::optional<GemmEntry> Find(const GemmKey& key);
  // What stands for `key` from now on: `entry`, unless another thread settled it before.
  GemmChoice Remember(const GemmKey& key, const GemmEntry& entry);

  std::optional<FusedChoice> Find(const GatedKey& key);
  FusedChoice Remember(const GatedKey& key, const FusedChoice& choice);
  std::optional<FusedChoice> Find(const LoraKey& key);
  FusedChoice Remember(const LoraKey& key, const FusedChoice& choice);
  std::optional<FusedChoice> Find(const RotatedKey& key);
  FusedChoice Remember(const RotatedKey& key, const FusedChoice& choice);

  // From now on only what is found or remembered again counts as used.
  void ForgetUse();
  std::string ToJson(Rows rows);
  bool Load(const std::string& table);

 private:
  GemmChoices();

  const std::string device_;
  const int64_t library_;
  std::mutex mutex_;
  // Protected by mutex_.
  std::unordered_map<GemmKey, GemmEntry, GemmKeyHash> entries_;
  std::map<GatedKey, FusedChoice> gated_;
  std::map<LoraKey, FusedChoice> lora_;
  std::map<RotatedKey, FusedChoice> rotated_;
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TABLE_H_
