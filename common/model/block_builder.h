// Puts the ops of a block together: what families have in common.
#ifndef COXSWAIN_COMMON_MODEL_BLOCK_BUILDER_H_
#define COXSWAIN_COMMON_MODEL_BLOCK_BUILDER_H_

#include <string>
#include <utility>
#include <variant>

#include "common/model/block.h"

namespace coxswain::model {

// A norm of the stream feeds linears; one of a branch stands before its add.
struct NormNames {
  std::string module = {};  // "input_layernorm"
  bool layer_norm = false;  // else RMSNorm
  bool bias = false;        // of a LayerNorm
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
  std::string sinks = {};  // not empty: a tensor of a score for each query head
};

struct MlpNames {
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  std::string gate_up = {};  // not empty: the two as one tensor
  bool bias = false;
  int64_t width = 0;  // 0: intermediate_size of the config
};

// Of a router and its experts. The files have tensors of each expert, "*" being its number, or the
// stacks that memory and adapters have.
struct ExpertNames {
  std::string router = "mlp.gate";
  std::string gate = "mlp.experts.*.gate_proj", up = "mlp.experts.*.up_proj",
              down = "mlp.experts.*.down_proj";
  std::string stacks = "mlp.experts";
  // The files have the stacks, [in, out], in which rows of gate and up take turns, and biases.
  bool stacked = false;
  double alpha = 0, limit = 0;  // limit above 0: the gate is Activation::kClampedSilu
  // Of an MLP that every token goes through beside, and of its gate.
  std::string shared = "mlp.shared_experts", shared_gate = "mlp.shared_expert_gate";
};

// Of latent attention, of which `latent` of the config says the extents.
struct LatentNames {
  std::string q = "self_attn.q_proj";  // without a latent of queries
  std::string q_a = "self_attn.q_a_proj", q_norm = "self_attn.q_a_layernorm",
              q_b = "self_attn.q_b_proj";
  std::string kv_a = "self_attn.kv_a_proj_with_mqa", kv_norm = "self_attn.kv_a_layernorm",
              kv_b = "self_attn.kv_b_proj";
  std::string o = "self_attn.o_proj";
  double eps = 1e-6;  // of the two norms
  bool bias = false;  // of q_a, kv_a and o
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
  Row Attention(const LatentNames& names, const Row& in);
  Row GatedMlp(const MlpNames& names, const Row& in, Branch branch);
  // The experts of the config's mixture, and the MLP beside them where it has one.
  Row Experts(const ExpertNames& names, const Row& in);
  // Without a gate: down(f(up(in))).
  Row PlainMlp(const MlpNames& names, const Row& in, Branch branch);

  // The stream in the middle of the block, and behind it.
  Row AddMiddle(const Row& branch);
  Block Finish(const Row& stream, const Row& branch);

 private:
  struct Linear {
    std::string name = {};
    Row in = {}, out = {};
    int64_t in_features = 0;
    struct Member {
      std::string module = {};
      int64_t rows = 0;
      bool bias = false;
      Reach reach = Reach::kDirect;
    };
    std::vector<Member> members = {};
    bool adds = false, feeds_activation = false;
    std::vector<RowRange> file_rows = {};
  };

  Row Own(std::string name) const { return {layer_, std::move(name)}; }
  int32_t AddTensor(TensorSpec tensor);
  // Numbers the op.
  template <typename Op>
  Op& Append(Op op) {
    op.id = static_cast<int32_t>(block_.ops.size());
    return std::get<Op>(block_.ops.emplace_back(std::move(op)));
  }
  // The op lacks its biases until AddBiases.
  size_t AddLinear(const Linear& linear);
  void AddBiases(const Linear& linear, size_t op);
  void AddQkNorm(QkNorm kind, const Row& qkv);
  Linear QkvLinear(const AttentionNames& names, const Row& in) const;
  Linear GateUpLinear(const MlpNames& names, const Row& in) const;
  Linear DownLinear(const MlpNames& names, const Row& in, Branch branch) const;
  int64_t WidthOf(const MlpNames& names) const;
  const RouteOp& AddRouter(const ExpertNames& names, const Row& in);
  Row RoutedExperts(const ExpertNames& names, const Row& in);
  // Of the experts: rows of gate and up side by side, and of down.
  GroupedLinearOp GateUpExperts(const ExpertNames& names);
  GroupedLinearOp DownExperts(const ExpertNames& names);
  int32_t AddExpertBias(const std::string& name, int64_t rows,
                        const std::vector<FileMember>& weights);
  void AddNorm(const NormNames& names, const Row& in, const Row& out);
  Heads HeadsOf() const;
  // A norm of `width` elements of a branch, which has its own name and eps.
  Row LatentNorm(const std::string& module, const Row& in, int64_t width, Reach reach, double eps);
  Row LatentQueries(const LatentNames& names, const Row& in);
  struct KeysAndValues {
    Row kv, k_rope;
  };
  KeysAndValues LatentKeys(const LatentNames& names, const Row& in);
  Row AddLinearWithBiases(const Linear& linear);

  const ModelConfig& config_;
  const int64_t layer_;
  int64_t norms_ = 0;
  int32_t linears_ = 0;
  Block block_;
};

// Llama's with experts in place of the MLP, where the config has experts in this layer.
Block ExpertsBlock(const ModelConfig& config, int64_t layer, const AttentionNames& attention,
                   const ExpertNames& experts);

// The same with latent attention.
Block LatentExpertsBlock(const ModelConfig& config, int64_t layer, const LatentNames& attention,
                         const ExpertNames& experts);

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
