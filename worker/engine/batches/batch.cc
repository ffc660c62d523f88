#include "worker/engine/batches/batch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/plan/extents.h"
#include "common/status_macros.h"
#include "kernels/loss/cross_entropy.h"

namespace coxswain::engine {
namespace {

absl::Status CheckCounts(const BinBatch& bins) {
  const auto sum = [](const std::vector<int32_t>& values) {
    return std::accumulate(values.begin(), values.end(), int64_t{0});
  };
  const auto positive = [](int32_t value) { return value >= 1; };
  if (bins.bin_ids.size() != bins.documents_per_bin.size() ||
      sum(bins.documents_per_bin) != static_cast<int64_t>(bins.document_lengths.size()) ||
      !std::all_of(bins.documents_per_bin.begin(), bins.documents_per_bin.end(), positive)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bins: ", bins.bin_ids.size(), " bin ids, ", bins.documents_per_bin.size(),
                     " document counts adding up to ", sum(bins.documents_per_bin), ", ",
                     bins.document_lengths.size(), " document lengths; each bin has >= 1"));
  }
  if (sum(bins.document_lengths) != static_cast<int64_t>(bins.token_ids.size()) ||
      bins.token_ids.size() != bins.targets.size() ||
      !std::all_of(bins.document_lengths.begin(), bins.document_lengths.end(), positive)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bins: document lengths add up to ", sum(bins.document_lengths), " (each >= 1), ",
        bins.token_ids.size(), " tokens, ", bins.targets.size(), " target flags"));
  }
  return absl::OkStatus();
}

// Finite; a class is one of the head's.
absl::Status CheckValues(const plan::DocumentLoss& loss, const std::vector<float>& values) {
  const bool classes =
      loss.of_scores() && plan::ScoreSpecOf(loss).type == kernels::ScoreTerm::kSingleLabel;
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    if (classes
            ? value >= 0 && value < static_cast<float>(loss.labels) && value == std::trunc(value)
            : std::isfinite(value)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("bins: value ", i, " of the documents is ", value, ", wanted ",
                     classes ? absl::StrCat("a class below ", loss.labels) : "a finite number"));
  }
  return absl::OkStatus();
}

// The last token that is no padding; of nothing else the first. Source: transformers
// modeling_layers.py, GenericForSequenceClassification.
int32_t ScoredPosition(const int32_t* tokens, int32_t length, std::optional<int64_t> pad) {
  int32_t last = length - 1;
  while (last > 0 && pad == tokens[last]) --last;
  return last;
}

// A document of a loss of documents has targets; what must come with it is there.
absl::Status CheckDocuments(const plan::DocumentLoss& loss, const BinBatch& bins, bool scored) {
  if (!loss.any()) return absl::OkStatus();
  const size_t documents = bins.document_lengths.size();
  const size_t references = scored && loss.reference == "kept" ? documents : 0;
  const size_t values = scored ? documents * static_cast<size_t>(loss.values_per_document()) : 0;
  if (bins.references.size() != references || bins.values.size() != values) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bins: ", documents, " documents, ", bins.references.size(), " references, wanted ",
        references, ", and ", bins.values.size(), " values, wanted ", values));
  }
  RETURN_IF_ERROR(CheckValues(loss, bins.values));
  const auto odd = [&](int32_t count) { return count % loss.documents_per_unit() != 0; };
  const auto bin = std::find_if(bins.documents_per_bin.begin(), bins.documents_per_bin.end(), odd);
  if (bin != bins.documents_per_bin.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bins: bin ", bins.bin_ids[static_cast<size_t>(bin - bins.documents_per_bin.begin())],
        " holds ", *bin, " documents, which are no whole pairs"));
  }
  return absl::OkStatus();
}

// The targets of a scored document are its end: `targets` [length], without a gap.
absl::Status CheckScored(const plan::DocumentLoss& loss, size_t document, const uint8_t* targets,
                         int32_t length) {
  if (!loss.any() || loss.of_scores()) return absl::OkStatus();
  int32_t first = 0;
  while (first < length && targets[first] == 0) ++first;
  int32_t end = first;
  while (end < length && targets[end] != 0) ++end;
  const bool whole = !loss.nll_has_prompt() || document % 2 != 0 || end + 1 == length;
  if (first < length && whole) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("bins: document ", document, " of ", length, " tokens has targets [", first,
                   ", ", end, "), wanted some, and for the nll of the prompt all to its end"));
}

absl::Status CheckTokens(const plan::Plan& plan, const BinBatch& bins) {
  size_t token = 0;
  for (size_t document = 0; document < bins.document_lengths.size(); ++document) {
    const size_t end = token + static_cast<size_t>(bins.document_lengths[document]);
    RETURN_IF_ERROR(CheckScored(plan.document_loss, document, &bins.targets[token],
                                bins.document_lengths[document]));
    for (; token < end; ++token) {
      const int32_t id = bins.token_ids[token];
      if (id < 0 || id >= plan.model.vocab_size) {
        return absl::InvalidArgumentError(absl::StrCat("bins: token ", token, " has id ", id,
                                                       ", the vocabulary has ",
                                                       plan.model.vocab_size, " entries"));
      }
    }
    if (bins.targets[end - 1] != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("bins: the last token of document ", document, " (token ", end - 1,
                       ") is marked as having a target; nothing follows it in its document"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBins(const plan::Plan& plan, const BinBatch& bins, bool scored) {
  RETURN_IF_ERROR(CheckCounts(bins));
  RETURN_IF_ERROR(CheckDocuments(plan.document_loss, bins, scored));
  RETURN_IF_ERROR(CheckPolicyRows(plan.policy_loss, bins, scored));
  size_t document = 0;
  for (size_t bin = 0; bin < bins.bin_ids.size(); ++bin) {
    const int64_t documents = bins.documents_per_bin[bin];
    int64_t tokens = 0;
    for (int64_t i = 0; i < documents; ++i) tokens += bins.document_lengths[document++];
    if (documents > plan.max_documents_per_bin || tokens > plan.sequence_len) {
      return absl::InvalidArgumentError(absl::StrCat(
          "bins: bin ", bins.bin_ids[bin], " holds ", documents, " documents and ", tokens,
          " tokens, the plan allows ", plan.max_documents_per_bin, " and ", plan.sequence_len));
    }
  }
  const int64_t size = plan.micro_batch_bins;
  const int64_t own = (static_cast<int64_t>(bins.bin_ids.size()) + size - 1) / size;
  if (bins.micro_steps != 0 && bins.micro_steps < own) {
    return absl::InvalidArgumentError(absl::StrCat("bins: micro_steps is ", bins.micro_steps, ", ",
                                                   bins.bin_ids.size(), " bins take ", own));
  }
  return CheckTokens(plan, bins);
}

BatchStager::Slot::Slot(const plan::Plan& plan)
    : tokens(plan::BatchExtents(plan).tokens),
      positions(plan::BatchExtents(plan).tokens),
      rows(plan::BatchExtents(plan).target_rows),
      labels(plan::BatchExtents(plan).target_rows),
      cu_seqlens(plan::BatchExtents(plan).documents + 1),
      bins(plan::BatchExtents(plan).tokens),
      bin_positions(plan::BatchExtents(plan).tokens),
      row_bins(plan::BatchExtents(plan).target_rows),
      row_positions(plan::BatchExtents(plan).target_rows),
      first_bin(1),
      rope_rows(plan::LongDocumentRow(plan) > 0 ? plan::BatchExtents(plan).tokens : 0),
      padding(plan::BatchExtents(plan).tokens),
      router_factors(2 * plan.micro_batch_bins),
      scored(plan::BatchExtents(plan).scored_documents),
      references(plan::BatchExtents(plan).scored_documents),
      values(plan::BatchExtents(plan).scored_documents * plan.document_loss.values_per_document()),
      policy(plan) {}

BatchStager::BatchStager(const plan::Plan& plan)
    : micro_batch_bins_(plan.micro_batch_bins),
      sequence_len_(plan.sequence_len),
      chunk_(plan.lm_head_chunk_tokens),
      long_row_(plan::LongDocumentRow(plan)),
      documents_(plan::BatchExtents(plan).documents),
      dropout_(plan.lora.rank > 0 && plan.lora.dropout > 0),
      head_dropout_(dropout_ && plan::HasAdapterOf(plan, model::Kind::kHead)),
      padded_(plan.device == DeviceKind::kCuda),
      names_first_bin_(plan.gradient_sum == plan::GradientSum::kStochastic),
      marks_padding_(padded_ && plan.model.mixture.experts > 0),
      document_loss_(plan.document_loss),
      pad_token_(plan.model.pad_token),
      weighs_rows_(plan.weighs_rows()),
      scored_(plan::BatchExtents(plan).scored_documents),
      router_losses_(plan.router_losses),
      ranks_(plan.world_size()) {
  for (std::unique_ptr<Slot>& slot : slots_) slot = std::make_unique<Slot>(plan);
}

// A document's rows with a target are those from first_row on; the last `targets` are scored.
void BatchStager::AppendScored(const BinBatch& bins, size_t document, int64_t first_row,
                               int64_t targets) {
  const auto end = static_cast<int32_t>(slot_->rows.size());
  slot_->scored.push_back({.begin = static_cast<int32_t>(first_row),
                           .scored = end - static_cast<int32_t>(targets),
                           .end = end});
  if (!bins.references.empty()) {
    slot_->references.push_back({.scored = bins.references[document], .all = 0});
  }
}

// The row at the cursor, which is of `bin`.
void BatchStager::AppendRow(const BinBatch& bins, const BinCursor& cursor, int64_t bin) {
  slot_->rows.push_back(static_cast<int32_t>(slot_->tokens.size()));
  slot_->labels.push_back(document_loss_.of_scores() ? kernels::kIgnoreTarget
                                                     : bins.token_ids[cursor.token + 1]);
  if (!head_dropout_) return;
  slot_->row_bins.push_back(static_cast<uint32_t>(bins.bin_ids[static_cast<size_t>(bin)]));
  slot_->row_positions.push_back(position_in_bin_);
}

void BatchStager::AppendDocument(const BinBatch& bins, BinCursor* cursor, int64_t bin,
                                 int32_t length) {
  max_length_ = std::max<int64_t>(max_length_, length);
  const int64_t first_row = slot_->rows.size();
  const size_t document = cursor->document - 1;
  const bool with_prompt = document % 2 == 0 && document_loss_.nll_has_prompt();
  const bool of_scores = document_loss_.of_scores();
  const int32_t last = ScoredPosition(&bins.token_ids[cursor->token], length, pad_token_);
  int64_t targets = 0;
  for (int32_t position = 0; position < length; ++position, ++cursor->token) {
    const bool target = bins.targets[cursor->token] != 0;
    targets += target;
    const bool row =
        of_scores ? position == last : target || (with_prompt && position + 1 < length);
    if (row) AppendRow(bins, *cursor, bin);
    slot_->tokens.push_back(bins.token_ids[cursor->token]);
    slot_->positions.push_back(position);
    if (long_row_ > 0) {
      slot_->rope_rows.push_back(position +
                                 static_cast<int32_t>(length > long_row_ ? long_row_ : 0));
    }
    if (marks_padding_) slot_->padding.push_back(0);
    if (dropout_) {
      slot_->bins.push_back(static_cast<uint32_t>(bins.bin_ids[static_cast<size_t>(bin)]));
      slot_->bin_positions.push_back(position_in_bin_++);
    }
  }
  if (weighs_rows_) AppendScored(bins, document, first_row, targets);
  const auto values = static_cast<size_t>(document_loss_.values_per_document());
  for (size_t i = 0; i < values && !bins.values.empty(); ++i) {
    slot_->values.push_back(bins.values[values * document + i]);
  }
  slot_->policy.Append(bins, cursor->target, targets);
  cursor->target += static_cast<size_t>(targets);
}

// Rows that nothing is learnt from; they continue the document before, or are one of their own.
void BatchStager::AppendPadding(int64_t rows, int32_t first_position) {
  for (int64_t i = 0; i < rows; ++i) {
    slot_->tokens.push_back(0);
    slot_->positions.push_back(first_position + static_cast<int32_t>(i));
    if (long_row_ > 0) slot_->rope_rows.push_back(first_position + static_cast<int32_t>(i));
    if (marks_padding_) slot_->padding.push_back(-1);
    if (dropout_) {
      slot_->bins.push_back(0);
      slot_->bin_positions.push_back(position_in_bin_++);
    }
  }
}

void BatchStager::AppendBin(const BinBatch& bins, BinCursor* cursor) {
  const int64_t first = slot_->tokens.size(), first_target = slot_->rows.size();
  const auto end_document = [this] {
    slot_->cu_seqlens.push_back(static_cast<int32_t>(slot_->tokens.size()));
  };
  position_in_bin_ = 0;
  int32_t length = 0;
  const bool present = cursor->bin < bins.bin_ids.size();
  const int32_t documents = present ? bins.documents_per_bin[cursor->bin] : 0;
  for (int32_t i = 0; i < documents; ++i) {
    if (i > 0) end_document();
    length = bins.document_lengths[cursor->document++];
    AppendDocument(bins, cursor, static_cast<int64_t>(cursor->bin), length);
  }
  if (present) ++cursor->bin;
  const int64_t missing = padded_ ? sequence_len_ - (slot_->tokens.size() - first) : 0;
  if (dense_) {
    AppendPadding(missing, length);
  } else if (missing > 0) {
    if (documents > 0) end_document();
    AppendPadding(missing, 0);
  }
  end_document();
  if (!router_losses_.any()) return;
  slot_->bin_ends.push_back(slot_->tokens.size());
  slot_->bin_targets.push_back(slot_->rows.size() - first_target);
}

// The loss of a bin's routers counts as often as the bin has targets, that of a micro-step once a
// step: both divided by the denominator like the loss of tokens.
void BatchStager::SetRouterFactors(int64_t loss_denominator) {
  const auto add = [this](double weight) {
    slot_->router_factors.push_back(static_cast<float>(router_losses_.balance * weight));
    slot_->router_factors.push_back(static_cast<float>(router_losses_.z * weight));
  };
  if (router_losses_.by_micro_batch) {
    return add(static_cast<double>(loss_denominator) / static_cast<double>(ranks_));
  }
  for (const int64_t targets : slot_->bin_targets) add(static_cast<double>(targets));
}

void BatchStager::PadLists() {
  const bool of_scores = document_loss_.of_scores();
  while (of_scores ? slot_->rows.size() < scored_ : slot_->rows.size() % chunk_ != 0) {
    slot_->rows.push_back(-1);
    slot_->labels.push_back(kernels::kIgnoreTarget);
    if (!head_dropout_) continue;
    slot_->row_bins.push_back(0);
    slot_->row_positions.push_back(0);
  }
  while (weighs_rows_ && slot_->scored.size() < scored_) slot_->scored.push_back({});
  if (dense_) return;
  while (slot_->cu_seqlens.size() < documents_ + 1) {
    slot_->cu_seqlens.push_back(static_cast<int32_t>(slot_->tokens.size()));
  }
}

// Every bin of the next micro-step is one document.
bool BatchStager::NextIsDense(const BinBatch& bins, const BinCursor& cursor) const {
  const size_t end =
      std::min(cursor.bin + static_cast<size_t>(micro_batch_bins_), bins.documents_per_bin.size());
  return std::all_of(bins.documents_per_bin.begin() + static_cast<ptrdiff_t>(cursor.bin),
                     bins.documents_per_bin.begin() + static_cast<ptrdiff_t>(end),
                     [](int32_t documents) { return documents == 1; });
}

MicroBatch BatchStager::StageNext(const BinBatch& bins, const Buffers& buffers,
                                  kernels::Stream* stream, BinCursor* cursor,
                                  int64_t loss_denominator) {
  slot_ = slots_[next_slot_].get();
  next_slot_ = 1 - next_slot_;
  slot_->uploaded.Wait();  // what was staged here two micro-steps ago
  for (PinnedArray<int32_t>* array :
       {&slot_->tokens, &slot_->positions, &slot_->rows, &slot_->labels, &slot_->cu_seqlens}) {
    array->clear();
  }
  for (PinnedArray<uint32_t>* array : {&slot_->bins, &slot_->bin_positions, &slot_->row_bins,
                                       &slot_->row_positions, &slot_->first_bin}) {
    array->clear();
  }
  slot_->rope_rows.clear();
  slot_->padding.clear();
  slot_->router_factors.clear();
  slot_->scored.clear();
  slot_->references.clear();
  slot_->values.clear();
  slot_->policy.Clear();
  slot_->bin_ends.clear();
  slot_->bin_targets.clear();
  slot_->cu_seqlens.push_back(0);
  if (names_first_bin_) {
    slot_->first_bin.push_back(static_cast<uint32_t>(bins.bin_ids[cursor->bin]));
  }
  max_length_ = padded_ ? sequence_len_ : 0;
  dense_ = padded_ && NextIsDense(bins, *cursor);
  for (int64_t i = 0; i < micro_batch_bins_; ++i) {
    if (padded_ || cursor->bin < bins.bin_ids.size()) AppendBin(bins, cursor);
  }
  const bool router_losses = router_losses_.any() && loss_denominator > 0;
  if (router_losses) SetRouterFactors(loss_denominator);
  if (padded_) PadLists();
  slot_->tokens.CopyTo(buffers.tokens, stream);
  slot_->positions.CopyTo(buffers.positions, stream);
  slot_->rope_rows.CopyTo(buffers.rope_rows, stream);
  slot_->rows.CopyTo(buffers.rows, stream);
  slot_->labels.CopyTo(buffers.labels, stream);
  slot_->cu_seqlens.CopyTo(buffers.cu_seqlens, stream);
  slot_->bins.CopyTo(buffers.bins, stream);
  slot_->bin_positions.CopyTo(buffers.bin_positions, stream);
  slot_->row_bins.CopyTo(buffers.row_bins, stream);
  slot_->row_positions.CopyTo(buffers.row_positions, stream);
  slot_->first_bin.CopyTo(buffers.first_bin, stream);
  slot_->padding.CopyTo(buffers.padding, stream);
  slot_->router_factors.CopyTo(buffers.router_factors, stream);
  slot_->scored.CopyTo(buffers.documents.rows, stream);
  slot_->references.CopyTo(buffers.documents.references, stream);
  slot_->values.CopyTo(buffers.documents.values, stream);
  slot_->policy.CopyTo(buffers.policy, stream);
  slot_->uploaded.Record(stream);
  MicroBatch batch;
  batch.tokens = slot_->tokens.size();
  batch.documents = slot_->cu_seqlens.size() - 1;
  batch.max_length = max_length_;
  batch.dense = dense_;
  batch.target_rows = slot_->rows.size();
  batch.scored = document_loss_.of_scores() ? batch.target_rows : slot_->scored.size();
  if (router_losses) batch.bin_ends = &slot_->bin_ends;
  return batch;
}

}  // namespace coxswain::engine
