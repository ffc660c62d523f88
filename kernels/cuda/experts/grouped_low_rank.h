// Products of the rows of every expert with a narrow matrix of its own, in bfloat16 on tensor cores
// of compute capability 8.0 on. Ranks are multiples of 8 up to kMaxGroupedRank, columns multiples
// of 8, matrices aligned to 16 bytes. Rows belong to the experts between `offsets` on the device.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_LOW_RANK_H_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_LOW_RANK_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels::cuda {

inline constexpr int kMaxGroupedRank = 128;

struct GroupedRows {
  const int32_t* offsets = nullptr;  // [experts + 1]
  int32_t experts = 0;
  int32_t rank = 0;
  int32_t columns = 0;
  int64_t rows = 0;  // at least 1 and offsets[experts]
};

// P [rows, rank] = scale X W_e; zeros behind the last segment. X [rows, columns]; W_e is
// [columns, rank], or [rank, columns] where `along_columns`.
struct GroupedProjection {
  GroupedRows of;
  bool along_columns = false;
  const void *x = nullptr, *w = nullptr;
  void* p = nullptr;
  float scale = 1.0f;
};
void Project(const GroupedProjection& projection, const char* op, Stream* stream);

// Y [rows, columns] += scale H W_e; H [rows, rank]; W_e is [rank, columns] where `along_columns`,
// else [columns, rank].
struct GroupedUpdate {
  GroupedRows of;
  bool along_columns = false;
  const void *h = nullptr, *w = nullptr;
  void* y = nullptr;
  float scale = 1.0f;
};
void Update(const GroupedUpdate& update, const char* op, Stream* stream);

// G_e [columns, rank] += scale X_e^T H_e, in elements of grad_dtype; stored [rank, columns] where
// `along_columns`. Where `p` is not null also P = p_scale X W_e, W_e [columns, rank], of the same
// reading of X: for FusesProjection alone.
struct GroupedGradient {
  GroupedRows of;
  bool along_columns = false;
  const void *x = nullptr, *h = nullptr;
  void* gradient = nullptr;  // [experts, columns, rank]
  DType grad_dtype = DType::kFloat32;
  float scale = 1.0f;
  const void* w = nullptr;
  void* p = nullptr;
  float p_scale = 1.0f;
  float* partials = nullptr;  // GradientPartialsBytes
};
bool FusesProjection(const GroupedRows& of);
int64_t GradientPartialsBytes(const GroupedRows& of, bool fused);
void AddGradient(const GroupedGradient& gradient, const char* op, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_GROUPED_LOW_RANK_H_
