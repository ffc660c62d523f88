// Data preparation of a job: read -> template -> tokenize -> mask -> token store, cached by
// content.
#ifndef COXSWAIN_CONTROLLER_DATA_PREPARE_H_
#define COXSWAIN_CONTROLLER_DATA_PREPARE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/data/token_store.h"
#include "controller/data/cancelled.h"

namespace coxswain::data {

struct DatasetStats {
  int64_t records_read = 0;
  int64_t documents = 0;  // in the store, copies counted
  int64_t dropped_too_long = 0;
  int64_t truncated = 0;
  int64_t split = 0;        // records cut into pieces, each a document
  int64_t bad_records = 0;  // skipped by on_bad_record: skip
  int64_t no_target = 0;    // dropped: no trainable token
  int64_t tokens = 0;
  int64_t targets = 0;
  int64_t longest_document = 0;  // tokens
};

struct PreparedData {
  std::unique_ptr<TokenStore> train;
  std::unique_ptr<TokenStore> eval;  // null: the job evaluates nothing
  DatasetStats train_stats;
  DatasetStats eval_stats;
  std::string content_hash;  // SHA-256 hex of everything the tokens depend on
  std::vector<std::string> warnings;
};

struct PrepareOptions {
  std::string cache_dir;                          // token stores live here, by content hash
  int threads = 0;                                // 0: all cores
  std::function<void(double fraction)> progress;  // may be null; called by the caller's thread
  Cancelled cancelled;                            // polled per batch, likewise
};

// Files stream: memory stays flat whatever their size. InvalidArgument carries path:line of the
// first bad record, or says that no trainable token is left and why.
absl::StatusOr<PreparedData> PrepareData(const config::JobSpec& job, const PrepareOptions& options);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PREPARE_H_
