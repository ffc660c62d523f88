#include "worker/engine/step/plan_check.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/buffer_names.h"
#include "common/plan/checks/plan_checks.h"
#include "common/plan/extents.h"
#include "common/plan/quantize_pieces.h"
#include "common/status_macros.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/router_loss.h"
#include "kernels/lora/dora.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/score_loss.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/products/bias.h"
#include "kernels/products/gemm.h"
#include "kernels/products/rotated_linear.h"
#include "kernels/tensors/rows.h"
#include "worker/engine/heads/cut_head.h"
#include "worker/engine/heads/lm_head.h"
#include "worker/engine/heads/loss_head.h"
#include "worker/engine/heads/score_head.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/ops/expert_use.h"
#include "worker/engine/ops/fp8_experts.h"
#include "worker/engine/ops/fp8_linear.h"
#include "worker/engine/ops/linear.h"
#include "worker/engine/ops/micro_step.h"
#include "worker/engine/ops/op_specs.h"

namespace coxswain::engine {
namespace {

// A field of the plan and whether its value can be run.
struct Rule {
  bool holds = false;
  std::string field;
  std::string wanted;
};

absl::Status CheckRules(const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    if (rule.holds) continue;
    return absl::InvalidArgumentError(absl::StrCat("plan: ", rule.field, "; wanted ", rule.wanted));
  }
  return absl::OkStatus();
}

// Tokens of a micro-step: positions are int32, and byte counts of buffers stay inside int64.
constexpr int64_t kMaxTokens = int64_t{1} << 27;

absl::Status CheckSupported(const plan::Plan& plan, int rank) {
  const int64_t tokens = plan.micro_batch_bins * plan.sequence_len;
  return CheckRules({
      {plan.model.rope.type != "dynamic" ||
           plan::LongestDocument(plan) <= plan.model.rope.original_max_position,
       absl::StrCat("documents of ", plan::LongestDocument(plan), " tokens under dynamic rotation"),
       absl::StrCat("at most ", plan.model.rope.original_max_position)},
      {plan.master_dtype == Precision::kFloat32 || plan.compute_dtype == Precision::kBfloat16,
       absl::StrCat("master_dtype \"", ToString(plan.master_dtype), "\" with compute float32"),
       "\"float32\""},
      {rank >= 0 && rank < plan.world_size(),
       absl::StrCat("rank ", rank, " of replicate ", plan.replicate, " x shard ", plan.shard),
       "a rank of the mesh"},
      {tokens <= kMaxTokens,
       absl::StrCat("micro_batch_bins ", plan.micro_batch_bins, " x sequence_len ",
                    plan.sequence_len),
       absl::StrCat("at most ", kMaxTokens, " tokens")},
      {plan.lora.rank > 0 || plan.lora.init_from.empty(),
       absl::StrCat("lora init_from \"", plan.lora.init_from, "\" without an adapter"),
       "lora rank > 0"},
  });
}

absl::Status CheckTrainableCounts(const plan::Plan& plan) {
  std::vector<int64_t> elements(plan.groups.size(), 0);
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.trainable()) {
      elements[static_cast<size_t>(parameter.group)] += parameter.elements();
    }
  }
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    if (elements[i] == plan.groups[i].expected_elements) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("self-verification: group \"", plan.groups[i].name, "\" has ", elements[i],
                     " trainable elements, expected ", plan.groups[i].expected_elements));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlan(const plan::Plan& plan, int rank) {
  RETURN_IF_ERROR(plan::CheckPlan(plan));
  RETURN_IF_ERROR(CheckSupported(plan, rank));
  return CheckTrainableCounts(plan);
}

namespace {

absl::Status CheckGeneration(const plan::Plan& plan, const Model& model) {
  if (!plan.generates()) return absl::OkStatus();
  for (const kernels::AttentionSpec& heads : HeadsSpecs(model, plan.architecture)) {
    const kernels::CachedAttentionSpec spec = CachedSpec(heads, plan.generation.length);
    if (kernels::CachedAttentionSupports(spec)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "plan: attention over ", spec.length, " cached positions with head_dim ", heads.head_dim,
        "; wanted head_dim of at most 256; without eval.sample_prompts the model can be trained"));
  }
  return CheckRules({
      {kernels::ArgmaxSupports({.dtype = model.compute_dtype, .columns = plan.model.vocab_size}),
       absl::StrCat("the first maximum of ", plan.model.vocab_size, " logits"), "fewer"},
  });
}

// Unimplemented names what this build or this GPU has not.
absl::Status CheckFp8Attention(const plan::Plan& plan, const Model& model) {
  for (const kernels::AttentionSpec& spec : HeadsSpecs(model, plan.architecture)) {
    if (kernels::AttentionSupports(spec) || !kernels::AttentionSupports(InComputeDtype(spec))) {
      continue;
    }
    return absl::UnimplementedError(absl::StrCat(
        "precision.fp8.attention is fp8, which this GPU or build has not for heads of ",
        spec.head_dim, " and values of ", kernels::ValueDim(spec),
        "; it takes compute capability 9.0 and widths that are multiples of 16 up to 128; set "
        "precision.fp8.attention: bfloat16"));
  }
  return absl::OkStatus();
}

struct GateSupported {
  bool operator()(const kernels::SwigluSpec& spec) const { return kernels::SwigluSupports(spec); }
  bool operator()(const kernels::GegluSpec& spec) const { return kernels::GegluSupports(spec); }
  bool operator()(const kernels::ClampedSwigluSpec& spec) const {
    return kernels::ClampedSwigluSupports(spec);
  }
};

// Whether this build has the kernels of an op, and what to call it where it has not.
struct OpCheck {
  const Model& model;
  const Block& block;

  Rule operator()(const model::NormOp& op) const { return CheckNorm(op, block.norms.at(op.id)); }
  Rule operator()(const model::LinearOp& op) const {
    const Linear& linear = block.linears.at(op.id);
    if (linear.adapters.members.empty()) return {true, "", ""};
    const kernels::LoraLinearSpec spec = LoraSpec(model, linear, true);
    return {kernels::LoraLinearSupports(spec) && (!model.dora || kernels::DoraSupports(spec)),
            absl::StrCat("a LoRA linear of ", spec.in_features, " inputs, rank ", spec.rank,
                         ", dropout ", spec.dropout_rate, model.dora ? ", DoRA" : ""),
            "another"};
  }
  Rule operator()(const model::QkNormOp& op) const {
    return {kernels::QkNormSupports(QkSpec(model, op)),
            absl::StrCat("QK-norm over ", op.heads.width), "another"};
  }
  Rule operator()(const model::RotateOp& op) const {
    const kernels::RopeSpec spec = RotarySpec(model, op);
    return {kernels::RopeSupports(spec) &&
                kernels::RotatedLinearSupports({spec, model.config.hidden_size}),
            absl::StrCat("RoPE over ", op.heads.width), "another"};
  }
  Rule operator()(const model::AttentionOp& op) const {
    return {kernels::AttentionSupports(HeadsSpec(model, op)),
            absl::StrCat("attention with ", op.heads.queries, " heads, ", op.heads.keys,
                         " kv heads, head_dim ", op.heads.width, ", values of ",
                         op.heads.value_width(), ", window ", op.window, ", softcap ", op.softcap),
            "another"};
  }
  Rule operator()(const model::GateOp& op) const {
    const bool holds = std::visit(GateSupported{}, GateOf(model, op));
    const bool fuses = op.activation != model::Activation::kClampedSilu;
    return {holds && (!fuses || kernels::GatedLinearSupports(
                                    GatedLinearOf(model, op, model.config.hidden_size))),
            absl::StrCat("the gate over ", op.width), "another"};
  }
  Rule operator()(const model::ActivationOp& op) const {
    return {kernels::GeluSupports(GeluOf(model, op)),
            absl::StrCat("the activation over ", op.width), "another"};
  }
  Rule operator()(const model::AddOp& /*op*/) const { return {true, "", ""}; }
  Rule operator()(const model::RouteOp& op) const {
    const kernels::RouteSpec spec = RouterSpec(op);
    return {kernels::RouteSupports(spec) && kernels::ExpertUseSupports(UseSpec(spec)) &&
                kernels::SortByExpertSupports({.experts = op.experts, .chosen = op.chosen}) &&
                kernels::RouterLossSupports(model.router_spec) &&
                model.router_spec.experts == op.experts && model.router_spec.chosen == op.chosen,
            absl::StrCat("a router of ", op.experts, " experts, ", op.chosen, " a token"),
            "another"};
  }
  Rule operator()(const model::DispatchOp& op) const {
    return {kernels::DispatchSupports(
                {.dtype = model.compute_dtype, .hidden = op.width, .chosen = op.routed.chosen}),
            absl::StrCat("rows of experts ", op.width, " wide"), "another"};
  }
  Rule operator()(const model::GroupedLinearOp& op) const {
    const ExpertLinear& experts = block.experts.at(op.id);
    const bool adapter = experts.a.value == nullptr ||
                         kernels::GroupedLoraSupports(ExpertAdapterSpec(model, op, experts));
    return {adapter && kernels::GroupedLinearSupports(ExpertsSpec(model, op)),
            absl::StrCat("linears of ", op.experts, " experts, ", op.in_features, " to ",
                         op.out_features, experts.a.value == nullptr ? "" : ", adapted"),
            "another"};
  }
  Rule operator()(const model::CombineOp& op) const {
    return {kernels::CombineSupports(
                {.dtype = model.compute_dtype, .hidden = op.width, .chosen = op.routed.chosen}),
            absl::StrCat("sums of experts ", op.width, " wide"), "another"};
  }

  Rule operator()(const model::SigmoidGateOp& op) const {
    return {kernels::SigmoidGateSupports(SigmoidGateOf(model, op)),
            absl::StrCat("a gate of rows ", op.width, " wide"), "another"};
  }

  Rule operator()(const model::SplitOp& op) const {
    return {kernels::SplitRowsSupports(SplitSpec(model, op)),
            absl::StrCat("rows of ", op.first_width, " and ", op.second_width, " columns"),
            "another"};
  }
  Rule operator()(const model::LatentHeadsOp& op) const {
    return {kernels::LatentHeadsSupports(LatentSpec(model, op)),
            absl::StrCat("latent attention with ", op.heads.queries, " heads of ", op.nope(), " + ",
                         op.rotated, " and values of ", op.heads.value),
            "another"};
  }

  Rule CheckNorm(const model::NormOp& op, const Norm& norm) const {
    const bool holds = op.is_layer_norm() ? kernels::LayerNormSupports(LayerSpec(model, op, norm))
                                          : kernels::RmsNormSupports(RmsSpec(model, op));
    return {holds, absl::StrCat("a norm over ", op.width), "another"};
  }
};

absl::Status CheckRule(const Model& model, const Rule& rule) {
  if (rule.holds) return absl::OkStatus();
  const bool bfloat16 = model.compute_dtype == kernels::DType::kBFloat16;
  return absl::InvalidArgumentError(absl::StrCat("this build has no kernel for ", rule.field,
                                                 " of ", bfloat16 ? "bfloat16" : "float32"));
}

// Every op of every block.
absl::Status CheckBlocks(const plan::Plan& plan, const Model& model) {
  for (size_t layer = 0; layer < model.blocks.size(); ++layer) {
    const OpCheck check{model, model.blocks[layer]};
    for (const model::PlainOp& op : plan.architecture.blocks[layer].ops) {
      RETURN_IF_ERROR(CheckRule(model, std::visit(check, op)));
    }
  }
  const OpCheck outside{model, model.blocks.front()};
  return CheckRule(model, outside.CheckNorm(plan.architecture.outside.norm, model.final_norm));
}

}  // namespace

namespace {

absl::Status CheckCutHead(const plan::Plan& plan, const Model& model) {
  const kernels::CutCrossEntropySpec spec = CutSpec(model, LossSpec(plan));
  if (!kernels::CutCrossEntropySupports(spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat("this build has no cut head of ", ToString(plan.compute_dtype), " over ",
                     spec.vocab, " classes with logit_scale ", spec.logit_scale));
  }
  const int64_t rows = plan::BatchExtents(plan).target_rows;
  const int64_t least = kernels::CutCrossEntropyWorkspaceBytes(spec, rows);
  if (plan.lm_head_panel_bytes >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("lm_head_panel_bytes is ",
                                                 plan.lm_head_panel_bytes, ", a cut head of ", rows,
                                                 " rows needs ", least));
}

}  // namespace

absl::Status CheckOps(const plan::Plan& plan, const Model& model) {
  const model::ModelConfig& c = plan.model;
  RETURN_IF_ERROR(CheckGeneration(plan, model));
  RETURN_IF_ERROR(CheckFp8(plan, model));
  RETURN_IF_ERROR(CheckFp8Experts(plan, model));
  RETURN_IF_ERROR(CheckFp8Attention(plan, model));
  const bool adapted_head = !model.adapted_head.adapters.members.empty();
  if (adapted_head && !kernels::LoraLinearSupports(HeadLoraSpec(model, true))) {
    return absl::InvalidArgumentError(absl::StrCat("this build has no LoRA head of ", c.hidden_size,
                                                   " inputs, rank ", model.lora_rank, ", ",
                                                   c.vocab_size, " outputs"));
  }
  RETURN_IF_ERROR(CheckBlocks(plan, model));
  const kernels::DType dtype = model.compute_dtype;
  const std::string name = absl::StrCat(" of ", ToString(plan.compute_dtype));
  if (c.labels > 0) {
    return CheckRules({{kernels::ScoreHeadSupports(ScoreSpec(model)) &&
                            kernels::ScoreLossSupports(plan::ScoreSpecOf(plan.document_loss)),
                        absl::StrCat("a head", name, " of ", c.labels, " scores"), "another"}});
  }
  if (plan.lm_head_panel_bytes > 0) RETURN_IF_ERROR(CheckCutHead(plan, model));
  return CheckRules({
      {kernels::GemmSupports({dtype, dtype}), absl::StrCat("the GEMM", name), "another build"},
      {kernels::CrossEntropySupports(LossSpec(plan)),
       absl::StrCat("cross-entropy", name, " over ", c.vocab_size, " classes"), "another"},
      {kernels::TargetHitsSupports({.dtype = LossSpec(plan).dtype, .vocab = c.vocab_size}),
       absl::StrCat("token accuracy", name, " over ", c.vocab_size, " classes"), "another"},
  });
}

namespace {

// An algorithm may take what the plan allows, and no more than the scratch that it has set aside.
int64_t AttentionBudget(const plan::Plan& plan) {
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.name == plan::buffers::kScratch)
      return std::min(plan.attention_workspace_bytes, buffer.bytes);
  }
  return plan.attention_workspace_bytes;
}

}  // namespace

std::vector<kernels::AttentionExtents> AttentionShapes(const plan::Plan& plan) {
  const plan::BatchExtents n(plan);
  kernels::AttentionExtents packed{.tokens = n.tokens,
                                   .documents = n.documents,
                                   .max_length = plan.sequence_len,
                                   .dense = false,
                                   .workspace_budget = AttentionBudget(plan)};
  std::vector<kernels::AttentionExtents> shapes = {packed};
  if (plan.device != DeviceKind::kCuda) return shapes;
  packed.documents = plan.micro_batch_bins;
  packed.dense = true;
  shapes.push_back(packed);
  return shapes;
}

namespace {

// Bytes that an op of a block needs beside its rows, for so many tokens.
struct OpScratch {
  const plan::Plan& plan;
  const Model& model;
  const Block& block;
  const int64_t tokens;
  const int64_t layer;

  int64_t operator()(const model::NormOp& op) const { return OfNorm(op, block.norms.at(op.id)); }
  int64_t operator()(const model::LinearOp& op) const {
    const Linear& linear = block.linears.at(op.id);
    int64_t bytes = plan::InFp8(plan, op, layer)
                        ? Fp8ScratchBytes(model, linear, plan::FormatsOf(plan.fp8), tokens)
                        : 0;
    if (linear.bias.gradient != nullptr) {
      bytes = std::max(bytes,
                       kernels::BiasBackwardWorkspaceBytes(
                           {model.compute_dtype, linear.bias.gradient_dtype}, tokens, linear.out));
    }
    if (linear.adapters.members.empty()) return bytes;
    const kernels::LoraLinearSpec spec = LoraSpec(model, linear, true);
    bytes = std::max({bytes, kernels::LoraLinearForwardWorkspaceBytes(spec, tokens),
                      kernels::LoraLinearBackwardWorkspaceBytes(spec, tokens)});
    if (!model.dora) return bytes;
    return std::max({bytes, kernels::DoraFactorsWorkspaceBytes(spec),
                     kernels::DoraBackwardWorkspaceBytes(spec, tokens)});
  }
  int64_t operator()(const model::QkNormOp& op) const {
    return kernels::QkNormBackwardWorkspaceBytes(QkSpec(model, op), tokens);
  }
  int64_t operator()(const model::AttentionOp& op) const {
    int64_t bytes = 0;
    const kernels::AttentionSpec spec = HeadsSpec(model, op);
    for (const kernels::AttentionExtents& extents : AttentionShapes(plan)) {
      bytes = std::max({bytes, kernels::AttentionForwardWorkspaceBytes(spec, extents),
                        kernels::AttentionBackwardWorkspaceBytes(spec, extents)});
    }
    if (!plan.generates()) return bytes;
    const kernels::AttentionSpec answers = InComputeDtype(spec);
    for (const kernels::AttentionExtents& extents : AttentionShapes(plan)) {
      bytes = std::max(bytes, kernels::AttentionForwardWorkspaceBytes(answers, extents));
    }
    return std::max(
        bytes, kernels::CachedAttentionWorkspaceBytes(CachedSpec(answers, plan.generation.length),
                                                      plan.generation.sequences));
  }
  int64_t operator()(const model::RouteOp& op) const {
    const Tensor& bias = block.routers.at(op.id).bias;
    int64_t bytes = std::max(
        kernels::SortByExpertWorkspaceBytes({.experts = op.experts, .chosen = op.chosen}, tokens),
        kernels::RouterLossSumsWorkspaceBytes(model.router_spec, tokens));
    bytes = std::max(bytes, kernels::ExpertUseWorkspaceBytes(UseSpec(RouterSpec(op)), tokens));
    if (bias.gradient == nullptr) return bytes;
    return std::max(bytes,
                    kernels::BiasBackwardWorkspaceBytes(RouterBiasSpec(bias), tokens, op.experts));
  }
  int64_t operator()(const model::GroupedLinearOp& op) const {
    const ExpertLinear& experts = block.experts.at(op.id);
    const int64_t bytes = plan::InFp8(plan, op, layer)
                              ? Fp8ExpertsScratchBytes(model, op, plan::FormatsOf(plan.fp8), tokens)
                              : 0;
    if (experts.a.value == nullptr) return bytes;
    const kernels::GroupedLoraSpec spec = ExpertAdapterSpec(model, op, experts);
    return std::max(bytes,
                    kernels::GroupedLoraBackwardWorkspaceBytes(spec, op.routed.chosen * tokens));
  }
  template <typename Other>
  int64_t operator()(const Other& /*op*/) const {
    return 0;
  }

  int64_t OfNorm(const model::NormOp& op, const Norm& norm) const {
    return op.is_layer_norm()
               ? kernels::LayerNormBackwardWorkspaceBytes(LayerSpec(model, op, norm), tokens)
               : kernels::RmsNormBackwardWorkspaceBytes(RmsSpec(model, op), tokens);
  }
};

}  // namespace

int64_t ScratchBytes(const plan::Plan& plan, const Model& model) {
  const plan::BatchExtents n(plan);
  int64_t bytes = std::max<int64_t>(64, kernels::GemmWorkspaceBytes());
  const auto need = [&bytes](int64_t more) { bytes = std::max(bytes, more); };
  for (size_t layer = 0; layer < model.blocks.size(); ++layer) {
    const OpScratch scratch{plan, model, model.blocks[layer], n.tokens,
                            static_cast<int64_t>(layer)};
    for (const model::PlainOp& op : plan.architecture.blocks[layer].ops) {
      need(std::visit(scratch, op));
    }
  }
  const OpScratch outside{plan, model, model.blocks.front(), n.tokens, 0};
  need(outside.OfNorm(plan.architecture.outside.norm, model.final_norm));
  if (!model.adapted_head.adapters.members.empty()) {
    const kernels::LoraLinearSpec spec = HeadLoraSpec(model, true);
    need(kernels::LoraLinearForwardWorkspaceBytes(spec, plan.lm_head_chunk_tokens));
    need(kernels::LoraLinearBackwardWorkspaceBytes(spec, plan.lm_head_chunk_tokens));
  }
  if (model.embedding_adapter.a.value != nullptr) {
    need(kernels::EmbeddingBackwardWorkspaceBytes(AdapterEmbeddingSpec(model), n.tokens));
  }
  need(plan::QuantizeScratchBytes(plan));
  if (model.embedding.gradient != nullptr) {
    need(kernels::EmbeddingBackwardWorkspaceBytes(TokenEmbeddingSpec(model),
                                                  std::max(n.tokens, n.embedding_rows)));
  }
  return bytes;
}

}  // namespace coxswain::engine
