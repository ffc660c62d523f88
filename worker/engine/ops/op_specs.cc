#include "worker/engine/ops/op_specs.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace coxswain::engine {
namespace {

kernels::GateActivation ActivationOf(model::Activation activation) {
  switch (activation) {
    case model::Activation::kSilu:
      return kernels::GateActivation::kSilu;
    case model::Activation::kGeluTanh:
      return kernels::GateActivation::kGeluTanh;
    default:
      return kernels::GateActivation::kGelu;
  }
}

}  // namespace

kernels::RmsNormSpec RmsSpec(const Model& model, const model::NormOp& op) {
  kernels::RmsNormSpec spec;
  spec.dtype = model.compute_dtype;
  spec.hidden = op.width;
  spec.eps = static_cast<float>(op.eps);
  spec.weight_offset = op.from_one ? 1.0f : 0.0f;
  return spec;
}

kernels::LayerNormSpec LayerSpec(const Model& model, const model::NormOp& op, const Norm& norm) {
  kernels::LayerNormSpec spec;
  spec.dtype = model.compute_dtype;
  spec.grad_dtype = norm.weight.gradient_dtype;
  spec.hidden = op.width;
  spec.eps = static_cast<float>(op.eps);
  return spec;
}

kernels::QkNormSpec QkSpec(const Model& model, const model::QkNormOp& op) {
  kernels::QkNormSpec spec;
  spec.dtype = model.compute_dtype;
  spec.num_heads = op.heads.queries;
  spec.num_kv_heads = op.heads.keys;
  spec.head_dim = op.heads.width;
  spec.eps = static_cast<float>(op.eps);
  spec.weight_offset = op.from_one ? 1.0f : 0.0f;
  spec.whole = op.whole;
  return spec;
}

kernels::GatedLinearSpec GatedLinearOf(const Model& model, const model::GateOp& gate,
                                       int64_t hidden) {
  return {.dtype = model.compute_dtype,
          .hidden = hidden,
          .intermediate = gate.width,
          .activation = ActivationOf(gate.activation)};
}

GatedActivationSpec GateOf(const Model& model, const model::GateOp& op) {
  switch (op.activation) {
    case model::Activation::kSilu:
      return kernels::SwigluSpec{.dtype = model.compute_dtype, .intermediate = op.width};
    case model::Activation::kClampedSilu:
      return kernels::ClampedSwigluSpec{.dtype = model.compute_dtype,
                                        .intermediate = op.width,
                                        .alpha = static_cast<float>(op.alpha),
                                        .limit = static_cast<float>(op.limit)};
    default:
      return kernels::GegluSpec{.dtype = model.compute_dtype,
                                .intermediate = op.width,
                                .tanh = op.activation == model::Activation::kGeluTanh};
  }
}

kernels::GeluSpec GeluOf(const Model& model, const model::ActivationOp& op) {
  return {.dtype = model.compute_dtype,
          .columns = op.width,
          .tanh = op.activation == model::Activation::kGeluTanh};
}

kernels::SigmoidGateSpec SigmoidGateOf(const Model& model, const model::SigmoidGateOp& op) {
  return {.dtype = model.compute_dtype, .columns = op.width};
}

kernels::SplitRowsSpec SplitSpec(const Model& model, const model::SplitOp& op) {
  return {.dtype = model.compute_dtype, .first = op.first_width, .second = op.second_width};
}

kernels::LatentHeadsSpec LatentSpec(const Model& model, const model::LatentHeadsOp& op) {
  return {.dtype = model.compute_dtype,
          .heads = op.heads.queries,
          .nope = op.nope(),
          .rope = op.rotated,
          .value = op.heads.value,
          .interleaved = op.interleaved};
}

kernels::RopeSpec RotarySpec(const Model& model, const model::RotateOp& op) {
  kernels::RopeSpec spec;
  spec.dtype = model.compute_dtype;
  spec.num_heads = op.heads.queries;
  spec.num_kv_heads = op.heads.keys;
  spec.head_dim = op.heads.width;
  spec.rotated = op.rotated;
  spec.interleaved = op.interleaved;
  return spec;
}

kernels::AttentionSpec HeadsSpec(const Model& model, const model::AttentionOp& op) {
  kernels::AttentionSpec spec;
  spec.dtype = model.compute_dtype;
  spec.num_heads = op.heads.queries;
  spec.num_kv_heads = op.heads.keys;
  spec.head_dim = op.heads.width;
  spec.value_dim = op.heads.value;
  spec.sinks = op.sinks != model::kNoTensor;
  spec.sink_dtype = model.compute_dtype;
  spec.window = op.window;
  spec.deterministic = model.attention_deterministic;
  spec.scale = static_cast<float>(op.scale);
  spec.softcap = static_cast<float>(op.softcap);
  spec.fp8 = model.fp8_attention;
  return spec;
}

kernels::AttentionSpec InComputeDtype(kernels::AttentionSpec spec) {
  spec.fp8 = false;
  return spec;
}

std::vector<kernels::AttentionSpec> HeadsSpecs(const Model& model,
                                               const model::Architecture& architecture) {
  std::vector<model::AttentionOp> distinct;
  for (const model::Block& block : architecture.blocks) {
    for (const model::PlainOp& op : block.ops) {
      const auto* attention = std::get_if<model::AttentionOp>(&op);
      if (attention == nullptr) continue;
      model::AttentionOp numbers = *attention;
      numbers.id = 0;
      numbers.qkv = numbers.out = numbers.lse = {};
      if (numbers.sinks != model::kNoTensor) numbers.sinks = 0;
      const bool known = std::find(distinct.begin(), distinct.end(), numbers) != distinct.end();
      if (!known) distinct.push_back(std::move(numbers));
    }
  }
  std::vector<kernels::AttentionSpec> specs;
  for (const model::AttentionOp& op : distinct) specs.push_back(HeadsSpec(model, op));
  return specs;
}

kernels::RouteSpec RouterSpec(const model::RouteOp& op) {
  return {.experts = op.experts,
          .chosen = op.chosen,
          .score = op.score == model::Score::kSigmoid ? kernels::RouterScore::kSigmoid
                                                      : kernels::RouterScore::kSoftmax,
          .groups = op.groups,
          .top_groups = op.top_groups,
          .renormalise = op.renormalise,
          .scale = static_cast<float>(op.scale)};
}

kernels::BiasSpec RouterBiasSpec(const Tensor& bias) {
  return {.dtype = kernels::DType::kFloat32, .grad_dtype = bias.gradient_dtype};
}

kernels::GroupedLinearSpec ExpertsSpec(const Model& model, const model::GroupedLinearOp& op) {
  return {.dtype = model.compute_dtype,
          .experts = op.experts,
          .in_features = op.in_features,
          .out_features = op.out_features};
}

kernels::GroupedGatedLinearSpec GatedExpertsSpec(const Model& model,
                                                 const model::GroupedGatedLinearOp& op) {
  kernels::GroupedGatedLinearSpec spec{.dtype = model.compute_dtype,
                                       .experts = op.linear.experts,
                                       .in_features = op.linear.in_features,
                                       .intermediate = op.gate.width};
  if (op.gate.activation == model::Activation::kClampedSilu) {
    spec.alpha = static_cast<float>(op.gate.alpha);
    spec.limit = static_cast<float>(op.gate.limit);
  }
  return spec;
}

kernels::GroupedLoraSpec ExpertAdapterSpec(const Model& model, const model::GroupedLinearOp& op,
                                           const ExpertLinear& experts) {
  return {.dtype = model.compute_dtype,
          .grad_dtype = experts.a.gradient_dtype,
          .experts = op.experts,
          .in_features = op.in_features,
          .out_features = op.out_features,
          .rank = experts.rank,
          .scale = static_cast<float>(model.lora_scale)};
}

kernels::CachedAttentionSpec CachedSpec(const kernels::AttentionSpec& attention, int64_t length) {
  return {.attention = InComputeDtype(attention), .length = length};
}

kernels::CacheRows CacheRowsOf(const Sweep& sweep) {
  return {sweep.batch.tokens, sweep.buffers.cached_sequences, sweep.buffers.positions};
}

kernels::Documents DocumentsOf(const Sweep& sweep) {
  return {sweep.batch.documents, sweep.buffers.cu_seqlens, sweep.batch.max_length,
          sweep.batch.dense};
}

kernels::LatentPlaces PlacesOf(const Sweep& sweep, const BoundLatentHeads& op) {
  return {op.cos, op.sin, sweep.buffers.rope_rows};
}

kernels::RopeArgs RotationArgs(const Sweep& sweep, const BoundRotation& rotation, void* qkv) {
  kernels::RopeArgs args;
  args.spec = rotation.spec;
  args.tokens = sweep.batch.tokens;
  args.qkv = qkv;
  args.cos = rotation.cos;
  args.sin = rotation.sin;
  args.positions = sweep.buffers.rope_rows;
  args.query_scale = rotation.query_scale;
  return args;
}

}  // namespace coxswain::engine
