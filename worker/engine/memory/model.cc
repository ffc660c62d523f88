#include "worker/engine/memory/model.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/plan/buffers/fp8_amaxes.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/routers.h"
#include "common/status_macros.h"
#include "kernels/optimizer/adamw.h"

namespace coxswain::engine {
namespace {

using model::Part;

struct Shape {
  int64_t rows = 0, cols = 1;
};

// A place in the table.
struct Place {
  int32_t layer = -1, tensor = model::kNoTensor;
  Part part = Part::kBase;
  auto operator<=>(const Place&) const = default;
};

std::string Where(const Place& place) {
  return absl::StrCat("plan: tensor ", place.tensor, " of layer ", place.layer, ", part ",
                      static_cast<uint32_t>(place.part));
}

// Takes tensors out of the table one by one, so that what is left at the end is an error.
class Table {
 public:
  Table(const plan::Plan& plan, const ParameterLayout& layout, const std::vector<FlatMemory>& flats)
      : plan_(plan), layout_(layout), flats_(flats) {}

  absl::Status Index() {
    int64_t next = 0;
    for (size_t i = 0; i < plan_.parameters.size(); ++i) {
      const model::Parameter& parameter = plan_.parameters[i];
      const Place place{parameter.layer, parameter.tensor, parameter.part};
      if (!index_.emplace(place, i).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(place), " appears twice: \"", parameter.name, "\""));
      }
      numbers_.push_back(next);
      next += (parameter.elements() + 7) / 8 * 8;
    }
    return absl::OkStatus();
  }

  bool Has(const Place& place) const { return index_.count(place) != 0; }
  bool trains() const { return plan_.trains(); }

  // Of the adapters of a stack; 0 without.
  int64_t RankOf(const Place& stack) const {
    const auto found = index_.find({stack.layer, stack.tensor, Part::kLoraA});
    if (found == index_.end()) return 0;
    const model::Parameter& a = plan_.parameters[found->second];
    return a.rows / std::max<int64_t>(1, a.batch);
  }

  // Before it is taken; without codes where its values lie where sweeps read them.
  QuantizedMatrix Quantized(const Place& place) const {
    const auto found = index_.find(place);
    if (found == index_.end() || !layout_.FlatOf(found->second).in_ranges) return {};
    const size_t i = found->second;
    return QuantizedMatrixOf(plan_, layout_, i, flats_[layout_.map.places[i].flat]);
  }

  absl::StatusOr<Tensor> Take(const Place& place, Shape shape) {
    auto found = index_.find(place);
    if (found == index_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(Where(place), " is missing"));
    }
    const size_t i = found->second;
    const model::Parameter& parameter = plan_.parameters[i];
    const auto head = static_cast<int32_t>(plan_.model.num_layers) + 1;
    const int32_t outside = place.tensor == model::kEmbeddingTensor ? 0 : head;
    const int32_t unit = place.layer >= 0 ? place.layer + 1 : outside;
    if (parameter.rows != shape.rows || parameter.cols != shape.cols || parameter.unit != unit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plan: \"", parameter.name, "\" is [", parameter.rows, ", ", parameter.cols, "] in unit ",
          parameter.unit, ", the model has [", shape.rows, ", ", shape.cols, "] in unit ", unit));
    }
    index_.erase(found);
    return View(i);
  }

  // Without a tensor where the op takes none.
  absl::StatusOr<Tensor> TakeOptional(const Place& place, Shape shape) {
    if (place.tensor == model::kNoTensor) return Tensor{};
    return Take(place, shape);
  }

  // Takes the members one after another and checks that they form one matrix (or vector).
  absl::StatusOr<Tensor> TakePacked(const std::vector<std::pair<Place, Shape>>& members) {
    Tensor first;
    int64_t elements = 0;
    for (const auto& [place, shape] : members) {
      ASSIGN_OR_RETURN(const Tensor member, Take(place, shape));
      if (elements == 0) first = member;
      const bool trained_alike = (member.gradient == nullptr) == (first.gradient == nullptr) &&
                                 member.dtype == first.dtype;
      const bool adjacent =
          member.value == After(first.value, elements * kernels::DTypeBytes(first.dtype)) &&
          (member.gradient == nullptr ||
           member.gradient ==
               After(first.gradient, elements * kernels::DTypeBytes(first.gradient_dtype)));
      if (!trained_alike || !adjacent) {
        return absl::InvalidArgumentError(absl::StrCat(Where(place), " must follow tensor ",
                                                       members.front().first.tensor,
                                                       " without a gap and be trained like it"));
      }
      elements += shape.rows * shape.cols;
    }
    return first;
  }

  absl::Status CheckEmpty() const {
    if (index_.empty()) return absl::OkStatus();
    const model::Parameter& parameter = plan_.parameters[index_.begin()->second];
    return absl::InvalidArgumentError(absl::StrCat("plan: the model has no place for \"",
                                                   parameter.name, "\" (tensor ", parameter.tensor,
                                                   ", layer ", parameter.layer, ")"));
  }

 private:
  static void* After(void* data, int64_t bytes) { return static_cast<char*>(data) + bytes; }

  Tensor View(size_t i) const {
    const plan::ParameterPlace& place = layout_.map.places[i];
    const FlatMemory& flat = flats_[place.flat];
    Tensor tensor;
    tensor.dtype = flat.dtype;
    if (layout_.FlatOf(i).in_ranges) return tensor;
    tensor.value = After(flat.values, place.offset * kernels::DTypeBytes(flat.dtype));
    if (flat.codes != nullptr) tensor.codes = flat.codes + place.offset;
    if (!plan_.parameters[i].trainable()) return tensor;
    tensor.gradient_dtype = flat.gradient_dtype;
    tensor.gradient_slotted = flat.gradient_slotted;
    const int64_t offset = place.offset * kernels::DTypeBytes(flat.gradient_dtype);
    tensor.gradient = After(flat.gradient, offset);
    if (flat.companion != nullptr) tensor.companion = After(flat.companion, offset);
    tensor.number = numbers_[i];
    return tensor;
  }

  const plan::Plan& plan_;
  const ParameterLayout& layout_;
  const std::vector<FlatMemory>& flats_;
  std::map<Place, size_t> index_;
  std::vector<int64_t> numbers_;  // Tensor::number, by parameter
};

// Where the adapters of the next linear lie, and the number of its dropout.
struct AdapterPlaces {
  int64_t slot = 0;         // in lora_h of the layer
  int64_t dora_column = 0;  // in Buffers::dora
  uint32_t site = 0;        // linears of the layers before this one
};

absl::Status TakeAdapters(Table& table, int32_t layer, const model::LinearOp& op,
                          const plan::Lora& lora, Adapters* adapters) {
  std::vector<std::pair<Place, Shape>> as;
  int64_t column = 0;
  for (const model::LinearMember& member : op.members) {
    const auto part = [&](Part of) { return Place{layer, member.weight, of}; };
    if (table.Has(part(Part::kLoraA))) {
      as.push_back({part(Part::kLoraA), {lora.rank, op.in_features}});
      kernels::LoraMember& adapted = adapters->members.emplace_back();
      adapted.out_features = member.rows;
      adapted.column_offset = column;
      ASSIGN_OR_RETURN(const Tensor b, table.Take(part(Part::kLoraB), {member.rows, lora.rank}));
      adapted.b = b.value;
      adapted.db = b.gradient;
      if (lora.dora) {
        ASSIGN_OR_RETURN(const Tensor magnitude,
                         table.Take(part(Part::kMagnitude), {member.rows, 1}));
        adapted.magnitude = magnitude.value;
        adapted.dmagnitude = magnitude.gradient;
      }
    }
    column += member.rows;
  }
  if (as.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(adapters->a, table.TakePacked(as));
  for (size_t j = 0; table.trains() && j < adapters->members.size(); ++j) {
    const kernels::LoraMember& adapted = adapters->members[j];
    const bool magnitude = !lora.dora || adapted.dmagnitude != nullptr;
    if (adapters->a.gradient != nullptr && adapted.db != nullptr && magnitude) continue;
    return absl::InvalidArgumentError(absl::StrCat(Where(as[j].first), " or its B",
                                                   lora.dora ? " or magnitude" : "",
                                                   " has no group; adapters are trained"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Linear> TakeLinear(Table& table, int32_t layer, const model::LinearOp& op,
                                  const plan::Lora& lora, AdapterPlaces* places) {
  Linear linear;
  linear.in = op.in_features;
  linear.out = op.out_features;
  linear.site = places->site + static_cast<uint32_t>(op.site);
  std::vector<std::pair<Place, Shape>> weights, biases;
  for (const model::LinearMember& member : op.members) {
    weights.push_back({{layer, member.weight}, {member.rows, op.in_features}});
    if (member.bias != model::kNoTensor) {
      biases.push_back({{layer, member.bias}, {member.rows, 1}});
    }
  }
  ASSIGN_OR_RETURN(linear.weight, table.TakePacked(weights));
  if (!biases.empty()) {
    ASSIGN_OR_RETURN(linear.bias, table.TakePacked(biases));
  }
  RETURN_IF_ERROR(TakeAdapters(table, layer, op, lora, &linear.adapters));
  linear.adapters.slot = places->slot;
  places->slot += static_cast<int64_t>(linear.adapters.members.size());
  linear.adapters.dora_column = places->dora_column;
  if (lora.dora && !linear.adapters.members.empty()) places->dora_column += linear.out;
  return linear;
}

absl::StatusOr<EmbeddingAdapter> TakeEmbeddingAdapter(Table& table, const plan::Plan& plan) {
  const Place a{-1, model::kEmbeddingTensor, Part::kLoraA};
  const Place b{-1, model::kEmbeddingTensor, Part::kLoraB};
  EmbeddingAdapter adapter;
  if (!table.Has(a)) return adapter;
  ASSIGN_OR_RETURN(adapter.a, table.Take(a, {plan.model.vocab_size, plan.lora.rank}));
  ASSIGN_OR_RETURN(adapter.b, table.Take(b, {plan.model.hidden_size, plan.lora.rank}));
  const bool trained = adapter.a.gradient != nullptr && adapter.b.gradient != nullptr;
  if (trained || !plan.trains()) return adapter;
  return absl::InvalidArgumentError(
      absl::StrCat(Where(a), " or its B has no group; adapters are trained"));
}

absl::StatusOr<Linear> TakeAdaptedHead(Table& table, const plan::Plan& plan,
                                       const AdapterPlaces& places) {
  const model::ModelConfig& c = plan.model;
  Linear head;
  head.in = c.hidden_size;
  head.out = c.vocab_size;
  head.site = places.site;
  model::LinearOp op;
  op.members = {{.weight = model::kHeadTensor, .rows = c.vocab_size}};
  op.in_features = c.hidden_size;
  RETURN_IF_ERROR(TakeAdapters(table, -1, op, plan.lora, &head.adapters));
  return head;
}

absl::Status TrainedUnlike(const Place& place, const char* other) {
  return absl::InvalidArgumentError(absl::StrCat(Where(place), " must be trained like ", other));
}

bool TrainedAlike(const Tensor& a, const Tensor& b) {
  return (a.gradient == nullptr) == (b.gradient == nullptr);
}

absl::StatusOr<Norm> TakeNorm(Table& table, int32_t layer, const model::NormOp& op) {
  Norm norm;
  ASSIGN_OR_RETURN(norm.weight, table.Take({layer, op.weight}, {op.width}));
  if (op.bias == model::kNoTensor) return norm;
  ASSIGN_OR_RETURN(norm.bias, table.Take({layer, op.bias}, {op.width}));
  if (TrainedAlike(norm.weight, norm.bias)) return norm;
  return TrainedUnlike({layer, op.bias}, "the weight of its norm");
}

absl::StatusOr<QkNorm> TakeQkNorm(Table& table, int32_t layer, const model::QkNormOp& op) {
  QkNorm norm;
  const int64_t q = op.whole ? op.heads.query_width() : op.heads.width;
  const int64_t k = op.whole ? op.heads.key_width() : op.heads.width;
  ASSIGN_OR_RETURN(norm.q, table.Take({layer, op.q_weight}, {q}));
  ASSIGN_OR_RETURN(norm.k, table.Take({layer, op.k_weight}, {k}));
  if (TrainedAlike(norm.q, norm.k)) return norm;
  return TrainedUnlike({layer, op.k_weight}, "the q norm");
}

// A and B of one tensor of a block; values null without.
struct TensorAdapter {
  Tensor a, b;
};
absl::StatusOr<TensorAdapter> TakeAdapter(Table& table, const Place& tensor, Shape a, Shape b) {
  const Place of_a{tensor.layer, tensor.tensor, Part::kLoraA};
  TensorAdapter adapter;
  if (!table.Has(of_a)) return adapter;
  ASSIGN_OR_RETURN(adapter.a, table.Take(of_a, a));
  ASSIGN_OR_RETURN(adapter.b, table.Take({tensor.layer, tensor.tensor, Part::kLoraB}, b));
  const bool trained = adapter.a.gradient != nullptr && adapter.b.gradient != nullptr;
  if (trained || !table.trains()) return adapter;
  return absl::InvalidArgumentError(
      absl::StrCat(Where(of_a), " or its B has no group; adapters are trained"));
}

absl::StatusOr<Router> TakeRouter(Table& table, int32_t layer, const model::RouteOp& op,
                                  int64_t rank) {
  Router router;
  ASSIGN_OR_RETURN(router.weight, table.Take({layer, op.weight}, {op.experts, op.width}));
  ASSIGN_OR_RETURN(router.bias, table.TakeOptional({layer, op.bias}, {op.experts}));
  ASSIGN_OR_RETURN(router.correction, table.TakeOptional({layer, op.correction}, {op.experts}));
  ASSIGN_OR_RETURN(const TensorAdapter adapter,
                   TakeAdapter(table, {layer, op.weight}, {rank, op.width}, {op.experts, rank}));
  router.a = adapter.a;
  router.b = adapter.b;
  return router;
}

absl::StatusOr<ExpertLinear> TakeExperts(Table& table, int32_t layer,
                                         const model::GroupedLinearOp& op) {
  ExpertLinear linear;
  const int64_t rank = linear.rank = table.RankOf({layer, op.weight});
  const int64_t rows = op.experts * op.out_features;
  linear.quantized = table.Quantized({layer, op.weight});
  ASSIGN_OR_RETURN(linear.weight, table.Take({layer, op.weight}, {rows, op.in_features}));
  ASSIGN_OR_RETURN(linear.bias, table.TakeOptional({layer, op.bias}, {rows}));
  ASSIGN_OR_RETURN(
      const TensorAdapter adapter,
      TakeAdapter(table, {layer, op.weight}, {op.experts * rank, op.in_features}, {rows, rank}));
  linear.a = adapter.a;
  linear.b = adapter.b;
  return linear;
}

absl::StatusOr<Block> TakeBlock(const plan::Plan& plan, Table& table, int32_t layer,
                                AdapterPlaces* places) {
  Block block;
  places->slot = 0;
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    if (const auto* norm = std::get_if<model::NormOp>(&op)) {
      ASSIGN_OR_RETURN(block.norms[norm->id], TakeNorm(table, layer, *norm));
    } else if (const auto* qk_norm = std::get_if<model::QkNormOp>(&op)) {
      ASSIGN_OR_RETURN(block.qk_norms[qk_norm->id], TakeQkNorm(table, layer, *qk_norm));
    } else if (const auto* linear = std::get_if<model::LinearOp>(&op)) {
      ASSIGN_OR_RETURN(block.linears[linear->id],
                       TakeLinear(table, layer, *linear, plan.lora, places));
    } else if (const auto* attention = std::get_if<model::AttentionOp>(&op)) {
      ASSIGN_OR_RETURN(block.sinks[attention->id],
                       table.TakeOptional({layer, attention->sinks}, {attention->heads.queries}));
    } else if (const auto* route = std::get_if<model::RouteOp>(&op)) {
      ASSIGN_OR_RETURN(block.routers[route->id], TakeRouter(table, layer, *route, plan.lora.rank));
    } else if (const auto* experts = std::get_if<model::GroupedLinearOp>(&op)) {
      ASSIGN_OR_RETURN(block.experts[experts->id], TakeExperts(table, layer, *experts));
    }
  }
  places->site += static_cast<uint32_t>(block.linears.size());
  return block;
}

bool TrainsFp8Weights(const plan::Plan& plan) {
  bool any = false;
  const auto visit = [&](const auto& linear, int64_t layer) {
    any = any || plan::TrainsWeight(plan, linear, layer);
  };
  plan::VisitFp8Linears(plan, visit);
  plan::VisitFp8Experts(plan, visit);
  return any;
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

QuantizedMatrix QuantizedMatrixOf(const plan::Plan& plan, const ParameterLayout& layout, size_t i,
                                  const FlatMemory& memory) {
  const plan::ParameterPlace& place = layout.map.places[i];
  const plan::Storage storage = layout.FlatOf(i).storage.weights;
  return {.storage = storage,
          .cols = plan.parameters[i].cols,
          .packed = {memory.packed.codes + plan::StorageBytes(storage, place.packed),
                     memory.packed.scales + plan::ScaleBytes(storage, place.packed)},
          .constants = memory.constants + place.constants};
}

Model WithoutAdapters(const Model& model) {
  Model base = model;
  base.embedding_adapter = {};
  base.adapted_head = {};
  base.lora_rank = 0;
  base.lora_dropout = 0;
  base.dora = false;
  for (Block& block : base.blocks) {
    for (auto& [id, linear] : block.linears) linear.adapters = {};
    for (auto& [id, experts] : block.experts) experts.a = experts.b = {};
    for (auto& [id, router] : block.routers) router.a = router.b = {};
  }
  return base;
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
  model.fp8_attention = plan.fp8.attention;
  model.recompute_blocks = plan.recompute == RecomputeLevel::kBlock;
  model.recompute_every = plan.recompute_every;
  model.lora_scale = plan.lora.scale;
  model.lora_dropout = plan.lora.dropout;
  model.lora_rank = plan.lora.rank;
  model.dora = plan.lora.dora;
  model.keeps_fp8_weights = plan.fp8.recipe != plan::Fp8Recipe::kNone && plan.fp8.keeps_weights;
  model.remembers_fp8_amaxes = plan::Fp8AmaxesOf(plan).weights > 0;
  model.trains_fp8_weights = model.reads_fp8_weights_once() && TrainsFp8Weights(plan);
  model.seed = plan.seed;
  model.gradient_sum = plan.gradient_sum;
  model.router_losses = plan.router_losses;
  model.router_spec = {.experts = c.mixture.experts, .chosen = c.mixture.chosen};
  model.router_loss_sums = plan::RouterUseDoubles(plan) - 2;
  model.generation_length = plan.generation.length;
  model.experts_at_once = plan.experts_at_once;
  Table table(plan, layout, flats);
  RETURN_IF_ERROR(table.Index());
  ASSIGN_OR_RETURN(model.embedding,
                   table.Take({-1, model::kEmbeddingTensor}, {c.vocab_size, c.hidden_size}));
  ASSIGN_OR_RETURN(model.embedding_adapter, TakeEmbeddingAdapter(table, plan));
  AdapterPlaces places;
  for (int32_t layer = 0; layer < c.num_layers; ++layer) {
    ASSIGN_OR_RETURN(Block block, TakeBlock(plan, table, layer, &places));
    model.blocks.push_back(std::move(block));
  }
  ASSIGN_OR_RETURN(model.final_norm, TakeNorm(table, -1, plan.architecture.outside.norm));
  model.head = model.embedding;
  if (!c.tie_embeddings) {
    ASSIGN_OR_RETURN(model.head,
                     table.Take({-1, model::kHeadTensor}, {c.head_rows(), c.hidden_size}));
  }
  ASSIGN_OR_RETURN(model.adapted_head, TakeAdaptedHead(table, plan, places));
  RETURN_IF_ERROR(table.CheckEmpty());
  return model;
}

}  // namespace coxswain::engine
