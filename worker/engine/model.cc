#include "worker/engine/model.h"

#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/status_macros.h"
#include "kernels/adamw.h"

namespace coxswain::engine {
namespace {

using model::Role;

struct Shape {
  int64_t rows = 0, cols = 1;
};

std::string Where(Role role, int32_t layer) {
  return absl::StrCat("plan: parameter role ", static_cast<uint32_t>(role), " of layer ", layer);
}

// Takes tensors out of the table one by one, so that what is left at the end is an error.
class Table {
 public:
  Table(const plan::Plan& plan, const ParameterLayout& layout, const std::vector<FlatMemory>& flats)
      : plan_(plan), layout_(layout), flats_(flats) {}

  absl::Status Index() {
    for (size_t i = 0; i < plan_.parameters.size(); ++i) {
      const model::Parameter& parameter = plan_.parameters[i];
      if (!index_.emplace(std::pair{parameter.role, parameter.layer}, i).second) {
        return absl::InvalidArgumentError(absl::StrCat(Where(parameter.role, parameter.layer),
                                                       " appears twice: \"", parameter.name, "\""));
      }
    }
    return absl::OkStatus();
  }

  bool Has(Role role, int32_t layer) const { return index_.count({role, layer}) != 0; }
  bool trains() const { return plan_.trains(); }

  absl::StatusOr<Tensor> Take(Role role, int32_t layer, Shape shape) {
    auto found = index_.find({role, layer});
    if (found == index_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(Where(role, layer), " is missing"));
    }
    const size_t i = found->second;
    const model::Parameter& parameter = plan_.parameters[i];
    const bool embeds = role == Role::kEmbedding || role == model::LoraA(Role::kEmbedding) ||
                        role == model::LoraB(Role::kEmbedding);
    const int32_t unit =
        layer >= 0 ? layer + 1 : (embeds ? 0 : static_cast<int32_t>(plan_.model.num_layers) + 1);
    if (parameter.rows != shape.rows || parameter.cols != shape.cols || parameter.unit != unit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plan: \"", parameter.name, "\" is [", parameter.rows, ", ", parameter.cols, "] in unit ",
          parameter.unit, ", the model has [", shape.rows, ", ", shape.cols, "] in unit ", unit));
    }
    index_.erase(found);
    return View(i);
  }

  // Takes the members one after another and checks that they form one matrix (or vector).
  absl::StatusOr<Tensor> TakePacked(const std::vector<std::pair<Role, Shape>>& members,
                                    int32_t layer) {
    Tensor first;
    int64_t elements = 0;
    for (const auto& [role, shape] : members) {
      ASSIGN_OR_RETURN(const Tensor member, Take(role, layer, shape));
      if (elements == 0) first = member;
      const bool trained_alike = (member.gradient == nullptr) == (first.gradient == nullptr) &&
                                 member.dtype == first.dtype;
      const bool adjacent =
          member.value == After(first.value, elements * kernels::DTypeBytes(first.dtype)) &&
          (member.gradient == nullptr ||
           member.gradient ==
               After(first.gradient, elements * kernels::DTypeBytes(first.gradient_dtype)));
      if (!trained_alike || !adjacent) {
        return absl::InvalidArgumentError(absl::StrCat(Where(role, layer), " must follow role ",
                                                       static_cast<uint32_t>(members.front().first),
                                                       " without a gap and be trained like it"));
      }
      elements += shape.rows * shape.cols;
    }
    return first;
  }

  absl::Status CheckEmpty() const {
    if (index_.empty()) return absl::OkStatus();
    const model::Parameter& parameter = plan_.parameters[index_.begin()->second];
    return absl::InvalidArgumentError(
        absl::StrCat("plan: the model has no place for \"", parameter.name, "\" (role ",
                     static_cast<uint32_t>(parameter.role), ", layer ", parameter.layer, ")"));
  }

 private:
  static void* After(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

  Tensor View(size_t i) const {
    const plan::ParameterPlace& place = layout_.map.places[i];
    const FlatMemory& flat = flats_[place.flat];
    Tensor tensor;
    tensor.dtype = flat.dtype;
    tensor.value = After(flat.values, place.offset * kernels::DTypeBytes(flat.dtype));
    if (!plan_.parameters[i].trainable()) return tensor;
    tensor.gradient_dtype = flat.gradient_dtype;
    tensor.gradient_slotted = flat.gradient_slotted;
    tensor.gradient = After(flat.gradient, place.offset * kernels::DTypeBytes(flat.gradient_dtype));
    return tensor;
  }

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const std::vector<FlatMemory>& flats_;
  std::map<std::pair<Role, int32_t>, size_t> index_;
};

// Where the adapters of the next linear lie.
struct AdapterPlaces {
  int64_t slot = 0;         // in lora_h of the layer
  int64_t dora_column = 0;  // in Buffers::dora
};

absl::Status TakeAdapters(Table& table, int32_t layer, const model::LinearOp& op,
                          const plan::Lora& lora, Adapters* adapters) {
  std::vector<std::pair<Role, Shape>> as;
  int64_t column = 0;
  for (const model::LinearMember& member : op.members) {
    if (table.Has(model::LoraA(member.weight), layer)) {
      as.push_back({model::LoraA(member.weight), {lora.rank, op.in_features}});
      kernels::LoraMember& adapted = adapters->members.emplace_back();
      adapted.out_features = member.rows;
      adapted.column_offset = column;
      ASSIGN_OR_RETURN(const Tensor b,
                       table.Take(model::LoraB(member.weight), layer, {member.rows, lora.rank}));
      adapted.b = b.value;
      adapted.db = b.gradient;
      if (lora.dora) {
        ASSIGN_OR_RETURN(const Tensor magnitude,
                         table.Take(model::LoraMagnitude(member.weight), layer, {member.rows, 1}));
        adapted.magnitude = magnitude.value;
        adapted.dmagnitude = magnitude.gradient;
      }
    }
    column += member.rows;
  }
  if (as.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(adapters->a, table.TakePacked(as, layer));
  for (size_t j = 0; table.trains() && j < adapters->members.size(); ++j) {
    const kernels::LoraMember& adapted = adapters->members[j];
    const bool magnitude = !lora.dora || adapted.dmagnitude != nullptr;
    if (adapters->a.gradient != nullptr && adapted.db != nullptr && magnitude) continue;
    return absl::InvalidArgumentError(absl::StrCat(Where(as[j].first, layer), " or its B",
                                                   lora.dora ? " or magnitude" : "",
                                                   " has no group; adapters are trained"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Linear> TakeLinear(Table& table, int32_t layer, const model::LinearOp& op,
                                  const plan::Lora& lora, AdapterPlaces* places) {
  Linear linear;
  linear.in = op.in_features;
  linear.site = static_cast<uint32_t>(layer) * 4 + static_cast<uint32_t>(op.pack);
  std::vector<std::pair<Role, Shape>> weights, biases;
  for (const model::LinearMember& member : op.members) {
    weights.push_back({member.weight, {member.rows, op.in_features}});
    if (member.bias != Role::kNone) biases.push_back({member.bias, {member.rows, 1}});
    linear.out += member.rows;
  }
  ASSIGN_OR_RETURN(linear.weight, table.TakePacked(weights, layer));
  if (!biases.empty()) {
    ASSIGN_OR_RETURN(linear.bias, table.TakePacked(biases, layer));
  }
  RETURN_IF_ERROR(TakeAdapters(table, layer, op, lora, &linear.adapters));
  linear.adapters.slot = places->slot;
  places->slot += static_cast<int64_t>(linear.adapters.members.size());
  linear.adapters.dora_column = places->dora_column;
  if (lora.dora && !linear.adapters.members.empty()) places->dora_column += linear.out;
  return linear;
}

absl::StatusOr<EmbeddingAdapter> TakeEmbeddingAdapter(Table& table, const plan::Plan& plan) {
  constexpr Role kA = model::LoraA(Role::kEmbedding), kB = model::LoraB(Role::kEmbedding);
  EmbeddingAdapter adapter;
  if (!table.Has(kA, -1)) return adapter;
  ASSIGN_OR_RETURN(adapter.a, table.Take(kA, -1, {plan.model.vocab_size, plan.lora.rank}));
  ASSIGN_OR_RETURN(adapter.b, table.Take(kB, -1, {plan.model.hidden_size, plan.lora.rank}));
  const bool trained = adapter.a.gradient != nullptr && adapter.b.gradient != nullptr;
  if (trained || !plan.trains()) return adapter;
  return absl::InvalidArgumentError(
      absl::StrCat(Where(kA, -1), " or its B has no group; adapters are trained"));
}

absl::StatusOr<Linear> TakeAdaptedHead(Table& table, const plan::Plan& plan) {
  const model::ModelConfig& c = plan.model;
  Linear head;
  head.in = c.hidden_size;
  head.out = c.vocab_size;
  head.site = static_cast<uint32_t>(c.num_layers) * 4;
  const model::LinearMember member{.weight = Role::kLmHead, .rows = c.vocab_size};
  model::LinearOp op;
  op.members = {member};
  op.in_features = c.hidden_size;
  RETURN_IF_ERROR(TakeAdapters(table, -1, op, plan.lora, &head.adapters));
  return head;
}

absl::StatusOr<Norm> TakeNorm(Table& table, int32_t layer, const model::NormOp& op,
                              int64_t hidden) {
  Norm norm;
  norm.layer_norm = op.is_layer_norm();
  ASSIGN_OR_RETURN(norm.weight, table.Take(op.weight, layer, {hidden, 1}));
  if (op.bias == Role::kNone) return norm;
  ASSIGN_OR_RETURN(norm.bias, table.Take(op.bias, layer, {hidden, 1}));
  if ((norm.weight.gradient == nullptr) == (norm.bias.gradient == nullptr)) return norm;
  return absl::InvalidArgumentError(
      absl::StrCat(Where(op.bias, layer), " must be trained like the weight of its norm"));
}

absl::Status TakeQkNorm(Table& table, int32_t layer, const model::QkNormOp& op,
                        const model::ModelConfig& c, Block* block) {
  const int64_t q_heads = op.whole ? c.num_heads : 1, k_heads = op.whole ? c.num_kv_heads : 1;
  block->whole_qk_norm = op.whole;
  ASSIGN_OR_RETURN(block->q_norm, table.Take(op.q_weight, layer, {q_heads * c.head_dim, 1}));
  ASSIGN_OR_RETURN(block->k_norm, table.Take(op.k_weight, layer, {k_heads * c.head_dim, 1}));
  if ((block->q_norm.gradient == nullptr) == (block->k_norm.gradient == nullptr)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Where(op.k_weight, layer), " must be trained like the q norm"));
}

absl::StatusOr<Block> TakeBlock(const plan::Plan& plan, Table& table, int32_t layer,
                                AdapterPlaces* places) {
  const model::ModelConfig& c = plan.model;
  Block block;
  places->slot = 0;
  for (const model::Op& op : model::BlockOf(c, layer).ops) {
    if (const auto* norm = std::get_if<model::NormOp>(&op)) {
      ASSIGN_OR_RETURN(block.norms[norm->weight], TakeNorm(table, layer, *norm, c.hidden_size));
    } else if (const auto* qk_norm = std::get_if<model::QkNormOp>(&op)) {
      RETURN_IF_ERROR(TakeQkNorm(table, layer, *qk_norm, c, &block));
    } else if (const auto* linear = std::get_if<model::LinearOp>(&op)) {
      ASSIGN_OR_RETURN(block.linear(linear->pack),
                       TakeLinear(table, layer, *linear, plan.lora, places));
    } else if (const auto* attention = std::get_if<model::AttentionOp>(&op)) {
      block.window = attention->window;
    }
  }
  return block;
}

Recompute RecomputeOf(const plan::Plan& plan) {
  if (plan.recompute == "norm_swiglu") return Recompute::kNormSwiglu;
  if (plan.recompute == "ffn") return Recompute::kFfn;
  if (plan.recompute == "block") return Recompute::kBlock;
  return Recompute::kNone;
}

}  // namespace

ParameterLayout::ParameterLayout(const plan::Plan& plan, int rank) : map(plan), place(plan, rank) {
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    owned.push_back(map.Owned(plan, i, place.shard));
    if (plan.parameters[i].trainable()) ++trainable_tensors;
    if (!HasPiece(plan, i)) continue;
    const int64_t chunks = kernels::TensorChunks(owned[i].count());
    ++pieces;
    piece_chunks += chunks;
    if (plan.parameters[i].unit != plan::kEmbeddingUnit) continue;
    ++embedding_pieces;
    embedding_chunks += chunks;
  }
}

std::vector<const Linear*> Linears(const Model& model) {
  std::vector<const Linear*> linears;
  for (const Block& block : model.blocks) {
    for (const Linear& linear : block.linears) linears.push_back(&linear);
  }
  return linears;
}

kernels::DType DTypeOf(plan::Storage storage) {
  return storage == plan::Storage::kBfloat16 ? kernels::DType::kBFloat16 : kernels::DType::kFloat32;
}

kernels::DType ComputeDType(const plan::Plan& plan) { return DTypeOf(plan::ComputeStorage(plan)); }

absl::StatusOr<Model> BuildModel(const plan::Plan& plan, const ParameterLayout& layout,
                                 const std::vector<FlatMemory>& flats) {
  const model::ModelConfig& c = plan.model;
  Model model;
  model.config = c;
  model.compute_dtype = ComputeDType(plan);
  model.attention_deterministic = plan.attention_deterministic;
  model.recompute = RecomputeOf(plan);
  model.recompute_every = plan.recompute_every;
  model.lora_scale = plan.lora.scale;
  model.lora_dropout = plan.lora.dropout;
  model.lora_rank = plan.lora.rank;
  model.dora = plan.lora.dora;
  model.seed = plan.seed;
  model.generation_length = plan.generation.length;
  Table table(plan, layout, flats);
  RETURN_IF_ERROR(table.Index());
  ASSIGN_OR_RETURN(model.embedding,
                   table.Take(Role::kEmbedding, -1, {c.vocab_size, c.hidden_size}));
  ASSIGN_OR_RETURN(model.embedding_adapter, TakeEmbeddingAdapter(table, plan));
  AdapterPlaces places;
  for (int32_t layer = 0; layer < c.num_layers; ++layer) {
    ASSIGN_OR_RETURN(Block block, TakeBlock(plan, table, layer, &places));
    model.blocks.push_back(std::move(block));
  }
  ASSIGN_OR_RETURN(model.final_norm, TakeNorm(table, -1, model::OutsideOf(c).norm, c.hidden_size));
  model.head = model.embedding;
  if (!c.tie_embeddings) {
    ASSIGN_OR_RETURN(model.head, table.Take(Role::kLmHead, -1, {c.vocab_size, c.hidden_size}));
  }
  ASSIGN_OR_RETURN(model.adapted_head, TakeAdaptedHead(table, plan));
  RETURN_IF_ERROR(table.CheckEmpty());
  return model;
}

}  // namespace coxswain::engine
