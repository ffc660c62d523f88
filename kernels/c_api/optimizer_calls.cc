// Translates the structs of kernels/c_api/c_api.h into those of the ops: norm, checksums of lists,
// clip decision and optimizer. What lies in device memory is read by the kernels as it is: it must
// have their layout.
#include <cstddef>

#include "kernels/c_api/calls.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/adamw_8bit.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::kernels::c_api {
namespace {

template <typename Kernel, typename C>
const Kernel* As(const C* in_device_memory) {
  static_assert(sizeof(Kernel) == sizeof(C) && alignof(Kernel) == alignof(C));
  return reinterpret_cast<const Kernel*>(in_device_memory);
}
template <typename Kernel, typename C>
Kernel* As(C* in_device_memory) {
  static_assert(sizeof(Kernel) == sizeof(C) && alignof(Kernel) == alignof(C));
  return reinterpret_cast<Kernel*>(in_device_memory);
}

static_assert(COXSWAIN_TENSOR_CHUNK == kTensorChunk);
static_assert(COXSWAIN_FLOAT32 == static_cast<int>(DType::kFloat32) &&
              COXSWAIN_BFLOAT16 == static_cast<int>(DType::kBFloat16));
static_assert(offsetof(coxswain_adamw_tensor, n) == offsetof(AdamWTensor, n) &&
              offsetof(coxswain_adamw_tensor, first_chunk) == offsetof(AdamWTensor, first_chunk) &&
              offsetof(coxswain_adamw_tensor, lr_scale) == offsetof(AdamWTensor, lr_scale) &&
              offsetof(coxswain_adamw_tensor, p_dtype) == offsetof(AdamWTensor, p_dtype) &&
              offsetof(coxswain_adamw_tensor, index) == offsetof(AdamWTensor, index));
static_assert(offsetof(coxswain_optimizer_scalars, applied_updates) ==
                  offsetof(OptimizerScalars, applied_updates) &&
              offsetof(coxswain_optimizer_scalars, skip) == offsetof(OptimizerScalars, skip));
static_assert(offsetof(coxswain_norm_tensor, first_chunk) == offsetof(NormTensor, first_chunk) &&
              offsetof(coxswain_norm_tensor, dtype) == offsetof(NormTensor, dtype));

static_assert(COXSWAIN_STATE_BLOCK == kStateBlock);
static_assert(offsetof(coxswain_adamw_8bit_tensor, m_codes) == offsetof(AdamW8bitTensor, m_codes) &&
              offsetof(coxswain_adamw_8bit_tensor, v_codes) == offsetof(AdamW8bitTensor, v_codes) &&
              offsetof(coxswain_adamw_8bit_tensor, m_absmax) ==
                  offsetof(AdamW8bitTensor, m_absmax) &&
              offsetof(coxswain_adamw_8bit_tensor, v_absmax) ==
                  offsetof(AdamW8bitTensor, v_absmax));

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_adamw(const coxswain_adamw_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AdamW({.tensors = c_api::As<kernels::AdamWTensor>(args->tensors),
                    .count = args->count,
                    .chunks = args->chunks,
                    .scalars = c_api::As<kernels::OptimizerScalars>(args->scalars),
                    .state_dtype = static_cast<kernels::DType>(args->state_dtype),
                    .draws = {.key = {args->key[0], args->key[1]},
                              .state_key = {args->state_key[0], args->state_key[1]},
                              .step = args->step},
                    .last = args->more_follow == 0},
                   c_api::Wrap(stream));
  });
}

int64_t coxswain_global_norm_workspace_bytes(const coxswain_global_norm_args* args) {
  return c_api::GuardedBytes([&] { return kernels::GlobalNormWorkspaceBytes(args->chunks); });
}

int coxswain_global_norm(const coxswain_global_norm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::GlobalNorm({.tensors = c_api::As<kernels::NormTensor>(args->tensors),
                         .count = args->count,
                         .chunks = args->chunks,
                         .sums = c_api::As<kernels::NormSums>(args->sums),
                         .workspace = c_api::Lent(args->workspace)},
                        c_api::Wrap(stream));
  });
}

int coxswain_tensor_norms(const coxswain_tensor_norms_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::TensorNorms({.tensors = c_api::As<kernels::NormTensor>(args->tensors),
                          .count = args->count,
                          .chunk_sums = c_api::As<kernels::NormSums>(args->chunk_sums),
                          .sums = c_api::As<kernels::NormSums>(args->sums)},
                         c_api::Wrap(stream));
  });
}

int coxswain_checksum_tensors(const coxswain_checksum_tensors_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::ChecksumTensors({.tensors = c_api::As<kernels::NormTensor>(args->tensors),
                              .count = args->count,
                              .chunks = args->chunks,
                              .bits = c_api::As<kernels::TensorBits>(args->bits)},
                             c_api::Wrap(stream));
  });
}

int coxswain_decide_update(const coxswain_decide_update_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::DecideUpdate({.sums = c_api::As<kernels::NormSums>(args->sums),
                           .max_norm = args->max_norm,
                           .scalars = c_api::As<kernels::OptimizerScalars>(args->scalars),
                           .norm = args->norm},
                          c_api::Wrap(stream));
  });
}

int coxswain_adamw_8bit(const coxswain_adamw_8bit_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AdamW8bit({.tensors = c_api::As<kernels::AdamW8bitTensor>(args->tensors),
                        .count = args->count,
                        .chunks = args->chunks,
                        .scalars = c_api::As<kernels::OptimizerScalars>(args->scalars),
                        .draws = {.key = {args->key[0], args->key[1]}, .step = args->step},
                        .last = args->more_follow == 0},
                       c_api::Wrap(stream));
  });
}

}  // extern "C"
