#include "controller/data/pipeline/unit_writer.h"

#include <algorithm>

#include "common/config/rules/bin_capacity.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

bool IsTrained(const EncodedDocument& document, size_t token) {
  return token > 0 && (document.target_bits[(token - 1) / 8] >> ((token - 1) % 8) & 1) != 0;
}

size_t FirstTarget(const EncodedDocument& document) {
  size_t token = 0;
  while (!IsTrained(document, token)) ++token;
  return token;
}

StoredDocument StoredOf(const EncodedDocument& document) {
  return {.ids = document.ids, .target_bits = document.target_bits, .values = document.values};
}

}  // namespace

UnitWriter::Unit UnitWriter::UnitOf(const config::JobSpec& job) {
  if (job.method == "reward") return Unit::kPair;
  if (!config::TrainsPreferences(job)) return Unit::kDocument;
  if (job.method != "kto") return Unit::kPair;
  return config::DocumentsPerUnit(job) == 2 ? Unit::kLabelledWithKl : Unit::kLabelled;
}

absl::StatusOr<std::unique_ptr<UnitWriter>> UnitWriter::Create(const config::JobSpec& job,
                                                               const std::string& path) {
  ASSIGN_OR_RETURN(auto store, TokenStoreWriter::Create(path));
  return std::unique_ptr<UnitWriter>(
      new UnitWriter(UnitOf(job), job.sequence_len, std::move(store)));
}

absl::Status UnitWriter::Add(std::span<const EncodedDocument> documents, int64_t copies) {
  if (unit_ == Unit::kPair) {
    const StoredDocument pair[] = {StoredOf(documents[0]), StoredOf(documents[1])};
    return store_->Add(pair, copies);
  }
  for (const EncodedDocument& document : documents) {
    const StoredDocument stored = StoredOf(document);
    RETURN_IF_ERROR(unit_ == Unit::kDocument ? store_->Add({&stored, 1}, copies)
                                             : AddLabelled(document, copies));
  }
  return absl::OkStatus();
}

absl::Status UnitWriter::AddLabelled(const EncodedDocument& document, int64_t copies) {
  if (unit_ == Unit::kLabelled) return WriteLabelled(document, copies);
  if (first_) {
    RETURN_IF_ERROR(WriteLabelled(document, copies));
  } else {
    first_ = {document, copies};
  }
  before_ = {};
  for (size_t token = FirstTarget(document); token < document.ids.size(); ++token) {
    before_.ids.push_back(document.ids[token]);
    before_.trained.push_back(IsTrained(document, token));
  }
  return absl::OkStatus();
}

absl::Status UnitWriter::WriteLabelled(const EncodedDocument& document, int64_t copies) {
  std::vector<StoredDocument> unit = {StoredOf(document)};
  EncodedDocument mismatched;
  if (unit_ == Unit::kLabelledWithKl) {
    mismatched = Mismatched(document);
    unit.push_back(StoredOf(mismatched));
  }
  return store_->Add(unit, copies);
}

// The document's prompt with the completion before, cut to sequence_len.
EncodedDocument UnitWriter::Mismatched(const EncodedDocument& document) const {
  const size_t prompt = FirstTarget(document);
  const size_t length = std::min(prompt + before_.ids.size(), static_cast<size_t>(sequence_len_));
  EncodedDocument mismatched;
  mismatched.values = document.values;
  mismatched.ids.assign(document.ids.begin(), document.ids.begin() + static_cast<int64_t>(prompt));
  mismatched.target_bits.assign((length + 7) / 8, 0);
  for (size_t token = prompt; token < length; ++token) {
    mismatched.ids.push_back(before_.ids[token - prompt]);
    if (!before_.trained[token - prompt]) continue;
    mismatched.target_bits[(token - 1) / 8] |= static_cast<uint8_t>(1 << ((token - 1) % 8));
  }
  return mismatched;
}

absl::Status UnitWriter::Finish() {
  if (first_) RETURN_IF_ERROR(WriteLabelled(first_->document, first_->copies));
  return store_->Finish();
}

}  // namespace coxswain::data
