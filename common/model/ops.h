// The closed vocabulary of what a block computes. An op holds all that distinguishes it: the rows
// that it reads and writes, the tensors that it takes by their numbers in the block, its widths and
// settings. Blocks of one model may differ.
#ifndef COXSWAIN_COMMON_MODEL_OPS_H_
#define COXSWAIN_COMMON_MODEL_OPS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/model/parameter.h"

namespace coxswain::model {

inline constexpr int64_t kSharedByLayers = -1;

// An activation [rows, width]: a row of the buffer table. kSharedByLayers: memory that all layers
// use in turn.
struct Row {
  int64_t layer = kSharedByLayers;
  std::string name;

  auto operator<=>(const Row&) const = default;
};

// out = norm(in). The statistics of the rows are kept for backward.
struct NormOp {
  int32_t id = 0;  // of every op: its place in the block
  Row in = {}, out = {}, rstd = {};
  Row mean = {};  // of a LayerNorm; without a name: RMSNorm
  int32_t weight = kNoTensor, bias = kNoTensor;
  int64_t width = 0;
  double eps = 0;
  bool from_one = false;  // multiplies by 1 + weight

  bool is_layer_norm() const { return !mean.name.empty(); }
  bool operator==(const NormOp&) const = default;
};

struct LinearMember {
  int32_t weight = kNoTensor, bias = kNoTensor;
  int64_t rows = 0;  // output features

  bool operator==(const LinearMember&) const = default;
};

// out = in W^T + bias, W the members below each other: one product.
struct LinearOp {
  int32_t id = 0;
  std::string name = {};  // "qkv": begins the names of rows that are this op's alone
  int32_t site = 0;       // number among the linears of the block: of its input's dropout
  Row in = {}, out = {};
  int64_t in_features = 0, out_features = 0;
  std::vector<LinearMember> members = {};
  bool adds = false;              // to what `out` holds
  bool feeds_activation = false;  // its output is the input of a gate or an activation

  bool operator==(const LinearOp&) const = default;
};

// The heads of attention, side by side in a row: q, then k, then v.
struct Heads {
  int64_t queries = 0, keys = 0;  // heads; keys divide queries
  int64_t width = 0;              // of a head of q and k, even
  int64_t value = 0;              // of a head of v and of what attention puts out; 0: width

  int64_t value_width() const { return value > 0 ? value : width; }
  int64_t query_width() const { return queries * width; }
  int64_t key_width() const { return keys * width; }
  int64_t out_width() const { return queries * value_width(); }
  int64_t row() const { return (queries + keys) * width + keys * value_width(); }
  bool operator==(const Heads&) const = default;
};

// q and k inside `qkv` are normalised in place: each head, or all heads together.
struct QkNormOp {
  int32_t id = 0;
  Row qkv = {};
  Row raw = {}, rstd = {};  // for backward: q and k before
  bool whole = false;
  int32_t q_weight = kNoTensor, k_weight = kNoTensor;
  Heads heads = {};
  double eps = 0;
  bool from_one = false;

  bool operator==(const QkNormOp&) const = default;
};

// Rotates q and k inside `qkv` in place. `rope`: index into ModelConfig::ropes().
struct RotateOp {
  int32_t id = 0;
  Row qkv = {};
  int64_t rope = 0;
  Heads heads = {};
  int64_t rotated = 0;       // leading elements of a head, even; 0: all
  bool interleaved = false;  // pairs are neighbours; else rotate_half

  bool operator==(const RotateOp&) const = default;
};

// The columns of `in` as two rows. Backward needs neither.
struct SplitOp {
  int32_t id = 0;
  Row in = {}, first = {}, second = {};
  int64_t first_width = 0, second_width = 0;

  bool operator==(const SplitOp&) const = default;
};

// The packed row of attention from those of latent attention (kernels/attention/heads.h):
// heads of q [tokens, queries width], keys without rotation and values in turns by head, and the
// one rotated part that all heads of k have. The last `rotated` elements of heads of q and k
// rotate. `rope`: index into ModelConfig::ropes(). heads: keys are as many as queries.
struct LatentHeadsOp {
  int32_t id = 0;
  Row q = {}, kv = {}, k_rope = {}, out = {};
  int64_t rope = 0;
  Heads heads = {};
  int64_t rotated = 0;       // even
  bool interleaved = false;  // pairs are neighbours; else rotate_half

  int64_t nope() const { return heads.width - rotated; }
  int64_t kv_width() const { return heads.keys * (nope() + heads.value); }
  bool operator==(const LatentHeadsOp&) const = default;
};

// out = softmax(scores) v of each head.
struct AttentionOp {
  int32_t id = 0;
  Row qkv = {}, out = {}, lse = {};
  Heads heads = {};
  int64_t window = 0;         // last positions visible, 0: all
  double scale = 0;           // of scores
  double softcap = 0;         // c > 0: scores become c tanh(score / c)
  int32_t sinks = kNoTensor;  // [queries]: a score of each head that has no value

  bool operator==(const AttentionOp&) const = default;
};

enum class Activation : uint32_t {
  kSilu = 0,
  kGeluTanh = 1,
  kGelu = 2,
  kClampedSilu = 3,  // of gates alone
  kLast = kClampedSilu,
};

// Whose rows those of experts are: one a pair of a token and one of its `chosen` experts, behind
// one another by expert. Their count is at most chosen a token; offsets on the device say which
// expert has which.
struct Routed {
  int32_t route = 0;   // id of the RouteOp
  int64_t chosen = 0;  // its chosen

  bool operator==(const Routed&) const = default;
};

// out = f(gate) up, of in = gate and up side by side.
struct GateOp {
  int32_t id = 0;
  Row in = {}, out = {};
  int64_t width = 0;  // of out
  Activation activation{};
  // Of kClampedSilu: y = (u + 1) g sigmoid(alpha g), g at most limit, u within [-limit, limit].
  double alpha = 0, limit = 0;
  Routed routed = {};  // chosen 0: rows of tokens

  bool operator==(const GateOp&) const = default;
};

// out = f(in).
struct ActivationOp {
  int32_t id = 0;
  Row in = {}, out = {};
  int64_t width = 0;
  Activation activation{};

  bool operator==(const ActivationOp&) const = default;
};

// out = stream + branch.
struct AddOp {
  int32_t id = 0;
  Row stream = {}, branch = {}, out = {};
  int64_t width = 0;

  bool operator==(const AddOp&) const = default;
};

enum class Score : uint32_t { kSoftmax = 0, kSigmoid = 1, kLast = kSigmoid };

// Which experts a token goes to, and with what weights: kernels/experts/route.h. Then the order in
// which the experts compute: kernels/experts/expert_rows.h. Scores are in float32; ids and
// weights are kept, never computed again.
struct RouteOp {
  int32_t id = 0;
  Row in = {};
  Row logits = {}, weights = {};                 // [tokens, experts], [tokens, chosen]
  Row ids = {}, order = {}, places = {};         // int32 [tokens, chosen]
  Row offsets = {}, counts = {};                 // int32 [experts + 1], [experts]
  int32_t weight = kNoTensor, bias = kNoTensor;  // of the product
  int32_t correction = kNoTensor;  // [experts], decides who is chosen and enters no weight
  int64_t width = 0;               // of in
  int64_t experts = 0, chosen = 0, groups = 1, top_groups = 1;
  Score score{};
  bool renormalise = false;
  double scale = 1;

  bool operator==(const RouteOp&) const = default;
};

// out = the rows of `in`, one a pair of token and expert.
struct DispatchOp {
  int32_t id = 0;
  Routed routed = {};
  Row in = {}, out = {};
  int64_t width = 0;

  bool operator==(const DispatchOp&) const = default;
};

// out = in W_e^T + bias_e for the rows of each expert e.
struct GroupedLinearOp {
  int32_t id = 0;
  Routed routed = {};
  std::string name = {};  // "experts_gate_up"
  Row in = {}, out = {};
  int32_t weight = kNoTensor, bias = kNoTensor;  // [experts, out, in], [experts, out]
  int64_t experts = 0, in_features = 0, out_features = 0;
  bool feeds_activation = false;

  bool operator==(const GroupedLinearOp&) const = default;
};

// out = the sum of a token's rows by the weights of its router.
struct CombineOp {
  int32_t id = 0;
  Routed routed = {};
  Row in = {}, out = {};
  int64_t width = 0;

  bool operator==(const CombineOp&) const = default;
};

// out += sigmoid(logit) in, one logit a row. In backward both inputs become their gradients.
struct SigmoidGateOp {
  int32_t id = 0;
  Row in = {}, logit = {}, out = {};
  int64_t width = 0;

  bool operator==(const SigmoidGateOp&) const = default;
};

// What fusion makes of the LinearOp of q, k and v and the RotateOp behind it.
struct LinearRotateOp {
  LinearOp linear;
  RotateOp rotate;
};

// What fusion makes of a LinearOp and the AddOp of its output.
struct LinearAddOp {
  LinearOp linear;
  AddOp add;
};

// What fusion makes of an AddOp and the NormOp of its sum.
struct AddNormOp {
  AddOp add;
  NormOp norm;
};

// What fusion makes of the LinearOp of gate and up and its GateOp.
struct GatedLinearOp {
  LinearOp linear;
  GateOp gate;
};

// What fusion makes of the GroupedLinearOp of gate and up and its GateOp.
struct GroupedGatedLinearOp {
  GroupedLinearOp linear;
  GateOp gate;
};

// What fusion makes, for backward, of a GateOp and the down projection behind it.
struct GateDownOp {
  GateOp gate;
  LinearOp down;
};

// What fusion makes, for backward, of an AttentionOp and the RotateOp before it.
struct RotatedAttentionOp {
  AttentionOp attention;
  RotateOp rotate;
};

// Those of a block. The plan holds them; fusions come later.
using PlainOp = std::variant<NormOp, LinearOp, QkNormOp, RotateOp, AttentionOp, GateOp,
                             ActivationOp, AddOp, RouteOp, DispatchOp, GroupedLinearOp, CombineOp,
                             SigmoidGateOp, SplitOp, LatentHeadsOp>;

using Op = std::variant<NormOp, LinearOp, QkNormOp, RotateOp, AttentionOp, GateOp, ActivationOp,
                        AddOp, RouteOp, DispatchOp, GroupedLinearOp, CombineOp, SigmoidGateOp,
                        SplitOp, LatentHeadsOp, LinearRotateOp, LinearAddOp, AddNormOp,
                        GatedLinearOp, GroupedGatedLinearOp, GateDownOp, RotatedAttentionOp>;

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_OPS_H_
