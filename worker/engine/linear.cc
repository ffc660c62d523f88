#include "worker/engine/linear.h"

#include <algorithm>

#include "common/philox.h"
#include "kernels/bias.h"
#include "kernels/gemm.h"
#include "kernels/lora_linear.h"

namespace coxswain::engine {
namespace {

kernels::DropoutMask Mask(const Pass& pass, const Linear& linear) {
  const std::array<uint32_t, 2> key = PhiloxKey(pass.model.seed, RandomPurpose::kDropout);
  kernels::DropoutMask mask;
  mask.key[0] = key[0];
  mask.key[1] = key[1];
  mask.site = linear.site;
  mask.step = &pass.buffers.scalars->step;
  mask.bins = pass.buffers.bins;
  mask.positions = pass.buffers.bin_positions;
  return mask;
}

int64_t AdapterOffset(const Pass& pass, const Linear& linear) {
  return linear.adapters.slot * pass.batch.tokens * pass.model.lora_rank;
}

void AdaptersForward(const Pass& pass, const LinearForwardArgs& args) {
  const Linear& linear = *args.linear;
  kernels::LoraLinearForwardArgs lora;
  lora.spec = LoraSpec(pass.model, linear, pass.batch.train);
  lora.mask = Mask(pass, linear);
  lora.rows = pass.batch.tokens;
  lora.x = args.x;
  lora.a = linear.adapters.a.value;
  for (int64_t j = 0; j < linear.adapters.members; ++j) lora.b[j] = linear.adapters.b[j].value;
  lora.h = args.lora_h + AdapterOffset(pass, linear);
  lora.y = args.y;
  lora.workspace = pass.buffers.scratch;
  kernels::LoraLinearForward(lora, pass.stream);
}

void AdaptersBackward(const Pass& pass, const LinearBackwardArgs& args) {
  const Linear& linear = *args.linear;
  kernels::LoraLinearBackwardArgs lora;
  lora.spec = LoraSpec(pass.model, linear, pass.batch.train);
  lora.mask = Mask(pass, linear);
  lora.rows = pass.batch.tokens;
  lora.x = args.x;
  lora.a = linear.adapters.a.value;
  lora.da = linear.adapters.a.gradient;
  for (int64_t j = 0; j < linear.adapters.members; ++j) {
    lora.b[j] = linear.adapters.b[j].value;
    lora.db[j] = linear.adapters.b[j].gradient;
  }
  lora.h = args.lora_h + AdapterOffset(pass, linear);
  lora.dy = args.dy;
  lora.dx = args.dx;
  lora.workspace = pass.buffers.scratch;
  kernels::LoraLinearBackward(lora, pass.stream);
}

}  // namespace

kernels::LoraLinearSpec LoraSpec(const Model& model, const Linear& linear, bool train) {
  kernels::LoraLinearSpec spec;
  spec.in_features = linear.in;
  spec.rank = model.lora_rank;
  spec.members = linear.adapters.members;
  std::copy_n(linear.adapters.out, spec.members, spec.out_features);
  std::copy_n(linear.adapters.column, spec.members, spec.column_offset);
  spec.ldy = linear.out;
  spec.scale = static_cast<float>(model.lora_scale);
  spec.dropout_rate = train ? static_cast<float>(model.lora_dropout) : 0.0f;
  return spec;
}

void LinearForward(const Pass& pass, const LinearForwardArgs& args) {
  const Linear& linear = *args.linear;
  kernels::GemmArgs gemm;
  gemm.spec.transpose_b = true;
  gemm.m = pass.batch.tokens;
  gemm.n = linear.out;
  gemm.k = linear.in;
  gemm.a = args.x;
  gemm.lda = linear.in;
  gemm.b = linear.weight.value;
  gemm.ldb = linear.in;
  gemm.c = args.y;
  gemm.ldc = linear.out;
  gemm.bias = linear.bias.value;
  gemm.workspace = pass.buffers.scratch;
  kernels::Gemm(gemm, pass.stream);
  if (linear.adapters.members > 0) AdaptersForward(pass, args);
}

void LinearBackward(const Pass& pass, const LinearBackwardArgs& args) {
  const Linear& linear = *args.linear;
  if (linear.weight.gradient != nullptr) {  // dW += dy^T x
    kernels::GemmArgs wgrad;
    wgrad.spec.transpose_a = true;
    wgrad.m = linear.out;
    wgrad.n = linear.in;
    wgrad.k = pass.batch.tokens;
    wgrad.a = args.dy;
    wgrad.lda = linear.out;
    wgrad.b = args.x;
    wgrad.ldb = linear.in;
    wgrad.beta = 1.0f;
    wgrad.c = linear.weight.gradient;
    wgrad.ldc = linear.in;
    wgrad.workspace = pass.buffers.scratch;
    kernels::Gemm(wgrad, pass.stream);
  }
  if (linear.bias.gradient != nullptr) {
    kernels::BiasBackwardArgs bias;
    bias.rows = pass.batch.tokens;
    bias.columns = linear.out;
    bias.dy = args.dy;
    bias.ldy = linear.out;
    bias.dbias = linear.bias.gradient;
    bias.workspace = pass.buffers.scratch;
    kernels::BiasBackward(bias, pass.stream);
  }
  if (args.dx != nullptr) {  // dx = dy W
    kernels::GemmArgs dgrad;
    dgrad.m = pass.batch.tokens;
    dgrad.n = linear.in;
    dgrad.k = linear.out;
    dgrad.a = args.dy;
    dgrad.lda = linear.out;
    dgrad.b = linear.weight.value;
    dgrad.ldb = linear.in;
    dgrad.c = args.dx;
    dgrad.ldc = linear.in;
    dgrad.workspace = pass.buffers.scratch;
    kernels::Gemm(dgrad, pass.stream);
  }
  if (linear.adapters.members > 0) AdaptersBackward(pass, args);
}

}  // namespace coxswain::engine
