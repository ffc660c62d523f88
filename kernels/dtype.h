// Element types and views shared by the contracts of this folder.
#ifndef COXSWAIN_KERNELS_DTYPE_H_
#define COXSWAIN_KERNELS_DTYPE_H_

#include <cstdint>

namespace coxswain::kernels {

// The CPU library supports kFloat32 only; every <Op>Supports says so for kBFloat16.
enum class DType : uint8_t { kFloat32, kBFloat16 };

constexpr int64_t DTypeBytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

// Scratch memory lent to one launch: 64-byte aligned, contents arbitrary before and after.
// `bytes` must be at least what the op's <Op>WorkspaceBytes says for the same spec and extents.
struct Workspace {
  void* data = nullptr;
  int64_t bytes = 0;
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_DTYPE_H_
