#include "worker/engine/batch.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

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

absl::Status CheckTokens(const plan::Plan& plan, const BinBatch& bins) {
  size_t token = 0;
  for (size_t document = 0; document < bins.document_lengths.size(); ++document) {
    const size_t end = token + static_cast<size_t>(bins.document_lengths[document]);
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

template <typename T>
void Copy(T* device, const std::vector<T>& host, kernels::Stream* stream) {
  if (host.empty()) return;
  kernels::CopyMemory(device, host.data(), static_cast<int64_t>(host.size() * sizeof(T)), stream);
}

}  // namespace

absl::Status CheckBins(const plan::Plan& plan, const BinBatch& bins) {
  RETURN_IF_ERROR(CheckCounts(bins));
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
  return CheckTokens(plan, bins);
}

BatchStager::BatchStager(const plan::Plan& plan)
    : micro_batch_bins_(plan.micro_batch_bins),
      dropout_(plan.lora.rank > 0 && plan.lora.dropout > 0) {
  const Extents n(plan);
  for (std::vector<int32_t>* array : {&tokens_, &positions_, &rows_, &labels_}) {
    array->reserve(static_cast<size_t>(n.tokens));
  }
  cu_seqlens_.reserve(static_cast<size_t>(n.documents) + 1);
  if (dropout_) {
    bins_.reserve(static_cast<size_t>(n.tokens));
    bin_positions_.reserve(static_cast<size_t>(n.tokens));
  }
}

void BatchStager::AppendBin(const BinBatch& bins, BinCursor* cursor) {
  uint32_t position_in_bin = 0;
  for (int32_t i = 0; i < bins.documents_per_bin[cursor->bin]; ++i) {
    const int32_t length = bins.document_lengths[cursor->document++];
    max_length_ = std::max<int64_t>(max_length_, length);
    for (int32_t position = 0; position < length; ++position, ++cursor->token) {
      if (bins.targets[cursor->token] != 0) {
        rows_.push_back(static_cast<int32_t>(tokens_.size()));
        labels_.push_back(bins.token_ids[cursor->token + 1]);
      }
      tokens_.push_back(bins.token_ids[cursor->token]);
      positions_.push_back(position);
      if (dropout_) {
        bins_.push_back(static_cast<uint32_t>(bins.bin_ids[cursor->bin]));
        bin_positions_.push_back(position_in_bin++);
      }
    }
    cu_seqlens_.push_back(static_cast<int32_t>(tokens_.size()));
  }
  ++cursor->bin;
}

MicroBatch BatchStager::StageNext(const BinBatch& bins, const Buffers& buffers,
                                  kernels::Stream* stream, BinCursor* cursor) {
  for (std::vector<int32_t>* array : {&tokens_, &positions_, &rows_, &labels_, &cu_seqlens_}) {
    array->clear();
  }
  bins_.clear();
  bin_positions_.clear();
  cu_seqlens_.push_back(0);
  max_length_ = 0;
  for (int64_t i = 0; i < micro_batch_bins_ && cursor->bin < bins.bin_ids.size(); ++i) {
    AppendBin(bins, cursor);
  }
  Copy(buffers.tokens, tokens_, stream);
  Copy(buffers.positions, positions_, stream);
  Copy(buffers.rows, rows_, stream);
  Copy(buffers.labels, labels_, stream);
  Copy(buffers.cu_seqlens, cu_seqlens_, stream);
  Copy(buffers.bins, bins_, stream);
  Copy(buffers.bin_positions, bin_positions_, stream);
  MicroBatch batch;
  batch.tokens = static_cast<int64_t>(tokens_.size());
  batch.documents = static_cast<int64_t>(cu_seqlens_.size()) - 1;
  batch.max_length = max_length_;
  batch.target_rows = static_cast<int64_t>(rows_.size());
  return batch;
}

}  // namespace coxswain::engine
