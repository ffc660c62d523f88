// Passes one dataset through reader, encoder and token store.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_INGEST_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_INGEST_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"
#include "controller/data/findings.h"
#include "controller/data/pipeline/unit_writer.h"
#include "controller/data/prepared_data.h"
#include "controller/data/sources/sampling.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {

// The destination of a record's documents.
struct IngestTarget {
  UnitWriter* writer = nullptr;
  DatasetStats* stats = nullptr;
  int64_t copies = 1;  // 0: the record is left out
};

struct IngestArgs {
  Findings* findings = nullptr;  // of the dataset
  const config::JobSpec* job = nullptr;
  const config::DatasetSpec* dataset = nullptr;
  const Tokenizer* tokenizer = nullptr;
  std::function<IngestTarget(int64_t record_index)> route;  // called by one thread, in order
  std::function<void(int64_t consumed_bytes)> progress;
  Cancelled cancelled;
  int threads = 1;
};

// Adds every document of the dataset to its target, in order of records. InvalidArgument
// "path:line: ...": the first bad record under on_bad_record: error. InvalidArgument with counts:
// the dataset has no trainable token. Cancelled.
absl::Status Ingest(const IngestArgs& args);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_INGEST_H_
