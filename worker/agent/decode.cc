#include "worker/agent/decode.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "token ids travel little-endian");

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("bins: ", parts...));
}

// Lengths: sums agree, every bin fits. Returns T.
absl::StatusOr<int64_t> CheckLengths(const v1::Bins& bins, const BinLimits& limits) {
  if (bins.documents_per_bin_size() != bins.bin_ids_size()) {
    return Bad(bins.bin_ids_size(), " bin_ids, but ", bins.documents_per_bin_size(),
               " documents_per_bin");
  }
  int64_t tokens = 0;
  int document = 0;
  for (int b = 0; b < bins.bin_ids_size(); ++b) {
    const int64_t documents = bins.documents_per_bin(b);
    if (bins.bin_ids(b) < 0) return Bad("bin_ids[", b, "] is ", bins.bin_ids(b));
    if (documents < 1 || documents > limits.max_documents_per_bin) {
      return Bad("documents_per_bin[", b, "] is ", documents, ", the plan allows 1 to ",
                 limits.max_documents_per_bin);
    }
    if (documents > bins.document_lengths_size() - document) {
      return Bad("documents_per_bin counts more documents than the ", bins.document_lengths_size(),
                 " document_lengths");
    }
    int64_t filled = 0;
    for (int64_t d = 0; d < documents; ++d, ++document) {
      const int32_t length = bins.document_lengths(document);
      if (length < 1) return Bad("document_lengths[", document, "] is ", length);
      filled += length;
    }
    if (filled > limits.sequence_len) {
      return Bad("bin ", bins.bin_ids(b), " has ", filled, " tokens, the plan's capacity is ",
                 limits.sequence_len);
    }
    tokens += filled;
  }
  if (document != bins.document_lengths_size()) {
    return Bad(bins.document_lengths_size(), " document_lengths, but documents_per_bin counts ",
               document);
  }
  return tokens;
}

absl::Status DecodeTokens(const std::string& bytes, int64_t vocab_size,
                          std::vector<int32_t>* token_ids) {
  std::memcpy(token_ids->data(), bytes.data(), bytes.size());
  for (size_t t = 0; t < token_ids->size(); ++t) {
    if ((*token_ids)[t] < 0 || (*token_ids)[t] >= vocab_size) {
      return Bad("token_ids[", t, "] is ", (*token_ids)[t], ", the vocabulary has ", vocab_size);
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeTargets(const std::string& bits, const v1::Bins& bins,
                           std::vector<uint8_t>* targets) {
  const auto bit = [&](size_t t) { return (static_cast<uint8_t>(bits[t / 8]) >> (t % 8)) & 1; };
  for (size_t t = 0; t < targets->size(); ++t) (*targets)[t] = bit(t);
  for (size_t t = targets->size(); t < bits.size() * 8; ++t) {
    if (bit(t)) return Bad("targets bit ", t, " is set beyond the ", targets->size(), " tokens");
  }
  int64_t end = 0;
  for (int d = 0; d < bins.document_lengths_size(); ++d) {
    end += bins.document_lengths(d);
    if ((*targets)[end - 1]) {
      return Bad("targets bit ", end - 1, " is set at the last token of document ", d);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<engine::BinBatch> DecodeBins(const v1::Bins& bins, const BinLimits& limits) {
  ASSIGN_OR_RETURN(const int64_t tokens, CheckLengths(bins, limits));
  if (static_cast<int64_t>(bins.token_ids().size()) != 4 * tokens) {
    return Bad(bins.token_ids().size(), " bytes of token_ids, expected ", 4 * tokens, " for ",
               tokens, " tokens");
  }
  if (static_cast<int64_t>(bins.targets().size()) != (tokens + 7) / 8) {
    return Bad(bins.targets().size(), " bytes of targets, expected ", (tokens + 7) / 8, " for ",
               tokens, " tokens");
  }
  engine::BinBatch batch;
  batch.bin_ids.assign(bins.bin_ids().begin(), bins.bin_ids().end());
  batch.documents_per_bin.assign(bins.documents_per_bin().begin(), bins.documents_per_bin().end());
  batch.document_lengths.assign(bins.document_lengths().begin(), bins.document_lengths().end());
  batch.token_ids.resize(tokens);
  batch.targets.resize(tokens);
  RETURN_IF_ERROR(DecodeTokens(bins.token_ids(), limits.vocab_size, &batch.token_ids));
  RETURN_IF_ERROR(DecodeTargets(bins.targets(), bins, &batch.targets));
  return batch;
}

absl::StatusOr<engine::TrainStep> DecodeTrain(const v1::Train& train, const BinLimits& limits) {
  engine::TrainStep step;
  ASSIGN_OR_RETURN(step.bins, DecodeBins(train.bins(), limits));
  step.step = train.step();
  step.loss_denominator = train.loss_denominator();
  step.learning_rate = train.learning_rate();
  if (step.step < 0) return Bad("step is ", step.step);
  const int64_t targets =
      std::accumulate(step.bins.targets.begin(), step.bins.targets.end(), int64_t{0});
  if (step.loss_denominator < 1 || step.loss_denominator < targets) {
    return Bad("loss_denominator is ", step.loss_denominator, ", this rank alone has ", targets,
               " targets and it must be at least 1");
  }
  if (!std::isfinite(step.learning_rate) || step.learning_rate < 0) {
    return Bad("learning_rate is ", step.learning_rate);
  }
  return step;
}

}  // namespace coxswain::agent
