// The records of a recipe by which its export is compared with the trained state.
#include <algorithm>

#include "controller/driver/training/recipe_curriculum.h"

namespace coxswain::driver {
namespace {

constexpr size_t kMostRecords = 8;
constexpr int64_t kMostTokens = 512;

bool IsTarget(std::span<const uint8_t> bits, int64_t token) {
  return ((bits[static_cast<size_t>(token / 8)] >> (token % 8)) & 1) != 0;
}

// Of the first `length` tokens of a document: the last of them has none.
int64_t TargetsBefore(const data::TokenStore& store, int64_t document, int64_t length) {
  int64_t targets = 0;
  for (int64_t t = 0; t + 1 < length; ++t) targets += IsTarget(store.target_bits(document), t);
  return targets;
}

}  // namespace

// A score is of the last token.
int64_t RecipeCurriculum::ProofLength(int64_t document) const {
  const int64_t whole = proof_store().length(document);
  return loss_.of_scores() ? whole : std::min(whole, kMostTokens);
}

void RecipeCurriculum::AddProof(std::span<const int64_t> documents) {
  BinSize size{.id = static_cast<int64_t>(proof_sizes_.size())};
  for (const int64_t document : documents) {
    const int64_t length = ProofLength(document);
    const int64_t targets = length == proof_store().length(document)
                                ? proof_store().targets(document)
                                : TargetsBefore(proof_store(), document, length);
    if (targets == 0 && !loss_.of_scores()) return;
    size.tokens += length;
    size.targets += targets;
  }
  if (loss_.any()) size.units = 1;
  proof_documents_.emplace_back(documents.begin(), documents.end());
  proof_sizes_.push_back(size);
}

void RecipeCurriculum::ChooseProof() {
  const bool held_out = data_.eval != nullptr;
  if (!held_out && recipe_.passes() == 0) return;
  const data::Bins& bins = held_out ? recipe_.eval_bins() : recipe_.bins(0);
  const auto unit = loss_.any() ? static_cast<size_t>(loss_.documents_per_unit()) : size_t{1};
  for (int64_t bin = 0; bin < bins.size(); ++bin) {
    const std::vector<int64_t> documents = OfSide(bins.bin(bin), Side::kTrained);
    for (size_t i = 0; i + unit <= documents.size(); i += unit) {
      if (proof_sizes_.size() == kMostRecords) return;
      AddProof(std::span(documents).subspan(i, unit));
    }
  }
}

void RecipeCurriculum::FillProof(int64_t id, v1::Bins* out) const {
  const std::vector<int64_t>& documents = proof_documents_[static_cast<size_t>(id)];
  std::vector<int64_t> lengths;
  for (const int64_t document : documents) {
    lengths.push_back(ProofLength(document));
    if (!loss_.of_scores()) continue;
    const std::span<const float> values = proof_store().values(document);
    out->mutable_values()->Add(values.begin(), values.end());
  }
  AppendCut(proof_store(), id, documents, lengths, out);
}

}  // namespace coxswain::driver
