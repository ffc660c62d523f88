// The closed vocabulary of what a block computes. An op names the rows that it reads and writes and
// the parameters that it takes by role; numbers that every op of its kind shares (eps, heads,
// activation) are those of the ModelConfig.
#ifndef COXSWAIN_COMMON_MODEL_OPS_H_
#define COXSWAIN_COMMON_MODEL_OPS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/model/parameter.h"

namespace coxswain::model {

inline constexpr int64_t kSharedByLayers = -1;

// An activation [tokens, width]: a row of the buffer table. kSharedByLayers: memory that all layers
// use in turn.
struct Row {
  int64_t layer = kSharedByLayers;
  std::string name;

  auto operator<=>(const Row&) const = default;
};

// out = norm(in). The statistics of the rows are kept for backward.
struct NormOp {
  Row in = {}, out = {}, rstd = {};
  Row mean = {};  // of a LayerNorm; without a name: RMSNorm
  Role weight{};
  Role bias = Role::kNone;

  bool is_layer_norm() const { return !mean.name.empty(); }
};

// The packed linears of a block, in the order in which their adapters and dropout sites are
// numbered. DoRA names its rows after them.
enum class Pack : uint32_t { kQkv, kOutput, kGateUp, kDown };

struct LinearMember {
  Role weight{};
  Role bias = Role::kNone;
  int64_t rows = 0;  // output features
};

// out = in W^T + bias, W the members below each other: one product.
struct LinearOp {
  Pack pack{};
  Row in = {}, out = {};
  int64_t in_features = 0, out_features = 0;
  std::vector<LinearMember> members = {};
  bool adds = false;  // to what `out` holds
};

// q and k inside `qkv` are normalised in place: each head, or all heads together.
struct QkNormOp {
  Row qkv = {};
  Row raw = {}, rstd = {};  // for backward: q and k before
  bool whole = false;
  Role q_weight = Role::kQNorm, k_weight = Role::kKNorm;
};

// Rotates q and k inside `qkv` in place. `rope`: index into ModelConfig::ropes().
struct RotateOp {
  Row qkv = {};
  int64_t rope = 0;
};

// out = softmax(scores) v of each head.
struct AttentionOp {
  Row qkv = {}, out = {}, lse = {};
  int64_t window = 0;  // last positions visible, 0: all
};

// out = f(gate) up, of in = gate and up side by side.
struct GateOp {
  Row in = {}, out = {};
};

// out = f(in).
struct ActivationOp {
  Row in = {}, out = {};
};

// out = stream + branch.
struct AddOp {
  Row stream = {}, branch = {}, out = {};
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

using Op = std::variant<NormOp, LinearOp, QkNormOp, RotateOp, AttentionOp, GateOp, ActivationOp,
                        AddOp, LinearRotateOp, LinearAddOp, AddNormOp, GatedLinearOp, GateDownOp,
                        RotatedAttentionOp>;

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_OPS_H_
