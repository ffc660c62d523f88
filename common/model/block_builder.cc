#include "common/model/block_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

Activation ActivationOf(const ModelConfig& config) {
  if (config.activation == "gelu_tanh") return Activation::kGeluTanh;
  return config.activation == "gelu" ? Activation::kGelu : Activation::kSilu;
}

// Queries of all kv heads, then their keys, then their values.
std::vector<RowRange> RowsByKvHead(const ModelConfig& c) {
  const int64_t queries = c.num_heads / c.num_kv_heads * c.head_dim;
  const int64_t stride = queries + 2 * c.head_dim;
  std::vector<RowRange> ranges;
  for (const auto& [offset, count] : {std::pair{int64_t{0}, queries},
                                      {queries, c.head_dim},
                                      {queries + c.head_dim, c.head_dim}}) {
    for (int64_t head = 0; head < c.num_kv_heads; ++head) {
      ranges.push_back({head * stride + offset, count});
    }
  }
  return ranges;
}

Row BranchRow(int64_t layer, const char* name, bool kept) {
  return kept ? Row{layer, name} : kBranch;
}

}  // namespace

int32_t BlockBuilder::AddTensor(TensorSpec tensor) {
  const auto id = static_cast<int32_t>(block_.tensors.size());
  if (tensor.packed == kNoTensor) tensor.packed = id;
  block_.tensors.push_back(std::move(tensor));
  return id;
}

Heads BlockBuilder::HeadsOf() const {
  return {.queries = config_.num_heads, .keys = config_.num_kv_heads, .width = config_.head_dim};
}

void BlockBuilder::AddNorm(const NormNames& names, const Row& in, const Row& out) {
  ++norms_;
  NormOp norm{.in = in, .out = out};
  norm.rstd = Own(absl::StrCat("rstd", norms_));
  if (names.layer_norm) norm.mean = Own(absl::StrCat("mean", norms_));
  norm.width = config_.hidden_size;
  norm.eps = config_.rms_norm_eps;
  norm.from_one = config_.norm_weights_from_one;
  norm.weight = AddTensor(
      {.name = names.module + ".weight", .kind = Kind::kNorm, .rows = config_.hidden_size});
  if (names.bias) {
    norm.bias = AddTensor(
        {.name = names.module + ".bias", .kind = Kind::kNormBias, .rows = config_.hidden_size});
  }
  Append(std::move(norm));
}

Row BlockBuilder::Norm(const NormNames& names, const Row& in) {
  const Row out = Own(absl::StrCat("ln", norms_ + 1));
  AddNorm(names, in, out);
  return out;
}

Row BlockBuilder::BranchNorm(const NormNames& names, const Row& in) {
  AddNorm(names, in, kBranch);
  return kBranch;
}

size_t BlockBuilder::AddLinear(const Linear& linear) {
  LinearOp op{.name = linear.name, .site = linears_++, .in = linear.in, .out = linear.out};
  op.in_features = linear.in_features;
  op.adds = linear.adds;
  op.feeds_activation = linear.feeds_activation;
  int32_t first = kNoTensor;
  for (const Linear::Member& member : linear.members) {
    const int32_t id =
        AddTensor({.name = member.module + ".weight",
                   .kind = Kind::kLinear,
                   .rows = member.rows,
                   .cols = linear.in_features,
                   .reach = member.reach == Reach::kKeyBias ? Reach::kScores : member.reach,
                   .packed = first,
                   .file_rows = linear.file_rows});
    if (first == kNoTensor) first = id;
    op.members.push_back({.weight = id, .rows = member.rows});
    op.out_features += member.rows;
  }
  Append(std::move(op));
  return block_.ops.size() - 1;
}

void BlockBuilder::AddBiases(const Linear& linear, size_t op) {
  int32_t first = kNoTensor;
  for (size_t i = 0; i < linear.members.size(); ++i) {
    const Linear::Member& member = linear.members[i];
    if (!member.bias) continue;
    const int32_t id = AddTensor({.name = member.module + ".bias",
                                  .kind = Kind::kBias,
                                  .rows = member.rows,
                                  .reach = member.reach,
                                  .packed = first,
                                  .file_rows = linear.file_rows});
    if (first == kNoTensor) first = id;
    std::get<LinearOp>(block_.ops[op]).members[i].bias = id;
  }
}

void BlockBuilder::AddQkNorm(QkNorm kind, const Row& qkv) {
  if (kind == QkNorm::kNone) return;
  QkNormOp norm{.qkv = qkv, .raw = Own("qk_raw"), .rstd = Own("qk_rstd")};
  norm.whole = kind == QkNorm::kWhole;
  norm.heads = HeadsOf();
  norm.eps = config_.rms_norm_eps;
  norm.from_one = config_.norm_weights_from_one;
  const auto weight = [&](const char* name, int64_t whole) {
    return AddTensor({.name = name,
                      .kind = Kind::kNorm,
                      .rows = norm.whole ? whole : norm.heads.width,
                      .reach = Reach::kScores});
  };
  norm.q_weight = weight("self_attn.q_norm.weight", norm.heads.query_width());
  norm.k_weight = weight("self_attn.k_norm.weight", norm.heads.key_width());
  Append(std::move(norm));
}

BlockBuilder::Linear BlockBuilder::QkvLinear(const AttentionNames& names, const Row& in) const {
  const int64_t query = HeadsOf().query_width(), key = HeadsOf().key_width();
  const bool bias = names.qkv_bias;
  Linear linear{.name = "qkv", .in = in, .out = Own("qkv"), .in_features = config_.hidden_size};
  if (names.qkv.empty()) {
    linear.members = {{names.q, query, bias, Reach::kScores},
                      {names.k, key, bias, Reach::kKeyBias},
                      {names.v, key, bias, Reach::kDirect}};
  } else {
    linear.members = {{names.qkv, query + 2 * key, bias, Reach::kDirect}};
    if (names.by_kv_head) linear.file_rows = RowsByKvHead(config_);
  }
  return linear;
}

Row BlockBuilder::Attention(const AttentionNames& names, const Row& in, Branch branch) {
  const Linear qkv = QkvLinear(names, in);
  AddBiases(qkv, AddLinear(qkv));
  AddQkNorm(names.qk_norm, qkv.out);
  if (config_.rotates(layer_)) {
    Append(RotateOp{.qkv = qkv.out,
                    .rope = config_.rope_of(layer_),
                    .heads = HeadsOf(),
                    .rotated = config_.rope.rotated,
                    .interleaved = config_.rope.interleaved});
  }
  AttentionOp heads{.qkv = qkv.out,
                    .out = Own("att"),
                    .lse = Own("lse"),
                    .heads = HeadsOf(),
                    .window = config_.layer_windows[static_cast<size_t>(layer_)],
                    .scale = config_.score_scale(),
                    .softcap = config_.attention_softcap};
  if (!names.sinks.empty()) {
    heads.sinks = AddTensor({.name = names.sinks, .kind = Kind::kSinks, .rows = config_.num_heads});
  }
  const AttentionOp& attention = Append(std::move(heads));
  const Linear output{.name = "o",
                      .in = attention.out,
                      .out = BranchRow(layer_, "o", branch.kept),
                      .in_features = HeadsOf().query_width(),
                      .members = {{names.o, config_.hidden_size, names.output_bias}},
                      .adds = branch.adds};
  AddBiases(output, AddLinear(output));
  return output.out;
}

int64_t BlockBuilder::WidthOf(const MlpNames& names) const {
  return names.width > 0 ? names.width : config_.intermediate_size;
}

BlockBuilder::Linear BlockBuilder::GateUpLinear(const MlpNames& names, const Row& in) const {
  const int64_t inner = WidthOf(names);
  Linear linear{.name = "gate_up",
                .in = in,
                .out = Own("gate_up"),
                .in_features = config_.hidden_size,
                .feeds_activation = true};
  if (names.gate_up.empty()) {
    linear.members = {{names.gate, inner, names.bias}, {names.up, inner, names.bias}};
  } else {
    linear.members = {{names.gate_up, 2 * inner, names.bias}};
  }
  return linear;
}

BlockBuilder::Linear BlockBuilder::DownLinear(const MlpNames& names, const Row& in,
                                              Branch branch) const {
  return {.name = "down",
          .in = in,
          .out = BranchRow(layer_, "down", branch.kept),
          .in_features = WidthOf(names),
          .members = {{names.down, config_.hidden_size, names.bias}},
          .adds = branch.adds};
}

Row BlockBuilder::GatedMlp(const MlpNames& names, const Row& in, Branch branch) {
  const Linear gate_up = GateUpLinear(names, in);
  const size_t gate_up_op = AddLinear(gate_up);
  const Row product = Own("swiglu");
  Append(GateOp{.in = gate_up.out,
                .out = product,
                .width = WidthOf(names),
                .activation = ActivationOf(config_)});
  const Linear down = DownLinear(names, product, branch);
  const size_t down_op = AddLinear(down);
  AddBiases(gate_up, gate_up_op);
  AddBiases(down, down_op);
  return down.out;
}

Row BlockBuilder::PlainMlp(const MlpNames& names, const Row& in, Branch branch) {
  const Linear up{.name = "gate_up",
                  .in = in,
                  .out = Own("up"),
                  .in_features = config_.hidden_size,
                  .members = {{names.up, WidthOf(names), names.bias}},
                  .feeds_activation = true};
  const size_t up_op = AddLinear(up);
  const Row active = Own("active");
  Append(ActivationOp{
      .in = up.out, .out = active, .width = WidthOf(names), .activation = ActivationOf(config_)});
  const Linear down = DownLinear(names, active, branch);
  const size_t down_op = AddLinear(down);
  AddBiases(up, up_op);
  AddBiases(down, down_op);
  return down.out;
}

Row BlockBuilder::AddMiddle(const Row& branch) {
  const Row middle = Own("residual_mid");
  Append(AddOp{.stream = Input(), .branch = branch, .out = middle, .width = config_.hidden_size});
  return middle;
}

Block BlockBuilder::Finish(const Row& stream, const Row& branch) {
  Append(AddOp{.stream = stream,
               .branch = branch,
               .out = BlockOutput(config_, layer_),
               .width = config_.hidden_size});
  return std::move(block_);
}

AttentionNames UsualAttention(const ModelConfig& config) {
  return {.qk_norm = config.qk_norm ? QkNorm::kHeads : QkNorm::kNone,
          .qkv_bias = config.qkv_bias,
          .output_bias = config.output_bias};
}

Block PreNormBlock(const ModelConfig& config, int64_t layer, const AttentionNames& attention,
                   const MlpNames& mlp) {
  BlockBuilder block(config, layer);
  const Row normed = block.Norm({"input_layernorm"}, block.Input());
  const Row middle = block.AddMiddle(block.Attention(attention, normed, {}));
  const Row again = block.Norm({"post_attention_layernorm"}, middle);
  return block.Finish(middle, block.GatedMlp(mlp, again, {}));
}

Block PreNormBlock(const ModelConfig& config, int64_t layer) {
  return PreNormBlock(config, layer, UsualAttention(config), {.bias = config.mlp_bias});
}

Block ExpertsBlock(const ModelConfig& config, int64_t layer, const AttentionNames& attention,
                   const ExpertNames& experts) {
  if (!config.has_experts(layer)) {
    return PreNormBlock(config, layer, attention, {.bias = config.mlp_bias});
  }
  BlockBuilder block(config, layer);
  const Row normed = block.Norm({"input_layernorm"}, block.Input());
  const Row middle = block.AddMiddle(block.Attention(attention, normed, {}));
  const Row again = block.Norm({"post_attention_layernorm"}, middle);
  return block.Finish(middle, block.Experts(experts, again));
}

Block LatentExpertsBlock(const ModelConfig& config, int64_t layer, const LatentNames& attention,
                         const ExpertNames& experts) {
  BlockBuilder block(config, layer);
  const Row normed = block.Norm({"input_layernorm"}, block.Input());
  const Row middle = block.AddMiddle(block.Attention(attention, normed));
  const Row again = block.Norm({"post_attention_layernorm"}, middle);
  if (!config.has_experts(layer)) return block.Finish(middle, block.GatedMlp({}, again, {}));
  return block.Finish(middle, block.Experts(experts, again));
}

Block SandwichBlock(const ModelConfig& config, int64_t layer, const SandwichNames& norms,
                    const AttentionNames& attention, const MlpNames& mlp) {
  BlockBuilder block(config, layer);
  const Row normed = block.Norm({norms.before_attention}, block.Input());
  const Row attended = block.Attention(attention, normed, {.kept = true});
  const Row middle = block.AddMiddle(block.BranchNorm({norms.behind_attention}, attended));
  const Row again = block.Norm({norms.before_mlp}, middle);
  const Row product = block.GatedMlp(mlp, again, {.kept = true});
  return block.Finish(middle, block.BranchNorm({norms.behind_mlp}, product));
}

Outside UsualOutside(const ModelConfig& config) {
  return {.layers = "model.layers.",
          .embedding = {.name = "model.embed_tokens.weight",
                        .kind = Kind::kEmbedding,
                        .rows = config.vocab_size,
                        .cols = config.hidden_size},
          .head = {.name = "lm_head.weight",
                   .kind = Kind::kHead,
                   .rows = config.vocab_size,
                   .cols = config.hidden_size},
          .final_norm = {{.name = "model.norm.weight",
                          .kind = Kind::kNorm,
                          .rows = config.hidden_size}},
          .norm = {.in = kFinalResidual,
                   .out = kFinalNormed,
                   .rstd = {kSharedByLayers, "final.rstd"},
                   .weight = kFinalNormTensor,
                   .width = config.hidden_size,
                   .eps = config.rms_norm_eps,
                   .from_one = config.norm_weights_from_one},
          .tied = config.tie_embeddings};
}

Outside LayerNormOutside(const ModelConfig& config, bool bias) {
  Outside outside = UsualOutside(config);
  outside.norm.mean = {kSharedByLayers, "final.mean"};
  if (!bias) return outside;
  outside.norm.bias = kFinalNormBiasTensor;
  outside.final_norm.push_back(
      {.name = "model.norm.bias", .kind = Kind::kNormBias, .rows = config.hidden_size});
  return outside;
}

}  // namespace coxswain::model
