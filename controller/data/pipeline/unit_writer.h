// Writes the documents of records into a token store, by units: documents that stay together.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_UNIT_WRITER_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_UNIT_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/data/token_store_writer.h"
#include "controller/data/document_encoder.h"

namespace coxswain::data {

class UnitWriter {
 public:
  // Errors as TokenStoreWriter::Create.
  static absl::StatusOr<std::unique_ptr<UnitWriter>> Create(const config::JobSpec& job,
                                                            const std::string& path);

  // Writes the units of one record, each `copies` >= 1 times: chosen and rejected as one unit,
  // other documents each as one. All documents are to be trained.
  absl::Status Add(std::span<const EncodedDocument> documents, int64_t copies);
  // As TokenStoreWriter::Finish.
  absl::Status Finish();

 private:
  UnitWriter(bool pairs, std::unique_ptr<TokenStoreWriter> store)
      : pairs_(pairs), store_(std::move(store)) {}

  const bool pairs_;
  const std::unique_ptr<TokenStoreWriter> store_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_UNIT_WRITER_H_
