// Translates the structs of kernels/c_api.h into those of the ops, and exceptions into codes.
#include "kernels/c_api.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/cuda/stream.h"
#include "kernels/gemm.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

namespace coxswain::kernels {
namespace {

thread_local std::string last_error;

int Fail(int code, const char* what) {
  last_error = what;
  return code;
}

// Runs fn; what it throws becomes a code.
template <typename Fn>
int Guarded(const Fn& fn) {
  try {
    fn();
    return COXSWAIN_OK;
  } catch (const std::bad_alloc&) {
    return Fail(COXSWAIN_OUT_OF_MEMORY, "out of memory");
  } catch (const DeviceError& error) {
    return Fail(error.sticky() ? COXSWAIN_DEVICE_LOST : COXSWAIN_DEVICE_ERROR, error.what());
  } catch (const std::exception& error) {
    return Fail(COXSWAIN_INVALID_ARGUMENT, error.what());
  }
}

template <typename Fn>
int64_t GuardedBytes(const Fn& fn) {
  int64_t bytes = -1;
  Guarded([&] { bytes = fn(); });
  return bytes;
}

// The library's handles for a caller's stream, one set per thread and stream, kept for the life of
// the process: at its end the driver may be gone before them.
Stream* Wrap(void* handle) {
  static std::mutex mutex;
  static auto* streams = new std::map<std::pair<std::thread::id, void*>, std::unique_ptr<Stream>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Stream>& stream = (*streams)[{std::this_thread::get_id(), handle}];
  if (stream == nullptr) stream = std::make_unique<Stream>(static_cast<cudaStream_t>(handle));
  return stream.get();
}

DType Type(int32_t dtype) {
  if (dtype != COXSWAIN_FLOAT32 && dtype != COXSWAIN_BFLOAT16) {
    throw std::invalid_argument("dtype is " + std::to_string(dtype) +
                                ", must be COXSWAIN_FLOAT32 or COXSWAIN_BFLOAT16");
  }
  return dtype == COXSWAIN_FLOAT32 ? DType::kFloat32 : DType::kBFloat16;
}

Workspace Lent(const coxswain_workspace& workspace) {
  return {.data = workspace.data, .bytes = workspace.bytes};
}

template <typename Args>
RmsNormSpec NormSpec(const Args& args) {
  RmsNormSpec spec;
  spec.dtype = Type(args.dtype);
  spec.grad_dtype = Type(args.grad_dtype);
  spec.hidden = args.hidden;
  return spec;
}

SwigluSpec GluSpec(const coxswain_swiglu_args& args) {
  return {.dtype = Type(args.dtype), .intermediate = args.intermediate};
}

RopeArgs Rotation(const coxswain_rope_args& args) {
  return {.spec = {.dtype = Type(args.dtype),
                   .num_heads = args.num_heads,
                   .num_kv_heads = args.num_kv_heads,
                   .head_dim = args.head_dim,
                   .rotated = args.rotated,
                   .interleaved = args.interleaved != 0},
          .tokens = args.tokens,
          .qkv = args.qkv,
          .cos = args.cos,
          .sin = args.sin,
          .positions = args.positions,
          .query_scale = args.query_scale};
}

AttentionSpec HeadsSpec(const coxswain_attention_args& args) {
  return {.dtype = Type(args.dtype),
          .num_heads = args.num_heads,
          .num_kv_heads = args.num_kv_heads,
          .head_dim = args.head_dim,
          .window = args.window,
          .scale = args.scale,
          .softcap = args.softcap,
          .deterministic = args.deterministic != 0};
}

AttentionExtents Extents(const coxswain_attention_args& args) {
  return {.tokens = args.tokens,
          .documents = args.documents,
          .max_length = args.max_length,
          .dense = args.dense != 0};
}

Documents PackedDocuments(const coxswain_attention_args& args) {
  return {.count = args.documents,
          .cu_seqlens = args.cu_seqlens,
          .max_length = args.max_length,
          .dense = args.dense != 0};
}

void NormForward(const coxswain_rms_norm_args& args, Stream* stream) {
  RmsNormSpec spec = NormSpec(args);
  spec.eps = args.eps;
  if (args.residual == nullptr) {
    RmsNormForward({.spec = spec,
                    .rows = args.rows,
                    .x = args.x,
                    .weight = args.weight,
                    .y = args.y,
                    .rstd = args.rstd},
                   stream);
    return;
  }
  AddRmsNormForward({.spec = spec,
                     .rows = args.rows,
                     .x = args.x,
                     .residual = args.residual,
                     .weight = args.weight,
                     .sum = args.sum,
                     .y = args.y,
                     .rstd = args.rstd},
                    stream);
}

}  // namespace
}  // namespace coxswain::kernels

namespace kernels = coxswain::kernels;

extern "C" {

const char* coxswain_last_error(void) { return kernels::last_error.c_str(); }

int coxswain_select_device(int index) {
  return kernels::Guarded([&] { kernels::SelectDevice(index); });
}

int coxswain_rms_norm_forward(const coxswain_rms_norm_args* args, void* stream) {
  return kernels::Guarded([&] { kernels::NormForward(*args, kernels::Wrap(stream)); });
}

int64_t coxswain_rms_norm_backward_workspace_bytes(const coxswain_rms_norm_backward_args* args) {
  return kernels::GuardedBytes(
      [&] { return kernels::RmsNormBackwardWorkspaceBytes(kernels::NormSpec(*args), args->rows); });
}

int coxswain_rms_norm_backward(const coxswain_rms_norm_backward_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::RmsNormBackward({.spec = kernels::NormSpec(*args),
                              .rows = args->rows,
                              .dy = args->dy,
                              .x = args->x,
                              .weight = args->weight,
                              .rstd = args->rstd,
                              .accumulate_dx = args->accumulate_dx != 0,
                              .dx = args->dx,
                              .dweight = args->dweight,
                              .workspace = kernels::Lent(args->workspace)},
                             kernels::Wrap(stream));
  });
}

int coxswain_swiglu_forward(const coxswain_swiglu_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::SwigluForward({.spec = kernels::GluSpec(*args),
                            .rows = args->rows,
                            .gate_up = args->gate_up,
                            .y = args->y},
                           kernels::Wrap(stream));
  });
}

int coxswain_swiglu_backward(const coxswain_swiglu_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::SwigluBackward({.spec = kernels::GluSpec(*args),
                             .rows = args->rows,
                             .dy = args->dy,
                             .gate_up = args->gate_up},
                            kernels::Wrap(stream));
  });
}

int coxswain_rope_forward(const coxswain_rope_args* args, void* stream) {
  return kernels::Guarded(
      [&] { kernels::RopeForward(kernels::Rotation(*args), kernels::Wrap(stream)); });
}

int coxswain_rope_backward(const coxswain_rope_args* args, void* stream) {
  return kernels::Guarded(
      [&] { kernels::RopeBackward(kernels::Rotation(*args), kernels::Wrap(stream)); });
}

int coxswain_cross_entropy(const coxswain_cross_entropy_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::CrossEntropy({.spec = {.dtype = kernels::Type(args->dtype),
                                    .vocab = args->vocab,
                                    .label_smoothing = args->label_smoothing,
                                    .z_loss = args->z_loss,
                                    .softcap = args->softcap},
                           .rows = args->rows,
                           .logits = args->logits,
                           .targets = args->targets,
                           .gradient_scale = args->gradient_scale,
                           .loss = args->loss,
                           .nll = args->nll},
                          kernels::Wrap(stream));
  });
}

int64_t coxswain_gemm_workspace_bytes(void) { return kernels::GemmWorkspaceBytes(); }

int coxswain_set_gemm_tuning(int on) {
  return kernels::Guarded([&] { kernels::SetGemmTuning(on != 0); });
}

int coxswain_gemm(const coxswain_gemm_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::Gemm({.spec = {.dtype = kernels::Type(args->dtype),
                            .output_dtype = kernels::Type(args->output_dtype),
                            .transpose_a = args->transpose_a != 0,
                            .transpose_b = args->transpose_b != 0},
                   .m = args->m,
                   .n = args->n,
                   .k = args->k,
                   .alpha = args->alpha,
                   .a = args->a,
                   .lda = args->lda,
                   .b = args->b,
                   .ldb = args->ldb,
                   .beta = args->beta,
                   .c = args->c,
                   .ldc = args->ldc,
                   .bias = args->bias,
                   .workspace = kernels::Lent(args->workspace)},
                  kernels::Wrap(stream));
  });
}

int coxswain_prepare_attention(const coxswain_attention_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::PrepareAttention(kernels::HeadsSpec(*args), kernels::Extents(*args),
                              kernels::Wrap(stream));
  });
}

int64_t coxswain_attention_forward_workspace_bytes(const coxswain_attention_args* args) {
  return kernels::GuardedBytes([&] {
    return kernels::AttentionForwardWorkspaceBytes(kernels::HeadsSpec(*args),
                                                   kernels::Extents(*args));
  });
}

int64_t coxswain_attention_backward_workspace_bytes(const coxswain_attention_args* args) {
  return kernels::GuardedBytes([&] {
    return kernels::AttentionBackwardWorkspaceBytes(kernels::HeadsSpec(*args),
                                                    kernels::Extents(*args));
  });
}

int coxswain_attention_forward(const coxswain_attention_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::AttentionForward({.spec = kernels::HeadsSpec(*args),
                               .tokens = args->tokens,
                               .documents = kernels::PackedDocuments(*args),
                               .qkv = args->qkv,
                               .out = args->out,
                               .lse = args->lse,
                               .workspace = kernels::Lent(args->workspace)},
                              kernels::Wrap(stream));
  });
}

int coxswain_attention_backward(const coxswain_attention_args* args, void* stream) {
  return kernels::Guarded([&] {
    kernels::AttentionBackward({.spec = kernels::HeadsSpec(*args),
                                .tokens = args->tokens,
                                .documents = kernels::PackedDocuments(*args),
                                .qkv = args->qkv,
                                .out = args->out,
                                .lse = args->lse,
                                .dout = args->dout,
                                .dqkv = args->dqkv,
                                .workspace = kernels::Lent(args->workspace)},
                               kernels::Wrap(stream));
  });
}

}  // extern "C"
