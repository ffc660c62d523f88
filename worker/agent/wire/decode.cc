#include "worker/agent/wire/decode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "token ids travel little-endian");

constexpr int64_t kMostMicroSteps = 1 << 20;

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("bins: ", parts...));
}

// Lengths: sums agree, every bin fits. Returns T.
absl::StatusOr<int64_t> CheckLengths(const v1::Bins& bins, std::span<const int32_t> lengths,
                                     const BinLimits& limits) {
  if (bins.documents_per_bin_size() != bins.bin_ids_size()) {
    return Bad(bins.bin_ids_size(), " bin_ids, but ", bins.documents_per_bin_size(),
               " documents_per_bin");
  }
  int64_t tokens = 0;
  size_t document = 0;
  for (int b = 0; b < bins.bin_ids_size(); ++b) {
    const int64_t documents = bins.documents_per_bin(b);
    if (bins.bin_ids(b) < 0) return Bad("bin_ids[", b, "] is ", bins.bin_ids(b));
    if (documents < 1 || documents > limits.max_documents_per_bin) {
      return Bad("documents_per_bin[", b, "] is ", documents, ", the plan allows 1 to ",
                 limits.max_documents_per_bin);
    }
    if (documents > static_cast<int64_t>(lengths.size() - document)) {
      return Bad("documents_per_bin counts more documents than the ", lengths.size(),
                 " document_lengths");
    }
    int64_t filled = 0;
    for (int64_t d = 0; d < documents; ++d, ++document) {
      const int32_t length = lengths[document];
      if (length < 1) return Bad("document_lengths[", document, "] is ", length);
      filled += length;
    }
    if (filled > limits.sequence_len) {
      return Bad("bin ", bins.bin_ids(b), " has ", filled, " tokens, the plan's capacity is ",
                 limits.sequence_len);
    }
    tokens += filled;
  }
  if (document != lengths.size()) {
    return Bad(lengths.size(), " document_lengths, but documents_per_bin counts ", document);
  }
  return tokens;
}

absl::Status CheckTokens(const std::vector<int32_t>& token_ids, int64_t vocab_size) {
  for (size_t t = 0; t < token_ids.size(); ++t) {
    if (token_ids[t] < 0 || token_ids[t] >= vocab_size) {
      return absl::OutOfRangeError(absl::StrCat("token_ids[", t, "] is ", token_ids[t],
                                                ", the vocabulary has ", vocab_size));
    }
  }
  return absl::OkStatus();
}

// One flag a bit, LSB first.
void Expand(const uint8_t* bits, std::span<uint8_t> flags) {
  for (size_t t = 0; t < flags.size(); ++t) flags[t] = bits[t / 8] >> (t % 8) & 1;
}

absl::Status CheckTargets(const engine::BinBatch& batch) {
  int64_t end = 0;
  for (size_t d = 0; d < batch.document_lengths.size(); ++d) {
    end += batch.document_lengths[d];
    if (batch.targets[end - 1]) {
      return Bad("targets bit ", end - 1, " is set at the last token of document ", d);
    }
  }
  return absl::OkStatus();
}

// A number of each target or none; finite.
absl::Status FillOfTargets(const char* field, const google::protobuf::RepeatedField<float>& values,
                           int64_t targets, std::vector<float>* out) {
  if (!values.empty() && values.size() != targets) {
    return Bad(values.size(), " ", field, ", but ", targets, " targets");
  }
  for (int i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return Bad(field, "[", i, "] is ", values[i]);
  }
  out->assign(values.begin(), values.end());
  return absl::OkStatus();
}

absl::Status FillPolicy(const v1::Bins& bins, engine::BinBatch* batch) {
  const auto targets = std::accumulate(batch->targets.begin(), batch->targets.end(), int64_t{0});
  RETURN_IF_ERROR(FillOfTargets("advantages", bins.advantages(), targets, &batch->advantages));
  RETURN_IF_ERROR(
      FillOfTargets("old_log_probs", bins.old_log_probs(), targets, &batch->old_log_probs));
  return FillOfTargets("reference_log_probs", bins.reference_log_probs(), targets,
                       &batch->reference_log_probs);
}

// What the message itself carries.
absl::Status FillFromMessage(const v1::Bins& bins, engine::BinBatch* batch) {
  const size_t tokens = batch->token_ids.size();
  if (bins.token_ids().size() != 4 * tokens) {
    return Bad(bins.token_ids().size(), " bytes of token_ids, expected ", 4 * tokens, " for ",
               tokens, " tokens");
  }
  if (bins.targets().size() != (tokens + 7) / 8) {
    return Bad(bins.targets().size(), " bytes of targets, expected ", (tokens + 7) / 8, " for ",
               tokens, " tokens");
  }
  if (tokens > 0) {
    std::memcpy(batch->token_ids.data(), bins.token_ids().data(), bins.token_ids().size());
  }
  Expand(reinterpret_cast<const uint8_t*>(bins.targets().data()), batch->targets);
  const auto last = tokens % 8 == 0 ? uint8_t{0} : static_cast<uint8_t>(bins.targets().back());
  for (size_t t = tokens; t % 8 != 0; ++t) {
    if (last >> (t % 8) & 1) {
      return Bad("targets bit ", t, " is set beyond the ", tokens, " tokens");
    }
  }
  return absl::OkStatus();
}

void FillFromStore(const v1::Bins& bins, const data::TokenStore& store, engine::BinBatch* batch) {
  size_t at = 0;
  for (const int64_t document : bins.document_ids()) {
    const std::span<const int32_t> tokens = store.tokens(document);
    std::copy(tokens.begin(), tokens.end(), batch->token_ids.begin() + static_cast<int64_t>(at));
    Expand(store.target_bits(document).data(), {batch->targets.data() + at, tokens.size()});
    at += tokens.size();
  }
}

absl::StatusOr<std::vector<int32_t>> Lengths(const v1::Bins& bins, const data::TokenStore* store) {
  if (bins.document_ids().empty()) {
    return std::vector<int32_t>(bins.document_lengths().begin(), bins.document_lengths().end());
  }
  if (store == nullptr) return Bad("document_ids, but this worker maps no token store");
  std::vector<int32_t> lengths;
  for (const int64_t document : bins.document_ids()) {
    if (document < 0 || document >= store->num_documents()) {
      return Bad("document ", document, ", the token store ", store->path(), " has ",
                 store->num_documents());
    }
    lengths.push_back(store->length(document));
  }
  store->Prefetch({bins.document_ids().data(), lengths.size()});
  return lengths;
}

absl::Status CheckRate(double learning_rate) {
  if (std::isfinite(learning_rate) && learning_rate >= 0) return absl::OkStatus();
  return Bad("learning_rate is ", learning_rate);
}

// What Train and ForwardBackward have in common.
template <typename Message>
absl::Status FillBatch(const Message& message, const BinLimits& limits,
                       const data::TokenStore* store, engine::GradientBatch* batch) {
  ASSIGN_OR_RETURN(batch->bins, DecodeBins(message.bins(), limits, store));
  batch->step = message.step();
  batch->loss_denominator = message.loss_denominator();
  if (batch->step < 0) return Bad("step is ", batch->step);
  const engine::BinBatch& bins = batch->bins;
  const bool of_targets = limits.documents_per_unit == 0;
  const int64_t summands =
      of_targets ? std::accumulate(bins.targets.begin(), bins.targets.end(), int64_t{0})
                 : static_cast<int64_t>(bins.document_lengths.size()) / limits.documents_per_unit;
  if (batch->loss_denominator < 1 || batch->loss_denominator < summands) {
    return Bad("loss_denominator is ", batch->loss_denominator, ", this rank alone has ", summands,
               of_targets ? " targets" : " pairs, records or documents",
               " and it must be at least 1");
  }
  ASSIGN_OR_RETURN(batch->documents, DecodeScalars(message.documents()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<engine::BinBatch> DecodeBins(const v1::Bins& bins, const BinLimits& limits,
                                            const data::TokenStore* store) {
  engine::BinBatch batch;
  ASSIGN_OR_RETURN(batch.document_lengths, Lengths(bins, store));
  if (!bins.document_ids().empty()) RETURN_IF_ERROR(store->Intact());
  ASSIGN_OR_RETURN(const int64_t tokens, CheckLengths(bins, batch.document_lengths, limits));
  batch.bin_ids.assign(bins.bin_ids().begin(), bins.bin_ids().end());
  batch.documents_per_bin.assign(bins.documents_per_bin().begin(), bins.documents_per_bin().end());
  batch.token_ids.resize(tokens);
  batch.targets.resize(tokens);
  batch.micro_steps = bins.micro_steps();
  if (batch.micro_steps < 0 || batch.micro_steps > kMostMicroSteps) {
    return Bad("micro_steps is ", batch.micro_steps, ", allowed: 0 to ", kMostMicroSteps);
  }
  if (bins.document_ids().empty()) {
    RETURN_IF_ERROR(FillFromMessage(bins, &batch));
  } else {
    FillFromStore(bins, *store, &batch);
    RETURN_IF_ERROR(store->Intact());
  }
  batch.references.assign(bins.references().begin(), bins.references().end());
  batch.values.assign(bins.values().begin(), bins.values().end());
  RETURN_IF_ERROR(CheckTokens(batch.token_ids, limits.vocab_size));
  RETURN_IF_ERROR(CheckTargets(batch));
  RETURN_IF_ERROR(FillPolicy(bins, &batch));
  return batch;
}

absl::StatusOr<kernels::DocumentScalars> DecodeScalars(const v1::DocumentScalars& scalars) {
  for (const double value : {scalars.nll_ratio(), scalars.kl()}) {
    if (!std::isfinite(value) || value < 0) {
      return Bad("documents has nll_ratio ", scalars.nll_ratio(), " and kl ", scalars.kl(),
                 ", both finite and at least 0");
    }
  }
  return kernels::DocumentScalars{.nll_ratio = scalars.nll_ratio(), .kl = scalars.kl()};
}

absl::StatusOr<engine::GradientBatch> DecodeBatch(const v1::ForwardBackward& batch,
                                                  const BinLimits& limits,
                                                  const data::TokenStore* store) {
  engine::GradientBatch out;
  RETURN_IF_ERROR(FillBatch(batch, limits, store, &out));
  out.last = batch.last();
  return out;
}

absl::StatusOr<engine::UpdateStep> DecodeUpdate(const v1::Update& update) {
  const engine::UpdateStep out{update.step(), update.learning_rate()};
  if (out.step < 0) return Bad("step is ", out.step);
  RETURN_IF_ERROR(CheckRate(out.learning_rate));
  return out;
}

absl::StatusOr<engine::TrainStep> DecodeTrain(const v1::Train& train, const BinLimits& limits,
                                              const data::TokenStore* store) {
  engine::TrainStep step;
  RETURN_IF_ERROR(FillBatch(train, limits, store, &step));
  step.learning_rate = train.learning_rate();
  RETURN_IF_ERROR(CheckRate(step.learning_rate));
  return step;
}

}  // namespace coxswain::agent
