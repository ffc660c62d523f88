// Writes the documents of records into a token store, by units: documents that stay together.
#ifndef COXSWAIN_CONTROLLER_DATA_PIPELINE_UNIT_WRITER_H_
#define COXSWAIN_CONTROLLER_DATA_PIPELINE_UNIT_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/data/token_store_writer.h"
#include "controller/data/documents/document_encoder.h"

namespace coxswain::data {

// What is a unit of the job: a document, of classification with its labels; a pair (chosen,
// rejected), of reward with its margin; a completion with its label; or such a completion and the
// mismatched one of its KL: the prompt with the completion of the unit before. The first unit takes
// the completion of the last one, so it is written last.
// Source: TRL 1.10 kto_trainer.py, add_kl_completion_ids, which cycles within a batch.
class UnitWriter {
 public:
  // Errors as TokenStoreWriter::Create.
  static absl::StatusOr<std::unique_ptr<UnitWriter>> Create(const config::JobSpec& job,
                                                            const std::string& path);

  // Writes the units of one record, each `copies` >= 1 times. All documents are to be trained.
  absl::Status Add(std::span<const EncodedDocument> documents, int64_t copies);
  // As TokenStoreWriter::Finish.
  absl::Status Finish();

 private:
  enum class Unit { kDocument, kPair, kLabelled, kLabelledWithKl };

  // A document from its first target on, and what of it are targets.
  struct Completion {
    std::vector<int32_t> ids;
    std::vector<bool> trained;
  };
  struct Waiting {
    EncodedDocument document;
    int64_t copies = 0;
  };

  UnitWriter(Unit unit, int64_t sequence_len, std::unique_ptr<TokenStoreWriter> store)
      : unit_(unit), sequence_len_(sequence_len), store_(std::move(store)) {}
  static Unit UnitOf(const config::JobSpec& job);
  absl::Status AddLabelled(const EncodedDocument& document, int64_t copies);
  absl::Status WriteLabelled(const EncodedDocument& document, int64_t copies);
  EncodedDocument Mismatched(const EncodedDocument& document) const;

  const Unit unit_;
  const int64_t sequence_len_;
  const std::unique_ptr<TokenStoreWriter> store_;
  std::optional<Waiting> first_;  // of a store with KL
  Completion before_;             // that of the unit before
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_PIPELINE_UNIT_WRITER_H_
