// Puts the ops of a block together: what families have in common.
#ifndef COXSWAIN_COMMON_MODEL_BLOCK_BUILDER_H_
#define COXSWAIN_COMMON_MODEL_BLOCK_BUILDER_H_

#include <string>

#include "common/model/block.h"

namespace coxswain::model {

// A norm of the stream feeds linears; one of a branch stands before its add.
struct NormNames {
  std::string module;  // "input_layernorm"
  Role weight{};
  Role bias = Role::kNone;  // LayerNorm: has a bias
  bool layer_norm = false;  // else RMSNorm
};

enum class QkNorm { kNone, kHeads, kWhole };

struct AttentionNames {
  std::string q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj";
  std::string qkv = {};  // not empty: the three as one tensor
  // Of that tensor's rows in the file: each kv head's queries, key and value lie together.
  bool by_kv_head = false;
  std::string o = "self_attn.o_proj";
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false, output_bias = false;
};

struct MlpNames {
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  std::string gate_up = {};  // not empty: the two as one tensor
  bool bias = false;
};

class BlockBuilder {
 public:
  BlockBuilder(const ModelConfig& config, int64_t layer) : config_(config), layer_(layer) {}

  Row Input() const { return BlockInput(layer_); }

  // A norm of the stream; the k-th of a block writes ln{k}.
  Row Norm(const NormNames& names, const Row& in);
  // A norm of a branch.
  Row BranchNorm(const NormNames& names, const Row& in);

  // From what reads the stream to a branch. `kept`: the branch goes through a norm, whose backward
  // needs it. `adds`: to the branch that is there.
  struct Branch {
    bool kept = false, adds = false;
  };
  Row Attention(const AttentionNames& names, const Row& in, Branch branch);
  Row GatedMlp(const MlpNames& names, const Row& in, Branch branch);
  // Without a gate: down(f(up(in))).
  Row PlainMlp(const MlpNames& names, const Row& in, Branch branch);

  // The stream in the middle of the block, and behind it.
  Row AddMiddle(const Row& branch);
  Block Finish(const Row& stream, const Row& branch);

 private:
  struct Linear {
    Pack pack{};
    Row in = {}, out = {};
    int64_t in_features = 0;
    std::vector<std::string> modules = {};
    std::vector<LinearMember> members = {};
    bool adds = false;
    std::vector<RowRange> file_rows = {};
  };

  Row Own(std::string name) const { return {layer_, std::move(name)}; }
  LinearOp AddWeights(const Linear& linear);
  void AddBiases(const Linear& linear);
  void AddQkNorm(QkNorm kind, const Row& qkv);
  Linear QkvLinear(const AttentionNames& names, const Row& in) const;
  Linear GateUpLinear(const MlpNames& names, const Row& in) const;
  Row Down(const MlpNames& names, const Row& in, Branch branch, Linear* down) const;
  NormOp NormOf(const NormNames& names, const Row& in, Row out);

  const ModelConfig& config_;
  const int64_t layer_;
  int64_t norms_ = 0;
  Block block_;
};

// x + attention(norm(x)), then x + mlp(norm(x)): Llama and most others.
Block PreNormBlock(const ModelConfig& config, int64_t layer);
Block PreNormBlock(const ModelConfig& config, int64_t layer, const AttentionNames& attention,
                   const MlpNames& mlp);

// Norms before and behind: x + norm(attention(norm(x))), then x + norm(mlp(norm(x))).
struct SandwichNames {
  std::string before_attention = "input_layernorm", behind_attention, before_mlp, behind_mlp;
};
Block SandwichBlock(const ModelConfig& config, int64_t layer, const SandwichNames& norms,
                    const AttentionNames& attention, const MlpNames& mlp);

// Biases and the norm of q and k as the config says, under the usual names.
AttentionNames UsualAttention(const ModelConfig& config);

// "model.embed_tokens", "model.layers.", "model.norm", "lm_head".
Outside UsualOutside(const ModelConfig& config);
Outside LayerNormOutside(const ModelConfig& config, bool bias);

}  // namespace coxswain::model

#endif  // COXSWAIN_COMMON_MODEL_BLOCK_BUILDER_H_
