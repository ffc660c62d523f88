// Segments -> token ids with target marks, cut to the sequence length.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENT_ENCODER_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/readers/record.h"
#include "controller/data/readers/record_notes.h"
#include "controller/data/templates/conversation_notes.h"
#include "controller/data/templates/conversation_template.h"
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
  TurnCounts turns = {};     // at the first piece
  bool answer_cut = false;   // targets were cut off with its end
  int64_t whole_tokens = 0;  // at the first piece: tokens before excess_length cut the document
  size_t rendering = 0;      // of the record's renderings, the one that this is of
};

// An encoder is thread-safe once made.
class DocumentEncoder {
 public:
  // Errors as MakeRecordRenderer. `tokenizer` must outlive the encoder; dataset.format is not
  // kAuto.
  static absl::StatusOr<DocumentEncoder> Create(const config::JobSpec& job,
                                                const config::DatasetSpec& dataset,
                                                const Tokenizer& tokenizer);
  // Encodes prompts alone: of text, or with `chat_template` of conversations.
  static absl::StatusOr<DocumentEncoder> ForPrompts(
      const Tokenizer& tokenizer, const TemplateTokens& tokens,
      std::shared_ptr<const ConversationTemplate> chat_template);

  // The record's document, or those of its turns under train_on: split, each perhaps in pieces
  // under excess_length: split, where the first token of a piece is no target: it follows nothing
  // there. A conversation has the ids that the tokenizer gives for all of its text at once. Without
  // path and line: InvalidArgument, a bad record; OutOfRange, a document above sequence_len under
  // excess_length: error.
  // What of the record is not used as it stands is added to `notes`, which may be null.
  absl::StatusOr<std::vector<EncodedDocument>> Encode(const Record& record,
                                                      RecordNotes* notes = nullptr) const;
  // What a model that was trained on such documents is asked: the text itself, or the conversation
  // up to where its answer begins. Errors as Encode.
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const std::string& text) const;
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(ChatRecord record) const;

 private:
  struct Tokens {
    std::vector<int32_t> ids;
    std::vector<bool> trained;
  };

  DocumentEncoder() = default;
  absl::Status Use(const Tokenizer& tokenizer, const TemplateTokens& tokens,
                   std::shared_ptr<const ConversationTemplate> chat_template);
  absl::Status EncodeGiven(const TokenizedRecord& record,
                           std::vector<EncodedDocument>* documents) const;
  absl::Status AppendPieces(const Tokens& tokens, std::vector<EncodedDocument>* documents) const;
  absl::Status AppendCut(const Tokens& tokens, int64_t length,
                         std::vector<EncodedDocument>* documents) const;
  // Special tokens that became text join `special_as_text`.
  absl::Status AppendSegments(const std::vector<Segment>& segments, Tokens* tokens,
                              std::vector<int32_t>* special_as_text) const;
  absl::Status AppendSegment(const Segment& segment, Tokens* tokens,
                             std::vector<int32_t>* special_as_text) const;
  void PutFront(Tokens* tokens) const;
  EncodedDocument Cut(const Tokens& tokens, int64_t begin, int64_t end, Outcome outcome) const;
  absl::Status AppendText(const Segment& segment, std::vector<int32_t>* ids,
                          std::vector<int32_t>* special_as_text) const;
  absl::Status AppendPlain(std::string_view text, std::vector<int32_t>* ids,
                           std::vector<int32_t>* special_as_text) const;
  absl::Status FindLead();

  const Tokenizer* tokenizer_ = nullptr;
  RecordRenderer renderer_;                                    // null: records are tokens
  std::shared_ptr<const ConversationTemplate> chat_template_;  // null: there are no conversations
  std::optional<ConversationNotes> notes_;                     // likewise
  // Before each text without a template stands what the tokenizer's post-processor puts in front.
  std::vector<int32_t> front_;
  // Tokenizers that write a space before every text would write one into the middle of a document
  // that is encoded in parts. There a text is encoded behind kLead, whose ids are these; empty: the
  // tokenizer writes no such space.
  std::vector<int32_t> lead_;
  std::vector<std::string> breakable_;  // turn markers that EncodePlain would recognise in content
  std::vector<std::string> guarded_;    // those that content must not forge
  bool train_on_inputs_ = false;
  int64_t sequence_len_ = 0;
  config::ExcessLength excess_length_ = config::ExcessLength::kTruncate;
};

// What templates may ask of `tokenizer`; refers to it.
TemplateTokens TokensOf(const Tokenizer& tokenizer, const std::string& name);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENT_ENCODER_H_
