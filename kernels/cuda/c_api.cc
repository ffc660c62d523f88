// Translates the structs of kernels/c_api.h into those of the ops, and exceptions into codes.
#include "kernels/c_api.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/cuda/c_api_calls.h"
#include "kernels/gemm.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"

namespace coxswain::kernels {

namespace c_api {
namespace {

thread_local std::string last_error;

int Fail(int code, const char* what) {
  last_error = what;
  return code;
}

}  // namespace

int Guarded(const std::function<void()>& call) {
  try {
    call();
    return COXSWAIN_OK;
  } catch (const std::bad_alloc&) {
    return Fail(COXSWAIN_OUT_OF_MEMORY, "out of memory");
  } catch (const DeviceError& error) {
    return Fail(error.sticky() ? COXSWAIN_DEVICE_LOST : COXSWAIN_DEVICE_ERROR, error.what());
  } catch (const std::exception& error) {
    return Fail(COXSWAIN_INVALID_ARGUMENT, error.what());
  }
}

Stream* Wrap(void* handle) {
  static std::mutex mutex;
  static auto* streams = new std::map<std::pair<std::thread::id, void*>, std::unique_ptr<Stream>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Stream>& stream = (*streams)[{std::this_thread::get_id(), handle}];
  if (stream == nullptr) stream = std::make_unique<Stream>(static_cast<cudaStream_t>(handle));
  return stream.get();
}

namespace {

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
          .q_row = args.q_row,
          .kv_row = args.kv_row,
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
}  // namespace c_api
}  // namespace coxswain::kernels

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

const char* coxswain_last_error(void) { return c_api::last_error.c_str(); }

int coxswain_select_device(int index) {
  return c_api::Guarded([&] { kernels::SelectDevice(index); });
}

int coxswain_rms_norm_forward(const coxswain_rms_norm_args* args, void* stream) {
  return c_api::Guarded([&] { c_api::NormForward(*args, c_api::Wrap(stream)); });
}

int64_t coxswain_rms_norm_backward_workspace_bytes(const coxswain_rms_norm_backward_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::RmsNormBackwardWorkspaceBytes(c_api::NormSpec(*args), args->rows); });
}

int coxswain_rms_norm_backward(const coxswain_rms_norm_backward_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RmsNormBackward({.spec = c_api::NormSpec(*args),
                              .rows = args->rows,
                              .dy = args->dy,
                              .x = args->x,
                              .weight = args->weight,
                              .rstd = args->rstd,
                              .accumulate_dx = args->accumulate_dx != 0,
                              .dx = args->dx,
                              .dweight = args->dweight,
                              .workspace = c_api::Lent(args->workspace)},
                             c_api::Wrap(stream));
  });
}

int coxswain_swiglu_forward(const coxswain_swiglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SwigluForward(
        {.spec = c_api::GluSpec(*args), .rows = args->rows, .gate_up = args->gate_up, .y = args->y},
        c_api::Wrap(stream));
  });
}

int coxswain_swiglu_backward(const coxswain_swiglu_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SwigluBackward({.spec = c_api::GluSpec(*args),
                             .rows = args->rows,
                             .dy = args->dy,
                             .gate_up = args->gate_up},
                            c_api::Wrap(stream));
  });
}

int coxswain_rope_forward(const coxswain_rope_args* args, void* stream) {
  return c_api::Guarded([&] { kernels::RopeForward(c_api::Rotation(*args), c_api::Wrap(stream)); });
}

int coxswain_rope_backward(const coxswain_rope_args* args, void* stream) {
  return c_api::Guarded(
      [&] { kernels::RopeBackward(c_api::Rotation(*args), c_api::Wrap(stream)); });
}

int coxswain_cross_entropy(const coxswain_cross_entropy_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CrossEntropy({.spec = {.dtype = c_api::Type(args->dtype),
                                    .vocab = args->vocab,
                                    .label_smoothing = args->label_smoothing,
                                    .z_loss = args->z_loss,
                                    .softcap = args->softcap},
                           .rows = args->rows,
                           .logits = args->logits,
                           .ld = args->ld,
                           .targets = args->targets,
                           .gradient_scale = args->gradient_scale,
                           .loss = args->loss,
                           .nll = args->nll},
                          c_api::Wrap(stream));
  });
}

int64_t coxswain_gemm_workspace_bytes(void) { return kernels::GemmWorkspaceBytes(); }

int coxswain_set_gemm_tuning(int on) {
  return c_api::Guarded([&] { kernels::SetGemmTuning(on != 0); });
}

int coxswain_gemm(const coxswain_gemm_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::Gemm({.spec = {.dtype = c_api::Type(args->dtype),
                            .output_dtype = c_api::Type(args->output_dtype),
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
                   .workspace = c_api::Lent(args->workspace)},
                  c_api::Wrap(stream));
  });
}

int coxswain_prepare_attention(const coxswain_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::PrepareAttention(c_api::HeadsSpec(*args), c_api::Extents(*args), c_api::Wrap(stream));
  });
}

int64_t coxswain_attention_forward_workspace_bytes(const coxswain_attention_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::AttentionForwardWorkspaceBytes(c_api::HeadsSpec(*args), c_api::Extents(*args));
  });
}

int64_t coxswain_attention_backward_workspace_bytes(const coxswain_attention_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::AttentionBackwardWorkspaceBytes(c_api::HeadsSpec(*args), c_api::Extents(*args));
  });
}

int coxswain_attention_forward(const coxswain_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AttentionForward({.spec = c_api::HeadsSpec(*args),
                               .tokens = args->tokens,
                               .documents = c_api::PackedDocuments(*args),
                               .in = {args->q, args->k, args->v},
                               .out = args->out,
                               .lse = args->lse,
                               .workspace = c_api::Lent(args->workspace)},
                              c_api::Wrap(stream));
  });
}

int coxswain_attention_backward(const coxswain_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AttentionBackward({.spec = c_api::HeadsSpec(*args),
                                .tokens = args->tokens,
                                .documents = c_api::PackedDocuments(*args),
                                .in = {args->q, args->k, args->v},
                                .out = args->out,
                                .lse = args->lse,
                                .dout = args->dout,
                                .gradients = {args->dq, args->dk, args->dv},
                                .workspace = c_api::Lent(args->workspace)},
                               c_api::Wrap(stream));
  });
}

}  // extern "C"
