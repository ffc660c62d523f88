#include "common/plan/buffers/buffer_rows.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/buffer_names.h"
#include "common/plan/buffers/activation_rows.h"
#include "common/plan/buffers/fp8_rows.h"
#include "common/plan/buffers/gradient_rows.h"
#include "common/plan/embedding_rows.h"
#include "common/plan/expert_ranges.h"
#include "common/plan/extents.h"
#include "common/plan/fp8_history.h"
#include "common/plan/gradient_sum.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/routers.h"
#include "common/plan/snapshot_map.h"
#include "common/plan/storage.h"
#include "kernels/tensor_records.h"

namespace coxswain::plan {
namespace {

constexpr int64_t kFloat = 4;

class Table {
 public:
  void Class(MemoryClass memory_class) { class_ = memory_class; }
  void Row(std::string name, int64_t bytes) {
    rows_.push_back({std::move(name), class_, bytes, ""});
  }
  void Rows(std::vector<Buffer> rows) {
    std::move(rows.begin(), rows.end(), std::back_inserter(rows_));
  }
  void Some(std::string name, int64_t bytes) {
    if (bytes > 0) Row(std::move(name), bytes);
  }
  void Alias(std::string name, std::string owner) {
    rows_.push_back({std::move(name), class_, 0, std::move(owner)});
  }
  std::vector<Buffer> Take() { return std::move(rows_); }

 private:
  MemoryClass class_ = MemoryClass::kWeights;
  std::vector<Buffer> rows_;
};

void AddStates(const Plan& plan, const ShardMap& map, Table* table) {
  table->Row(buffers::kWeights, map.weights);
  table->Some(buffers::kWeightSlots, plan.weight_slots * map.weight_slot);
  table->Some(buffers::kExpertWeights, ExpertRangeBytes(plan));
  table->Some(buffers::kPackedSlot, PackedSlots(plan) * map.packed_slot);
  table->Some(buffers::kWeightScales, kFloat * map.weight_scales);
  table->Some(buffers::kMaster, map.masters);
  table->Class(MemoryClass::kGradients);
  table->Some(buffers::kGradients, map.gradients);
  table->Some(buffers::kGradientSlots, kGradientSlots * map.gradient_slot);
  table->Some(buffers::kGradientCompanions, map.companions);
  table->Class(MemoryClass::kOptimizer);
  const std::vector<OptimizerState>& states = OptimizerOf(plan).states;
  for (size_t s = 0; s < states.size(); ++s) table->Some(states[s].row, map.states[s]);
  if (plan.device == DeviceKind::kCuda) table->Class(MemoryClass::kHost);
  table->Some(buffers::kSnapshot, SnapshotMap(map).bytes);
  table->Class(MemoryClass::kOptimizer);
  table->Some(buffers::kRouterCorrections, map.corrections);
  table->Rows(Fp8HistoryRows(plan));
}

// Rows that layers share: those of one name whose owner is the same. Blocks differ, so it is the
// first layer that has such a row which holds it, as wide as the widest.
class SharedActivations {
 public:
  SharedActivations(const Plan& plan, const BatchExtents& n) : plan_(plan), tokens_(n.tokens) {
    for (int64_t layer = 0; layer < plan.model.num_layers; ++layer) {
      for (const ActivationRow& row : rows_.emplace_back(ActivationRows(plan, layer))) {
        Holder& holder = holders_.try_emplace(KeyOf(row), Holder{layer, 0}).first->second;
        holder.bytes = std::max(holder.bytes, Bytes(row));
      }
    }
  }

  void AddTo(Table* table) const {
    for (const std::vector<ActivationRow>& of_layer : rows_) {
      for (const ActivationRow& row : of_layer) {
        const Holder& holder = holders_.at(KeyOf(row));
        if (holder.layer == row.row.layer) {
          table->Row(BufferName(row.row), holder.bytes);
        } else {
          table->Alias(BufferName(row.row), BufferName({holder.layer, row.row.name}));
        }
      }
    }
  }

 private:
  struct Holder {
    int64_t layer = 0, bytes = 0;
  };

  model::Row KeyOf(const ActivationRow& row) const {
    return {ActivationOwner(plan_, row), row.row.name};
  }
  int64_t Bytes(const ActivationRow& row) const {
    const int64_t element = row.type == RowType::kCompute ? ComputeBytes(plan_) : kFloat;
    return element * (tokens_ * row.width + row.fixed);
  }

  const Plan& plan_;
  const int64_t tokens_;
  std::vector<std::vector<ActivationRow>> rows_;  // by layer
  std::map<model::Row, Holder> holders_;
};

void AddActivations(const Plan& plan, const BatchExtents& n, Table* table) {
  const model::NormOp& norm = plan.architecture.outside.norm;
  const int64_t element = ComputeBytes(plan);
  table->Class(MemoryClass::kActivations);
  SharedActivations(plan, n).AddTo(table);
  table->Row(BufferName(model::kFinalResidual), element * n.tokens * plan.model.hidden_size);
  table->Row(BufferName(model::kFinalNormed), element * n.tokens * plan.model.hidden_size);
  table->Row(BufferName(norm.rstd), kFloat * n.tokens);
  if (norm.is_layer_norm()) table->Row(BufferName(norm.mean), kFloat * n.tokens);
}

// The rows of gradients, of which generation too needs those that branches share.
void AddBackward(const Plan& plan, const BatchExtents& n, Table* table) {
  table->Class(MemoryClass::kWorkspace);
  const int64_t element = ComputeBytes(plan);
  table->Some(buffers::kGradientTerm, GradientTermBytes(plan));
  if (plan.trains()) table->Row(buffers::kDres, element * n.tokens * plan.model.hidden_size);
  for (const GradientSlot& slot : GradientSlots(plan.architecture)) {
    if (!plan.trains() && !slot.in_forward) continue;
    table->Row(slot.name,
               slot.float32 ? kFloat * n.tokens * slot.width : element * n.tokens * slot.width);
    if (slot.name == buffers::kDnorm) table->Alias(BufferName(model::kBranch), buffers::kDnorm);
    for (const std::string& row : slot.rows) table->Alias(row, slot.name);
  }
}

void AddEmbeddingAdapter(const Plan& plan, const BatchExtents& n, Table* table) {
  if (!HasAdapterOf(plan, model::Kind::kEmbedding)) return;
  const int64_t bytes = ComputeBytes(plan) * n.tokens * plan.lora.rank;
  table->Row(buffers::kEmbeddingLoraH, bytes);
  if (plan.trains()) table->Row(buffers::kEmbeddingLoraDh, bytes);
}

void AddScoreHead(const Plan& plan, const BatchExtents& n, Table* table) {
  const int64_t bytes = kFloat * n.scored_documents * plan.model.labels;
  table->Row(buffers::kHeadScores, bytes);
  if (plan.trains()) table->Row(buffers::kHeadDscores, bytes);
  AddEmbeddingAdapter(plan, n, table);
}

void AddHead(const Plan& plan, const BatchExtents& n, Table* table) {
  if (plan.model.labels > 0) return AddScoreHead(plan, n, table);
  const bool cut = plan.lm_head_panel_bytes > 0;
  const int64_t chunk = cut ? n.target_rows : plan.lm_head_chunk_tokens;
  const int64_t element = ComputeBytes(plan);
  table->Row(buffers::kHeadLogits, LogitsBytes(plan));
  table->Row(buffers::kHeadX, element * chunk * plan.model.hidden_size);
  if (plan.trains()) {
    table->Row(buffers::kHeadDx, (cut ? kFloat : element) * chunk * plan.model.hidden_size);
  }
  if (HasAdapterOf(plan, model::Kind::kHead)) {
    table->Row(buffers::kHeadLoraH, element * chunk * plan.lora.rank);
  }
  AddEmbeddingAdapter(plan, n, table);
  if (!plan.trains()) return;
  table->Row(buffers::kHeadLoss, kFloat * chunk);
  table->Row(buffers::kHeadNll, kFloat * (plan.weighs_rows() ? n.target_rows : chunk));
  if (cut) table->Row(buffers::kHeadStatistics, 2 * kFloat * chunk);
  if (n.embedding_rows > 0) {
    table->Alias(buffers::kEmbeddingRows, buffers::kHeadLogits);
    table->Row(buffers::kEmbeddingIds, 4 * n.embedding_rows);
  }
}

// Which rows are padding, the use of experts and the losses of routers.
void AddRouters(const Plan& plan, const BatchExtents& n, Table* table) {
  if (plan.model.mixture.experts == 0) return;
  if (plan.device == DeviceKind::kCuda) table->Row(buffers::kBatchPadding, 4 * n.tokens);
  if (!plan.trains()) return;
  if (HasAdapterOf(plan, model::Kind::kRouter)) {
    table->Row(buffers::kRouterLoraDh, ComputeBytes(plan) * n.tokens * plan.lora.rank);
  }
  table->Row(buffers::kRouterUse, 8 * RouterUseDoubles(plan));
  if (!plan.router_losses.any()) return;
  const int64_t pools = RouterPools(plan);
  table->Row(buffers::kRouterSums, 8 * pools * (2 * plan.model.mixture.experts + 2));
  table->Row(buffers::kRouterLosses, 16 * pools);
  table->Row(buffers::kRouterFactors, 2 * kFloat * pools);
}

// What a loss of documents needs beside the head's rows.
void AddDocuments(const Plan& plan, const BatchExtents& n, Table* table) {
  if (!plan.document_loss.any()) return;
  if (const int64_t values = plan.document_loss.values_per_document(); values > 0) {
    table->Row(buffers::kDocumentsValues, kFloat * n.scored_documents * values);
  }
  if (plan.document_loss.of_scores()) return;
  table->Row(buffers::kHeadWeights, kFloat * n.target_rows);
  table->Row(buffers::kDocumentsRows, sizeof(kernels::DocumentRows) * n.scored_documents);
  table->Row(buffers::kDocumentsSums, sizeof(kernels::DocumentSums) * n.scored_documents);
  if (plan.document_loss.reference != "none") {
    table->Row(buffers::kDocumentsReferences, sizeof(kernels::DocumentSums) * n.scored_documents);
  }
  table->Row(buffers::kDocumentsCoefficients, sizeof(double) * n.scored_documents);
}

// What a policy loss needs beside the head's rows.
void AddPolicy(const Plan& plan, const BatchExtents& n, Table* table) {
  if (!plan.policy_loss.any()) return;
  table->Row(buffers::kHeadWeights, kFloat * n.target_rows);
  table->Row(buffers::kDocumentsRows, sizeof(kernels::DocumentRows) * n.scored_documents);
  table->Row(buffers::kPolicyOldLogps, kFloat * n.target_rows);
  table->Row(buffers::kPolicyAdvantages, kFloat * n.target_rows);
  if (plan.policy_loss.has_kl()) table->Row(buffers::kPolicyReferences, kFloat * n.target_rows);
  table->Row(buffers::kPolicyParts, sizeof(kernels::PolicyPart) * n.scored_documents);
}

void AddBatch(const Plan& plan, const BatchExtents& n, Table* table) {
  for (const char* name : {buffers::kBatchTokens, buffers::kBatchPositions})
    table->Row(name, 4 * n.tokens);
  if (LongDocumentRow(plan) > 0) table->Row(buffers::kBatchRopeRows, 4 * n.tokens);
  for (const char* name : {buffers::kBatchLabels, buffers::kBatchRows})
    table->Row(name, 4 * n.target_rows);
  if (plan.lora.rank > 0 && plan.lora.dropout > 0) {
    table->Row(buffers::kBatchBins, 4 * n.tokens);
    table->Row(buffers::kBatchBinPositions, 4 * n.tokens);
    if (HasAdapterOf(plan, model::Kind::kHead)) {
      table->Row(buffers::kBatchRowBins, 4 * n.target_rows);
      table->Row(buffers::kBatchRowPositions, 4 * n.target_rows);
    }
  }
  table->Row(buffers::kBatchCuSeqlens, 4 * (n.documents + 1));
  if (plan.gradient_sum == GradientSum::kStochastic) table->Row(buffers::kBatchFirstBin, 4);
  AddRouters(plan, n, table);
  AddDocuments(plan, n, table);
  AddPolicy(plan, n, table);
}

void AddRopes(const Plan& plan, Table* table) {
  const std::vector<model::Rope> ropes = plan.model.ropes();
  const int64_t bytes = kFloat * RopeTableRows(plan) * plan.model.rotated_dim() / 2;
  for (size_t i = 0; i < ropes.size(); ++i) {
    const auto rope = static_cast<int64_t>(i);
    table->Row(RopeRow(rope, buffers::kCosines), bytes);
    table->Row(RopeRow(rope, buffers::kSines), bytes);
    if (ropes[i].query_scale_beta > 0) {
      table->Row(RopeRow(rope, buffers::kQueryScales), kFloat * RopeTableRows(plan));
    }
  }
}

void AddRecords(const Plan& plan, Table* table) {
  const int64_t columns = DoraColumns(plan);
  for (const char* name : {buffers::kDoraSquares, buffers::kDoraNorm, buffers::kDoraFactor}) {
    table->Some(name, kFloat * columns);
  }
  table->Row(buffers::kScalars, kScalarsBytes);
  if (!plan.trains()) return;
  int64_t trained = 0, chunks = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!parameter.trainable()) continue;
    ++trained;
    chunks += kernels::TensorChunks(parameter.elements());
  }
  constexpr int64_t kList = sizeof(kernels::NormTensor), kNorm = sizeof(kernels::NormSums);
  constexpr int64_t kBits = sizeof(kernels::TensorBits), kDouble = sizeof(double);
  table->Row(buffers::kOptimizerTensors, OptimizerOf(plan).record_bytes * trained);
  table->Row(buffers::kNormTensors, kList * trained);
  table->Row(buffers::kNormChunks, kNorm * chunks);
  table->Row(buffers::kVerifiedValues, kList * trained);
  table->Row(buffers::kVerifiedNorms, kNorm * trained);
  table->Row(buffers::kVerifiedBits, kBits * trained);
  table->Row(buffers::kVerifiedSums, kDouble * (kSumsOfTensor * trained + kSumsOfBatch));
}

// Of heads of so many elements, in one layer.
int64_t CachedBytes(const Plan& plan, int64_t head) {
  return ComputeBytes(plan) * plan.generation.sequences * plan.generation.length *
         plan.model.num_kv_heads * head;
}

void AddGeneration(const Plan& plan, const BatchExtents& n, Table* table) {
  if (!plan.generates()) return;
  table->Class(MemoryClass::kActivations);
  table->Row(buffers::kCacheKeys, plan.model.num_layers * CachedKeyBytes(plan));
  table->Row(buffers::kCacheValues, plan.model.num_layers * CachedValueBytes(plan));
  table->Row(buffers::kCacheSequences, 4 * n.tokens);
  table->Row(buffers::kGeneratedIds, 8 * plan.generation.sequences);
}

}  // namespace

int64_t MostDocuments(const Plan& plan) {
  const int64_t tail = plan.device == DeviceKind::kCuda ? 1 : 0;
  return plan.micro_batch_bins * (plan.max_documents_per_bin + tail);
}

BatchExtents::BatchExtents(const Plan& plan)
    : tokens(plan.micro_batch_bins * plan.sequence_len),
      documents(MostDocuments(plan)),
      scored_documents(plan.micro_batch_bins * plan.max_documents_per_bin),
      embedding_rows(ExchangesEmbeddingRows(plan) ? EmbeddingRowTokens(plan) : 0) {
  const int64_t chunk = plan.lm_head_chunk_tokens;
  target_rows =
      plan.document_loss.of_scores() ? scored_documents : (tokens + chunk - 1) / chunk * chunk;
}

int64_t RouterPools(const Plan& plan) {
  return plan.router_losses.by_micro_batch ? 1 : plan.micro_batch_bins;
}

int64_t CachedKeyBytes(const Plan& plan) { return CachedBytes(plan, plan.model.head_dim); }
int64_t CachedValueBytes(const Plan& plan) { return CachedBytes(plan, plan.model.value_dim()); }

bool HasAdapterOf(const Plan& plan, model::Kind kind) {
  return std::any_of(plan.parameters.begin(), plan.parameters.end(), [kind](const auto& parameter) {
    return model::IsLoraA(parameter) && parameter.kind == kind;
  });
}

std::string RopeRow(int64_t rope, const char* name) {
  return absl::StrCat(rope == 0 ? "rope." : "rope.window.", name);
}

std::vector<Buffer> BufferRows(const Plan& plan) {
  const BatchExtents n(plan);
  Table table;
  AddStates(plan, ShardMap(plan), &table);
  AddActivations(plan, n, &table);
  AddBackward(plan, n, &table);
  AddHead(plan, n, &table);
  AddBatch(plan, n, &table);
  AddRopes(plan, &table);
  AddRecords(plan, &table);
  AddGeneration(plan, n, &table);
  table.Rows(Fp8Rows(plan, n.tokens));
  return table.Take();
}

}  // namespace coxswain::plan
