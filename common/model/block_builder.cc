#include "common/model/block_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::model {
namespace {

int64_t QueryWidth(const ModelConfig& c) { return c.num_heads * c.head_dim; }
int64_t KeyWidth(const ModelConfig& c) { return c.num_kv_heads * c.head_dim; }

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

NormOp BlockBuilder::NormOf(const NormNames& names, const Row& in, Row out) {
  block_.tensors.push_back({names.weight, names.module + ".weight", config_.hidden_size});
  if (names.bias != Role::kNone) {
    block_.tensors.push_back({names.bias, names.module + ".bias", config_.hidden_size});
  }
  NormOp norm{.in = in, .out = std::move(out), .weight = names.weight, .bias = names.bias};
  norm.rstd = Own(absl::StrCat("rstd", norms_));
  if (names.layer_norm) norm.mean = Own(absl::StrCat("mean", norms_));
  return norm;
}

Row BlockBuilder::Norm(const NormNames& names, const Row& in) {
  ++norms_;
  const Row out = Own(absl::StrCat("ln", norms_));
  block_.ops.emplace_back(NormOf(names, in, out));
  return out;
}

Row BlockBuilder::BranchNorm(const NormNames& names, const Row& in) {
  ++norms_;
  block_.ops.emplace_back(NormOf(names, in, kBranch));
  return kBranch;
}

LinearOp BlockBuilder::AddWeights(const Linear& linear) {
  LinearOp op{.pack = linear.pack, .in = linear.in, .out = linear.out};
  op.in_features = linear.in_features;
  op.members = linear.members;
  op.adds = linear.adds;
  for (size_t i = 0; i < linear.members.size(); ++i) {
    const LinearMember& member = linear.members[i];
    block_.tensors.push_back({member.weight, linear.modules[i] + ".weight", member.rows,
                              linear.in_features, linear.file_rows});
    op.out_features += member.rows;
  }
  return op;
}

void BlockBuilder::AddBiases(const Linear& linear) {
  for (size_t i = 0; i < linear.members.size(); ++i) {
    const LinearMember& member = linear.members[i];
    if (member.bias == Role::kNone) continue;
    block_.tensors.push_back(
        {member.bias, linear.modules[i] + ".bias", member.rows, 1, linear.file_rows});
  }
}

void BlockBuilder::AddQkNorm(QkNorm kind, const Row& qkv) {
  if (kind == QkNorm::kNone) return;
  const bool whole = kind == QkNorm::kWhole;
  block_.tensors.push_back(
      {Role::kQNorm, "self_attn.q_norm.weight", whole ? QueryWidth(config_) : config_.head_dim});
  block_.tensors.push_back(
      {Role::kKNorm, "self_attn.k_norm.weight", whole ? KeyWidth(config_) : config_.head_dim});
  block_.ops.emplace_back(
      QkNormOp{.qkv = qkv, .raw = Own("qk_raw"), .rstd = Own("qk_rstd"), .whole = whole});
}

BlockBuilder::Linear BlockBuilder::QkvLinear(const AttentionNames& names, const Row& in) const {
  const int64_t query = QueryWidth(config_), key = KeyWidth(config_);
  const auto bias = [&names](Role role) { return names.qkv_bias ? role : Role::kNone; };
  Linear linear{
      .pack = Pack::kQkv, .in = in, .out = Own("qkv"), .in_features = config_.hidden_size};
  if (names.qkv.empty()) {
    linear.modules = {names.q, names.k, names.v};
    linear.members = {{Role::kQ, bias(Role::kQBias), query},
                      {Role::kK, bias(Role::kKBias), key},
                      {Role::kV, bias(Role::kVBias), key}};
  } else {
    linear.modules = {names.qkv};
    linear.members = {{Role::kQkv, bias(Role::kQkvBias), query + 2 * key}};
    if (names.by_kv_head) linear.file_rows = RowsByKvHead(config_);
  }
  return linear;
}

Row BlockBuilder::Attention(const AttentionNames& names, const Row& in, Branch branch) {
  const Linear qkv = QkvLinear(names, in);
  block_.ops.emplace_back(AddWeights(qkv));
  AddBiases(qkv);
  AddQkNorm(names.qk_norm, qkv.out);
  if (config_.rotates(layer_)) {
    block_.ops.emplace_back(RotateOp{.qkv = qkv.out, .rope = config_.rope_of(layer_)});
  }
  const AttentionOp attention{.qkv = qkv.out,
                              .out = Own("att"),
                              .lse = Own("lse"),
                              .window = config_.layer_windows[static_cast<size_t>(layer_)]};
  block_.ops.emplace_back(attention);
  const Linear output{
      .pack = Pack::kOutput,
      .in = attention.out,
      .out = BranchRow(layer_, "o", branch.kept),
      .in_features = QueryWidth(config_),
      .modules = {names.o},
      .members = {{Role::kO, names.output_bias ? Role::kOBias : Role::kNone, config_.hidden_size}},
      .adds = branch.adds};
  block_.ops.emplace_back(AddWeights(output));
  AddBiases(output);
  return output.out;
}

BlockBuilder::Linear BlockBuilder::GateUpLinear(const MlpNames& names, const Row& in) const {
  const int64_t inner = config_.intermediate_size;
  const auto bias = [&names](Role role) { return names.bias ? role : Role::kNone; };
  Linear linear{
      .pack = Pack::kGateUp, .in = in, .out = Own("gate_up"), .in_features = config_.hidden_size};
  if (names.gate_up.empty()) {
    linear.modules = {names.gate, names.up};
    linear.members = {{Role::kGate, bias(Role::kGateBias), inner},
                      {Role::kUp, bias(Role::kUpBias), inner}};
  } else {
    linear.modules = {names.gate_up};
    linear.members = {{Role::kGateUp, bias(Role::kGateUpBias), 2 * inner}};
  }
  return linear;
}

Row BlockBuilder::Down(const MlpNames& names, const Row& in, Branch branch, Linear* down) const {
  *down = {
      .pack = Pack::kDown,
      .in = in,
      .out = BranchRow(layer_, "down", branch.kept),
      .in_features = config_.intermediate_size,
      .modules = {names.down},
      .members = {{Role::kDown, names.bias ? Role::kDownBias : Role::kNone, config_.hidden_size}},
      .adds = branch.adds};
  return down->out;
}

Row BlockBuilder::GatedMlp(const MlpNames& names, const Row& in, Branch branch) {
  const Linear gate_up = GateUpLinear(names, in);
  block_.ops.emplace_back(AddWeights(gate_up));
  const Row product = Own("swiglu");
  block_.ops.emplace_back(GateOp{.in = gate_up.out, .out = product});
  Linear down;
  Row out = Down(names, product, branch, &down);
  block_.ops.emplace_back(AddWeights(down));
  AddBiases(gate_up);
  AddBiases(down);
  return out;
}

Row BlockBuilder::PlainMlp(const MlpNames& names, const Row& in, Branch branch) {
  const Linear up{.pack = Pack::kGateUp,
                  .in = in,
                  .out = Own("up"),
                  .in_features = config_.hidden_size,
                  .modules = {names.up},
                  .members = {{Role::kUp, names.bias ? Role::kUpBias : Role::kNone,
                               config_.intermediate_size}}};
  block_.ops.emplace_back(AddWeights(up));
  const Row active = Own("active");
  block_.ops.emplace_back(ActivationOp{.in = up.out, .out = active});
  Linear down;
  Row out = Down(names, active, branch, &down);
  block_.ops.emplace_back(AddWeights(down));
  AddBiases(up);
  AddBiases(down);
  return out;
}

Row BlockBuilder::AddMiddle(const Row& branch) {
  const Row middle = Own("residual_mid");
  block_.ops.emplace_back(AddOp{.stream = Input(), .branch = branch, .out = middle});
  return middle;
}

Block BlockBuilder::Finish(const Row& stream, const Row& branch) {
  block_.ops.emplace_back(
      AddOp{.stream = stream, .branch = branch, .out = BlockOutput(config_, layer_)});
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
  const Row normed = block.Norm({"input_layernorm", Role::kInputNorm}, block.Input());
  const Row middle = block.AddMiddle(block.Attention(attention, normed, {}));
  const Row again = block.Norm({"post_attention_layernorm", Role::kPostAttentionNorm}, middle);
  return block.Finish(middle, block.GatedMlp(mlp, again, {}));
}

Block PreNormBlock(const ModelConfig& config, int64_t layer) {
  return PreNormBlock(config, layer, UsualAttention(config), {.bias = config.mlp_bias});
}

Block SandwichBlock(const ModelConfig& config, int64_t layer, const SandwichNames& norms,
                    const AttentionNames& attention, const MlpNames& mlp) {
  BlockBuilder block(config, layer);
  const Row normed = block.Norm({norms.before_attention, Role::kInputNorm}, block.Input());
  const Row attended = block.Attention(attention, normed, {.kept = true});
  const Row middle =
      block.AddMiddle(block.BranchNorm({norms.behind_attention, Role::kAttentionNorm}, attended));
  const Row again = block.Norm({norms.before_mlp, Role::kPostAttentionNorm}, middle);
  const Row product = block.GatedMlp(mlp, again, {.kept = true});
  return block.Finish(middle, block.BranchNorm({norms.behind_mlp, Role::kMlpNorm}, product));
}

Outside UsualOutside(const ModelConfig& config) {
  return {.layers = "model.layers.",
          .embedding = {Role::kEmbedding, "model.embed_tokens.weight", config.vocab_size,
                        config.hidden_size},
          .head = {Role::kLmHead, "lm_head.weight", config.vocab_size, config.hidden_size},
          .final_norm = {{Role::kFinalNorm, "model.norm.weight", config.hidden_size}},
          .norm = {.in = kFinalResidual,
                   .out = kFinalNormed,
                   .rstd = {kSharedByLayers, "final.rstd"},
                   .weight = Role::kFinalNorm}};
}

Outside LayerNormOutside(const ModelConfig& config, bool bias) {
  Outside outside = UsualOutside(config);
  outside.norm.mean = {kSharedByLayers, "final.mean"};
  if (!bias) return outside;
  outside.norm.bias = Role::kFinalNormBias;
  outside.final_norm.push_back({Role::kFinalNormBias, "model.norm.bias", config.hidden_size});
  return outside;
}

}  // namespace coxswain::model
