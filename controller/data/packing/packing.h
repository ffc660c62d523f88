// Packs documents into bins of fixed capacity. O(n log n), deterministic in (lengths, spec, seed,
// pass).
#ifndef COXSWAIN_CONTROLLER_DATA_PACKING_PACKING_H_
#define COXSWAIN_CONTROLLER_DATA_PACKING_PACKING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"

namespace coxswain::data {

// Bins in training order. documents[offsets[b] .. offsets[b+1]) are the document ids of bin b.
struct Bins {
  std::vector<int64_t> offsets = {0};
  std::vector<int64_t> documents;
  int64_t size() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::span<const int64_t> bin(int64_t b) const {
    return {documents.data() + offsets[b], static_cast<size_t>(offsets[b + 1] - offsets[b])};
  }
};

// Every document lands in exactly one bin; a bin's lengths sum to at most `capacity` and it holds
// at most spec.max_documents_per_bin documents. Documents are first shuffled by (seed, pass).
// InvalidArgument names a document longer than capacity, with both numbers. Cancelled.
absl::StatusOr<Bins> PackDocuments(std::span<const int32_t> lengths, int64_t capacity,
                                   const config::PackingSpec& spec, uint64_t seed, int64_t pass,
                                   const Cancelled& cancelled = {});

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PACKING_PACKING_H_
