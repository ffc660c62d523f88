// Segments -> token ids with target marks, cut to the sequence length.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENT_ENCODER_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/record_renderer.h"
#include "controller/data/tokenizer/tokenizer.h"

namespace coxswain::data {

enum class Outcome {
  kKept,
  kTruncated,
  kSplit,     // a piece of one above sequence_len
  kTooLong,   // dropped by excess_length: drop
  kNoTarget,  // dropped: no trainable token, perhaps after truncation or in this piece
};

struct EncodedDocument {
  Outcome outcome = Outcome::kKept;
  std::vector<int32_t> ids;
  std::vector<uint8_t>
      target_bits;  // ceil(ids/8); bit t: token t+1 is a target, never for the last t
  TargetRule rule = TargetRule::kFormat;
  TurnCounts turns = {};  // at the first piece
};

// An encoder is thread-safe once made.
class DocumentEncoder {
 public:
  // Errors as MakeRecordRenderer. `tokenizer` must outlive the encoder; dataset.format is not
  // kAuto.
  static absl::StatusOr<DocumentEncoder> Create(const config::JobSpec& job,
                                                const config::DatasetSpec& dataset,
                                                const Tokenizer& tokenizer);

  // The record's document, or those of its turns under train_on: split, each perhaps in pieces
  // under excess_length: split, where the first token of a piece is no target: it follows nothing
  // there. A conversation has the ids that the tokenizer gives for all of its text at once. Without
  // path and line: InvalidArgument, a bad record; OutOfRange, a document above sequence_len under
  // excess_length: error.
  absl::StatusOr<std::vector<EncodedDocument>> Encode(const Record& record) const;

 private:
  struct Tokens {
    std::vector<int32_t> ids;
    std::vector<bool> trained;
  };

  DocumentEncoder() = default;
  absl::StatusOr<Tokens> Given(const TokenizedRecord& record) const;
  absl::Status AppendPieces(const Tokens& tokens, std::vector<EncodedDocument>* documents) const;
  absl::Status AppendSegment(const Segment& segment, Tokens* tokens) const;
  EncodedDocument Cut(const Tokens& tokens, int64_t begin, int64_t end, Outcome outcome) const;
  absl::Status AppendText(const Segment& segment, std::vector<int32_t>* ids) const;
  absl::Status AppendPlain(std::string_view text, std::vector<int32_t>* ids) const;
  void FindBreakable(const std::string& template_name, const config::DatasetSpec& dataset,
                     const TemplateTokens& tokens);
  absl::Status FindLead();

  const Tokenizer* tokenizer_ = nullptr;
  RecordRenderer renderer_;  // null: records are tokens
  // Put before each text without a template: what the tokenizer's post-processor puts in front.
  // Not of byte-level ones, whose texts began without it before others were read.
  std::vector<int32_t> front_;
  // Tokenizers that write a space before every text would write one into the middle of a document
  // that is encoded in parts. There a text is encoded behind kLead, whose ids are these; empty: the
  // tokenizer writes no such space.
  std::vector<int32_t> lead_;
  std::vector<std::string> breakable_;  // turn markers that EncodePlain would recognise in content
  bool train_on_inputs_ = false;
  int64_t sequence_len_ = 0;
  config::ExcessLength excess_length_ = config::ExcessLength::kTruncate;
};

// What templates may ask of `tokenizer`; refers to it.
TemplateTokens TokensOf(const Tokenizer& tokenizer, const std::string& name);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENT_ENCODER_H_
