// What the ops check of tensors, and the tensors that they make.
#ifndef COXSWAIN_KERNELS_TORCH_TENSORS_H_
#define COXSWAIN_KERNELS_TORCH_TENSORS_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <cstdint>

#include "kernels/torch/launch.h"
#include "kernels/torch/versions.h"

namespace coxswain::kernels::torch_ops {

inline int32_t Type(const Tensor& tensor, const char* name) {
  const at::ScalarType type = tensor.scalar_type();
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kBFloat16, "coxswain: ", name, " is ", type,
                   ", must be float32 or bfloat16");
  return type == at::kFloat ? COXSWAIN_FLOAT32 : COXSWAIN_BFLOAT16;
}

// The address of a contiguous tensor of `type` beside `first`: on its device.
inline void* Address(const Tensor& tensor, at::ScalarType type, const Tensor& first,
                     const char* name) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == type, "coxswain: ", name, " is ", tensor.scalar_type(),
                   ", must be ", type);
  TORCH_CHECK_VALUE(tensor.device() == first.device(), "coxswain: ", name, " is on ",
                    tensor.device(), ", another tensor of the call on ", first.device());
  TORCH_CHECK_VALUE(tensor.is_contiguous(), "coxswain: ", name, " is not contiguous");
  return tensor.data_ptr();
}
// Of the type of `first` too.
inline void* Address(const Tensor& tensor, const Tensor& first, const char* name) {
  return Address(tensor, first.scalar_type(), first, name);
}
template <typename Element>
Element* AddressOf(const Tensor& tensor, at::ScalarType type, const Tensor& first,
                   const char* name) {
  return static_cast<Element*>(Address(tensor, type, first, name));
}
inline float* Floats(const Tensor& tensor, const Tensor& first, const char* name) {
  return AddressOf<float>(tensor, at::kFloat, first, name);
}
inline const int32_t* Ints(const Tensor& tensor, const Tensor& first, const char* name) {
  return AddressOf<int32_t>(tensor, at::kInt, first, name);
}

inline void RequireSize(const Tensor& tensor, int64_t elements, const char* name) {
  TORCH_CHECK_VALUE(tensor.numel() == elements, "coxswain: ", name, " has ", tensor.numel(),
                    " elements, must have ", elements);
}
inline void RequireDims(const Tensor& tensor, int64_t dims, const char* name) {
  TORCH_CHECK_VALUE(tensor.dim() == dims, "coxswain: ", name, " has ", tensor.dim(),
                    " dimensions, must have ", dims);
}

// All dimensions but the last, which a tensor of the ops has.
inline int64_t Rows(const Tensor& tensor) {
  const int64_t columns = tensor.size(-1);
  return columns == 0 ? 0 : tensor.numel() / columns;
}

inline Tensor EmptyFloats(at::IntArrayRef shape, const Tensor& like) {
  return at::empty(shape, like.options().dtype(at::kFloat));
}
// For gradients of weights, which the kernels add to.
inline Tensor ZeroFloats(at::IntArrayRef shape, const Tensor& like) {
  return at::zeros(shape, like.options().dtype(at::kFloat));
}
inline Tensor EmptyLike(const Tensor& like) {
  return at::empty_like(like, {}, at::MemoryFormat::Contiguous);
}
inline Tensor EmptyTensor(at::IntArrayRef shape, const Tensor& like) {
  return at::empty(shape, like.options());
}
// [..., columns] beside a tensor [..., anything].
inline Tensor EmptyColumns(const Tensor& like, int64_t columns) {
  std::vector<int64_t> shape = like.sizes().vec();
  shape.back() = columns;
  return at::empty(shape, like.options());
}
inline Tensor Copy(const Tensor& tensor) { return tensor.clone(at::MemoryFormat::Contiguous); }
// What an op gives for a gradient that nobody asked for.
inline Tensor None(const Tensor& like) { return at::empty({0}, like.options()); }

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_TENSORS_H_
