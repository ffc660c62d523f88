#include "controller/planner/recipe/unit_bins.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/rules/bin_capacity.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

absl::Status CheckUnits(std::span<const int32_t> lengths, int64_t of_unit,
                        const config::JobSpec& job) {
  if (static_cast<int64_t>(lengths.size()) % of_unit != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(lengths.size(), " documents are no whole number of units of ", of_unit));
  }
  const bool packs = job.packing.strategy != config::PackingStrategy::kNone;
  if (!packs || job.packing.max_documents_per_bin >= of_unit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "packing.max_documents_per_bin is ", job.packing.max_documents_per_bin, ", and method ",
      job.method, " keeps ", of_unit, " documents together; raise it"));
}

std::vector<int32_t> UnitLengths(std::span<const int32_t> lengths, int64_t of_unit) {
  const auto size = static_cast<size_t>(of_unit);
  std::vector<int32_t> units(lengths.size() / size);
  for (size_t i = 0; i < units.size(); ++i) {
    const auto unit = lengths.subspan(i * size, size);
    units[i] = std::accumulate(unit.begin(), unit.end(), 0);
  }
  return units;
}

// Each unit in the place of its number.
data::Bins DocumentsOf(data::Bins units, int64_t of_unit) {
  if (of_unit == 1) return units;
  data::Bins bins;
  bins.offsets = std::move(units.offsets);
  for (int64_t& offset : bins.offsets) offset *= of_unit;
  bins.documents.reserve(units.documents.size() * static_cast<size_t>(of_unit));
  for (const int64_t unit : units.documents) {
    for (int64_t i = 0; i < of_unit; ++i) bins.documents.push_back(unit * of_unit + i);
  }
  return bins;
}

}  // namespace

absl::StatusOr<data::Bins> PackUnits(std::span<const int32_t> lengths, int64_t of_unit,
                                     const config::JobSpec& job, int64_t pass,
                                     const data::Cancelled& cancelled) {
  RETURN_IF_ERROR(CheckUnits(lengths, of_unit, job));
  config::PackingSpec spec = job.packing;
  if (spec.strategy != config::PackingStrategy::kNone) spec.max_documents_per_bin /= of_unit;
  ASSIGN_OR_RETURN(data::Bins bins,
                   data::PackDocuments(UnitLengths(lengths, of_unit), config::BinCapacity(job),
                                       spec, job.train.seed, pass, cancelled));
  return DocumentsOf(std::move(bins), of_unit);
}

absl::StatusOr<data::Bins> PackUnitsInOrder(std::span<const int32_t> lengths, int64_t of_unit,
                                            const config::JobSpec& job) {
  RETURN_IF_ERROR(CheckUnits(lengths, of_unit, job));
  const std::vector<int32_t> units = UnitLengths(lengths, of_unit);
  const int64_t most = job.packing.strategy == config::PackingStrategy::kNone
                           ? 1
                           : job.packing.max_documents_per_bin / of_unit;
  const int64_t capacity = config::BinCapacity(job);
  data::Bins bins;
  int64_t filled = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i] > capacity) {
      return absl::InvalidArgumentError(absl::StrCat("evaluation document ", i, " has ", units[i],
                                                     " tokens, sequence_len is ",
                                                     job.sequence_len));
    }
    const int64_t in_bin = static_cast<int64_t>(bins.documents.size()) - bins.offsets.back();
    if (in_bin > 0 && (in_bin == most || filled + units[i] > capacity)) {
      bins.offsets.push_back(static_cast<int64_t>(bins.documents.size()));
      filled = 0;
    }
    bins.documents.push_back(static_cast<int64_t>(i));
    filled += units[i];
  }
  if (!units.empty()) bins.offsets.push_back(static_cast<int64_t>(bins.documents.size()));
  return DocumentsOf(std::move(bins), of_unit);
}

}  // namespace coxswain::planner
