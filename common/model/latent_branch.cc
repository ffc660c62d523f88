// The part of a block that attends to keys and values made from a latent.
// Source: DeepSeek-V2 (arXiv 2405.04434), section 2.1; transformers modeling_deepseek_v3.
#include "common/model/block_builder.h"

namespace coxswain::model {
namespace {

// Rows that backward does not read: they lie where their gradients will
// (common/plan/buffers/gradient_rows.h).
Row Passing(const char* name) { return {kSharedByLayers, name}; }

}  // namespace

Row BlockBuilder::LatentNorm(const std::string& module, const Row& in, int64_t width, Reach reach,
                             double eps) {
  NormOp norm{.in = in, .out = Own(in.name + "_normed"), .rstd = Own(in.name + "_rstd")};
  norm.width = width;
  norm.eps = eps;
  norm.weight =
      AddTensor({.name = module + ".weight", .kind = Kind::kNorm, .rows = width, .reach = reach});
  return Append(std::move(norm)).out;
}

Row BlockBuilder::AddLinearWithBiases(const Linear& linear) {
  AddBiases(linear, AddLinear(linear));
  return linear.out;
}

Row BlockBuilder::LatentQueries(const LatentNames& names, const Row& in) {
  const int64_t rank = config_.latent.value().q_rank;
  Linear queries{.name = "q",
                 .in = in,
                 .out = Passing("heads.q"),
                 .in_features = config_.hidden_size,
                 .members = {{names.q, HeadsOf().query_width(), false, Reach::kScores}}};
  if (rank == 0) return AddLinearWithBiases(queries);
  const Row latent =
      AddLinearWithBiases({.name = "q_a",
                           .in = in,
                           .out = Own("q_a"),
                           .in_features = config_.hidden_size,
                           .members = {{names.q_a, rank, names.bias, Reach::kScores}}});
  queries.name = "q_b";
  queries.in = LatentNorm(names.q_norm, latent, rank, Reach::kScores, names.eps);
  queries.in_features = rank;
  queries.members[0].module = names.q_b;
  return AddLinearWithBiases(queries);
}

BlockBuilder::KeysAndValues BlockBuilder::LatentKeys(const LatentNames& names, const Row& in) {
  const auto& latent = config_.latent.value();
  const Row both =
      AddLinearWithBiases({.name = "kv_a",
                           .in = in,
                           .out = Passing("heads.kv_a"),
                           .in_features = config_.hidden_size,
                           .members = {{names.kv_a, latent.kv_rank + latent.rope, names.bias}}});
  const Row k_rope = Passing("heads.k_rope");
  const SplitOp& split = Append(SplitOp{.in = both,
                                        .first = Own("kv_latent"),
                                        .second = k_rope,
                                        .first_width = latent.kv_rank,
                                        .second_width = latent.rope});
  const Row normed =
      LatentNorm(names.kv_norm, Row(split.first), latent.kv_rank, Reach::kDirect, names.eps);
  const Row kv = AddLinearWithBiases(
      {.name = "kv_b",
       .in = normed,
       .out = Passing("heads.kv"),
       .in_features = latent.kv_rank,
       .members = {{names.kv_b, config_.num_heads * (latent.nope + latent.value)}}});
  return {kv, k_rope};
}

Row BlockBuilder::Attention(const LatentNames& names, const Row& in) {
  const Heads heads{.queries = config_.num_heads,
                    .keys = config_.num_heads,
                    .width = config_.head_dim,
                    .value = config_.latent.value().value};
  const Row q = LatentQueries(names, in);
  const KeysAndValues keys = LatentKeys(names, in);
  const Row qkv = Append(LatentHeadsOp{.q = q,
                                       .kv = keys.kv,
                                       .k_rope = keys.k_rope,
                                       .out = Own("qkv"),
                                       .rope = config_.rope_of(layer_),
                                       .heads = heads,
                                       .rotated = config_.latent->rope,
                                       .interleaved = config_.rope.interleaved})
                      .out;
  const Row attended =
      Append(AttentionOp{.qkv = qkv,
                         .out = Own("att"),
                         .lse = Own("lse"),
                         .heads = heads,
                         .window = config_.layer_windows[static_cast<size_t>(layer_)],
                         .scale = config_.score_scale(),
                         .softcap = config_.attention_softcap})
          .out;
  return AddLinearWithBiases({.name = "o",
                              .in = attended,
                              .out = kBranch,
                              .in_features = heads.out_width(),
                              .members = {{names.o, config_.hidden_size, names.bias}}});
}

}  // namespace coxswain::model
