#include "worker/engine/ops/linear.h"

#include "common/philox.h"
#include "kernels/device.h"
#include "kernels/lora/dora.h"
#include "kernels/products/bias.h"
#include "kernels/products/rotated_linear.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/engine/ops/dense.h"
#include "worker/engine/ops/fp8_linear.h"
#include "worker/engine/ops/op_specs.h"

namespace coxswain::engine {
namespace {

// Of the linear's x A^T inside lora_h of its layer.
int64_t AdapterOffsetBytes(const Sweep& sweep, const Linear& linear) {
  return linear.adapters.slot * sweep.batch.tokens * sweep.model.lora_rank *
         kernels::DTypeBytes(sweep.model.compute_dtype);
}

Dense DenseOf(const Sweep& sweep, const Linear& linear) {
  return {&linear.weight, sweep.batch.tokens, linear.in, linear.out};
}

void BiasGradient(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  kernels::BiasBackwardArgs bias;
  bias.spec.dtype = sweep.model.compute_dtype;
  bias.spec.grad_dtype = linear.bias.gradient_dtype;
  bias.rows = sweep.batch.tokens;
  bias.columns = linear.out;
  bias.dy = args.dy;
  bias.ldy = linear.out;
  bias.dbias = linear.bias.gradient;
  bias.workspace = sweep.buffers.scratch;
  kernels::BiasBackward(bias, sweep.stream);
}

bool Adapted(const Linear& linear) { return !linear.adapters.members.empty(); }
bool Scaled(const Sweep& sweep, const Linear& linear) {
  return sweep.model.dora && Adapted(linear);
}

void ScaleForward(const Sweep& sweep, const BoundLinear& args) {
  kernels::DoraForwardArgs dora;
  dora.spec = LoraSpec(sweep.model, *args.linear, sweep.batch.train);
  dora.rows = sweep.batch.tokens;
  dora.u = args.u;
  dora.factor = sweep.buffers.dora.factor + args.linear->adapters.dora_column;
  dora.bias = args.linear->bias.value;
  dora.y = args.adds ? args.spare : args.y;
  kernels::DoraForward(dora, sweep.stream);
  if (!args.adds) return;
  kernels::AddArgs add;
  add.dtype = add.x_dtype = sweep.model.compute_dtype;
  add.count = sweep.batch.tokens * args.linear->out;
  add.x = args.spare;
  add.y = args.y;
  kernels::Add(add, sweep.stream);
}

void ScaleBackward(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  const int64_t bytes =
      sweep.batch.tokens * linear.out * kernels::DTypeBytes(sweep.model.compute_dtype);
  if (args.du != args.dy) kernels::CopyMemory(args.du, args.dy, bytes, sweep.stream);
  kernels::DoraBackwardArgs dora;
  dora.spec = LoraSpec(sweep.model, linear, sweep.batch.train);
  dora.rows = sweep.batch.tokens;
  dora.u = args.u;
  dora.norm = sweep.buffers.dora.norm + linear.adapters.dora_column;
  dora.factor = sweep.buffers.dora.factor + linear.adapters.dora_column;
  dora.dy = args.du;
  dora.workspace = sweep.buffers.scratch;
  kernels::DoraBackward(dora, sweep.stream);
}

// To what the product with W left in y.
void AddAdapters(const Sweep& sweep, kernels::LoraLinearForwardArgs lora) {
  lora.weight = lora.bias = nullptr;
  lora.accumulate_y = true;
  kernels::LoraLinearForward(lora, sweep.stream);
}

void BackwardInFp8(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  const void* dy = args.dy;
  if (Scaled(sweep, linear)) {
    ScaleBackward(sweep, args);
    dy = args.du;
  }
  Fp8Backward(sweep, args, dy);
  if (linear.bias.gradient != nullptr) BiasGradient(sweep, args);
  if (!Adapted(linear)) return;
  kernels::LoraLinearBackwardArgs lora = AdaptedBackwardArgs(sweep, args);
  lora.dy = dy;
  lora.weight = nullptr;
  lora.accumulate_dx = true;
  kernels::LoraLinearBackward(lora, sweep.stream);
}

}  // namespace

kernels::DropoutMask DropoutOf(const Sweep& sweep, const Linear& linear) {
  const std::array<uint32_t, 2> key = PhiloxKey(sweep.model.seed, RandomPurpose::kDropout);
  kernels::DropoutMask mask;
  mask.key[0] = key[0];
  mask.key[1] = key[1];
  mask.site = linear.site;
  mask.step = &sweep.buffers.scalars->step;
  mask.bins = sweep.buffers.bins;
  mask.positions = sweep.buffers.bin_positions;
  return mask;
}

kernels::LoraLinearSpec LoraSpec(const Model& model, const Linear& linear, bool train) {
  kernels::LoraLinearSpec spec;
  spec.dtype = model.compute_dtype;
  spec.in_features = linear.in;
  spec.rank = model.lora_rank;
  spec.members = linear.adapters.members;
  spec.ldy = linear.out;
  spec.scale = static_cast<float>(model.lora_scale);
  spec.dropout_rate = train ? static_cast<float>(model.lora_dropout) : 0.0f;
  return spec;
}

kernels::LoraLinearForwardArgs AdaptedForwardArgs(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  kernels::LoraLinearForwardArgs lora;
  lora.spec = LoraSpec(sweep.model, linear, sweep.batch.train);
  lora.mask = DropoutOf(sweep, linear);
  lora.rows = sweep.batch.tokens;
  lora.x = args.x;
  lora.weight = linear.weight.value;
  lora.bias = linear.bias.value;
  lora.a = linear.adapters.a.value;
  lora.h = static_cast<char*>(args.lora_h) + AdapterOffsetBytes(sweep, linear);
  lora.y = args.y;
  lora.accumulate_y = args.adds;
  lora.workspace = sweep.buffers.scratch;
  return lora;
}

kernels::LoraLinearBackwardArgs AdaptedBackwardArgs(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  kernels::LoraLinearBackwardArgs lora;
  lora.spec = LoraSpec(sweep.model, linear, sweep.batch.train);
  lora.mask = DropoutOf(sweep, linear);
  lora.rows = sweep.batch.tokens;
  lora.x = args.x;
  lora.weight = linear.weight.value;
  lora.a = linear.adapters.a.value;
  lora.da = linear.adapters.a.gradient;
  lora.h = static_cast<const char*>(args.lora_h) + AdapterOffsetBytes(sweep, linear);
  lora.dy = args.dy;
  lora.dx = args.dx;
  lora.accumulate_dx = args.accumulates;
  lora.workspace = sweep.buffers.scratch;
  return lora;
}

void LinearForward(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  const bool fp8 = RunsInFp8(sweep, args);
  const DenseForwardArgs dense{args.x, linear.bias.value, args.y, args.adds};
  if (!Adapted(linear)) {
    return fp8 ? Fp8Forward(sweep, args, dense)
               : DenseForward(sweep, DenseOf(sweep, linear), dense);
  }
  kernels::LoraLinearForwardArgs lora = AdaptedForwardArgs(sweep, args);
  if (fp8 && !Scaled(sweep, linear)) {
    Fp8Forward(sweep, args, dense);
    return AddAdapters(sweep, lora);
  }
  if (!Scaled(sweep, linear)) return kernels::LoraLinearForward(lora, sweep.stream);
  // DoRA scales what this linear alone puts out, before the bias: it is added to y behind the
  // scale.
  lora.bias = nullptr;
  lora.y = args.u;
  lora.accumulate_y = false;
  if (fp8) {
    Fp8Forward(sweep, args, {.x = args.x, .y = args.u});
    AddAdapters(sweep, lora);
  } else {
    kernels::LoraLinearForward(lora, sweep.stream);
  }
  ScaleForward(sweep, args);
}

void LinearRotationForward(const Sweep& sweep, const BoundLinearRotation& op) {
  const Linear& linear = *op.linear.linear;
  kernels::RotatedLinearForward({.in_features = linear.in,
                                 .x = op.linear.x,
                                 .weight = linear.weight.value,
                                 .bias = linear.bias.value,
                                 .rope = RotationArgs(sweep, op.rotation, op.rotation.qkv),
                                 .workspace = sweep.buffers.scratch},
                                sweep.stream);
}

void LinearAddForward(const Sweep& sweep, const BoundLinearAdd& op) {
  const Linear& linear = *op.linear.linear;
  const DenseForwardArgs args{.x = op.linear.x,
                              .bias = linear.bias.value,
                              .y = op.add.out,
                              .accumulate = true,
                              .addend = op.add.stream};
  if (RunsInFp8(sweep, op.linear)) return Fp8Forward(sweep, op.linear, args);
  DenseForward(sweep, DenseOf(sweep, linear), args);
}

void LinearParameterGradients(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  if (linear.weight.gradient != nullptr) {
    DenseWeightGradient(sweep, DenseOf(sweep, linear),
                        {args.dy, args.x, FindsGradient(sweep, linear.weight)});
  }
  if (linear.bias.gradient != nullptr) BiasGradient(sweep, args);
}

void LinearBackward(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  if (RunsInFp8(sweep, args)) return BackwardInFp8(sweep, args);
  LinearParameterGradients(sweep, args);
  if (Adapted(linear)) {
    kernels::LoraLinearBackwardArgs lora = AdaptedBackwardArgs(sweep, args);
    if (Scaled(sweep, linear)) {
      ScaleBackward(sweep, args);
      lora.dy = args.du;
    }
    kernels::LoraLinearBackward(lora, sweep.stream);
  } else if (args.dx != nullptr) {
    DenseInputGradient(sweep, DenseOf(sweep, linear), {args.dy, args.dx, args.accumulates});
  }
}

}  // namespace coxswain::engine
