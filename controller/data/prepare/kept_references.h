// The log-probabilities of the documents of prepared data under the reference of a preference job,
// summed over each document's targets, in a file beside the token stores. They are computed once,
// before the first step, and cannot be computed again behind it.
#ifndef COXSWAIN_CONTROLLER_DATA_PREPARE_KEPT_REFERENCES_H_
#define COXSWAIN_CONTROLLER_DATA_PREPARE_KEPT_REFERENCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::data {

// Nats, by document of the store; NaN: not computed, because no step reads it.
struct KeptReferences {
  std::vector<double> train, eval;
};

// Durable before it returns; replaces the file.
absl::Status WriteReferences(const std::string& path, const KeptReferences& references);

// NotFound: there is no file. DataLoss: it is damaged, or of stores with other numbers of
// documents; the message names both.
absl::StatusOr<KeptReferences> ReadReferences(const std::string& path, int64_t train_documents,
                                              int64_t eval_documents);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREPARE_KEPT_REFERENCES_H_
