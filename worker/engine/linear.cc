#include "worker/engine/linear.h"

#include "common/philox.h"
#include "kernels/add.h"
#include "kernels/bias.h"
#include "kernels/device.h"
#include "kernels/dora.h"
#include "kernels/lora_linear.h"
#include "worker/engine/dense.h"

namespace coxswain::engine {
namespace {

// Of the linear's x A^T inside lora_h of its layer.
int64_t AdapterOffsetBytes(const Sweep& sweep, const Linear& linear) {
  return linear.adapters.slot * sweep.batch.tokens * sweep.model.lora_rank *
         kernels::DTypeBytes(sweep.model.compute_dtype);
}

// Every column of y has an adapter: then the low-rank product is written first and the product with
// W added to it, which saves reading y once more.
bool AdaptersCover(const Linear& linear) {
  int64_t columns = 0;
  for (const kernels::LoraMember& member : linear.adapters.members) columns += member.out_features;
  return columns == linear.out;
}

void AdaptersForward(const Sweep& sweep, const BoundLinear& args, void* y, bool accumulate) {
  const Linear& linear = *args.linear;
  kernels::LoraLinearForwardArgs lora;
  lora.spec = LoraSpec(sweep.model, linear, sweep.batch.train);
  lora.mask = DropoutOf(sweep, linear);
  lora.rows = sweep.batch.tokens;
  lora.x = args.x;
  lora.a = linear.adapters.a.value;
  lora.h = static_cast<char*>(args.lora_h) + AdapterOffsetBytes(sweep, linear);
  lora.y = y;
  lora.accumulate_y = accumulate;
  lora.workspace = sweep.buffers.scratch;
  kernels::LoraLinearForward(lora, sweep.stream);
}

// The product with W is added to dx behind it.
void AdaptersBackward(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  kernels::LoraLinearBackwardArgs lora;
  lora.spec = LoraSpec(sweep.model, linear, sweep.batch.train);
  lora.mask = DropoutOf(sweep, linear);
  lora.rows = sweep.batch.tokens;
  lora.x = args.x;
  lora.a = linear.adapters.a.value;
  lora.da = linear.adapters.a.gradient;
  lora.h = static_cast<const char*>(args.lora_h) + AdapterOffsetBytes(sweep, linear);
  lora.dy = args.dy;
  lora.dx = args.dx;
  lora.accumulate_dx = args.accumulates;
  lora.workspace = sweep.buffers.scratch;
  kernels::LoraLinearBackward(lora, sweep.stream);
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

bool Scaled(const Sweep& sweep, const Linear& linear) {
  return sweep.model.dora && !linear.adapters.members.empty();
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

void InputGradient(const Sweep& sweep, const BoundLinear& args) {
  if (args.dx == nullptr) return;
  // What the adapters left in dx is added to.
  const bool adapted = !args.linear->adapters.members.empty();
  DenseInputGradient(sweep, DenseOf(sweep, *args.linear),
                     {args.dy, args.dx, adapted || args.accumulates});
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

void LinearForward(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  const Dense dense = DenseOf(sweep, linear);
  const bool first = AdaptersCover(linear), scaled = Scaled(sweep, linear);
  // DoRA scales what this linear alone puts out: it is added to y behind the scale.
  void* y = scaled ? args.u : args.y;
  const bool adds = args.adds && !scaled;
  const void* bias = scaled ? nullptr : linear.bias.value;  // the scale comes before the bias
  if (first) AdaptersForward(sweep, args, y, adds);
  DenseForward(sweep, dense, {args.x, bias, y, first || adds});
  if (!linear.adapters.members.empty() && !first)
    AdaptersForward(sweep, args, y, /*accumulate=*/true);
  if (scaled) ScaleForward(sweep, args);
}

void LinearParameterGradients(const Sweep& sweep, const BoundLinear& args) {
  const Linear& linear = *args.linear;
  if (linear.weight.gradient != nullptr) {
    // A slot is written once in a micro-step.
    const bool accumulate = !linear.weight.gradient_slotted;
    DenseWeightGradient(sweep, DenseOf(sweep, linear), {args.dy, args.x, accumulate});
  }
  if (linear.bias.gradient != nullptr) BiasGradient(sweep, args);
}

void LinearBackward(const Sweep& sweep, const BoundLinear& args) {
  LinearParameterGradients(sweep, args);
  BoundLinear unscaled = args;
  if (Scaled(sweep, *args.linear)) {
    ScaleBackward(sweep, args);
    unscaled.dy = args.du;
  }
  if (!args.linear->adapters.members.empty()) AdaptersBackward(sweep, unscaled);
  InputGradient(sweep, unscaled);
}

}  // namespace coxswain::engine
