#include "controller/data/pipeline/unit_writer.h"

#include <vector>

#include "common/config/bin_capacity.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

StoredDocument StoredOf(const EncodedDocument& document) {
  return {.ids = document.ids, .target_bits = document.target_bits};
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnitWriter>> UnitWriter::Create(const config::JobSpec& job,
                                                               const std::string& path) {
  ASSIGN_OR_RETURN(auto store, TokenStoreWriter::Create(path));
  const bool pairs = config::TrainsPreferences(job) && job.method != "kto";
  return std::unique_ptr<UnitWriter>(new UnitWriter(pairs, std::move(store)));
}

absl::Status UnitWriter::Add(std::span<const EncodedDocument> documents, int64_t copies) {
  const size_t of_unit = pairs_ ? 2 : 1;
  for (size_t i = 0; i < documents.size(); i += of_unit) {
    std::vector<StoredDocument> unit;
    for (const EncodedDocument& document : documents.subspan(i, of_unit)) {
      unit.push_back(StoredOf(document));
    }
    RETURN_IF_ERROR(store_->Add(unit, copies));
  }
  return absl::OkStatus();
}

absl::Status UnitWriter::Finish() { return store_->Finish(); }

}  // namespace coxswain::data
