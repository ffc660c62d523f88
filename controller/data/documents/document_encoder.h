// Turns records into documents: token ids with target marks, cut to the sequence length.
#ifndef COXSWAIN_CONTROLLER_DATA_DOCUMENTS_DOCUMENT_ENCODER_H_
#define COXSWAIN_CONTROLLER_DATA_DOCUMENTS_DOCUMENT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/class_labels.h"
#include "controller/data/documents/record_renderer.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/conversation_notes.h"
#include "controller/text/templates/conversation_template.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace coxswain::data {

enum class Outcome {
  kKept,
  kTruncated,
  kSplit,         // a piece of a document above sequence_len
  kTooLong,       // dropped by excess_length: drop
  kNoTarget,      // dropped: no trainable token, perhaps after truncation or in this piece
  kEqual,         // dropped: the two sides of a pair are the same tokens
  kEqualOnceCut,  // dropped: they are, once cut to sequence_len
};

// What a document is in its record.
enum class DocumentRole { kAlone, kChosen, kRejected, kDesirable, kUndesirable };

struct EncodedDocument {
  Outcome outcome = Outcome::kKept;
  DocumentRole role = DocumentRole::kAlone;
  std::vector<int32_t> ids;
  std::vector<uint8_t>
      target_bits;  // ceil(ids/8); bit t: token t+1 is a target, never for the last t
  TargetRule rule = TargetRule::kFormat;
  TurnCounts turns = {};     // set at the first piece
  bool answer_cut = false;   // targets were cut off with the document's end
  int64_t whole_tokens = 0;  // set at the first piece: tokens before excess_length cut it
  size_t rendering = 0;      // index of its rendering among those of the record
  // What the token store keeps beside it. Of kto: 1 where it is desirable, else 0. Of reward: of
  // the chosen side the margin, of the rejected one 0. Of classification: class_labels.h. Else
  // none.
  std::vector<float> values = {};
};

// An encoder is thread-safe once made.
class DocumentEncoder {
 public:
  // Errors as MakeRecordRenderer. `tokenizer` must outlive the encoder; dataset.format is not
  // kAuto.
  static absl::StatusOr<DocumentEncoder> Create(const config::JobSpec& job,
                                                const config::DatasetSpec& dataset,
                                                const Tokenizer& tokenizer);
  // An encoder for prompts only: text, or conversations if `chat_template` is given.
  static absl::StatusOr<DocumentEncoder> ForPrompts(
      const Tokenizer& tokenizer, const TemplateTokens& tokens,
      std::shared_ptr<const ConversationTemplate> chat_template);

  // The record's document; under train_on: split one document for each trained turn; of a pair the
  // chosen side and the rejected one, which are kept or dropped together, unless job.method is kto:
  // then they are a good and a bad completion. Of preferences all tokens from the first to the last
  // target are targets, whoever speaks. Of classification all tokens, as a model reads them: with
  // those that the post-processor puts around a text, which truncation keeps. A text of one token
  // is kept, though it has no target. Under excess_length: split a document may become several
  // pieces. The first token of a piece is no target, because nothing precedes it there. The ids of
  // a conversation are those of its whole text tokenized at once. Errors have no path and line.
  // InvalidArgument: a bad record. OutOfRange: a document above sequence_len under excess_length:
  // error. `notes` gets the parts of the record that are ignored or changed; it may be null.
  absl::StatusOr<std::vector<EncodedDocument>> Encode(const Record& record,
                                                      RecordNotes* notes = nullptr) const;
  // The prompt for a model that was trained on such documents: the text itself, or the conversation
  // up to the beginning of the answer. Errors as Encode.
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const std::string& text) const;
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(ChatRecord record) const;

 private:
  struct Tokens {
    std::vector<int32_t> ids;
    std::vector<bool> trained;
    size_t tail = 0;  // last tokens, which truncation keeps
  };

  DocumentEncoder() = default;
  absl::Status Use(const Tokenizer& tokenizer, const TemplateTokens& tokens,
                   std::shared_ptr<const ConversationTemplate> chat_template);
  absl::Status EncodeGiven(const TokenizedRecord& record,
                           std::vector<EncodedDocument>* documents) const;
  absl::Status AppendPieces(const Tokens& tokens, std::vector<EncodedDocument>* documents) const;
  absl::Status AppendCut(const Tokens& tokens, int64_t length,
                         std::vector<EncodedDocument>* documents) const;
  // Special tokens that became text are added to `special_as_text`.
  absl::Status AppendSegments(const std::vector<Segment>& segments, Tokens* tokens,
                              std::vector<int32_t>* special_as_text) const;
  absl::Status AppendSegment(const Segment& segment, Tokens* tokens,
                             std::vector<int32_t>* special_as_text) const;
  absl::Status SetRoles(const Record& record, std::vector<EncodedDocument>* documents) const;
  void PutFront(Tokens* tokens) const;
  void PutBehind(Tokens* tokens) const;
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
  // The ids that the tokenizer's post-processor puts in front of each text without a template.
  std::vector<int32_t> front_;
  // Some tokenizers write a space before every text. In a document that is encoded in parts, that
  // space would come in the middle. Such parts are encoded after kLead, which has these ids. Empty:
  // the tokenizer writes no such space.
  std::vector<int32_t> lead_;
  std::vector<std::string> breakable_;  // turn markers that EncodePlain would recognise in content
  std::vector<std::string> guarded_;    // markers that content must not forge
  bool train_on_inputs_ = false;
  bool unpairs_ = false;                // the sides of a pair are documents of their own
  bool margins_ = false;                // of pairs are kept
  std::optional<ClassLabels> classes_;  // of a source of classification
  int64_t sequence_len_ = 0;
  config::ExcessLength excess_length_ = config::ExcessLength::kTruncate;
};

// The tokens of `tokenizer` that templates may ask for. The result refers to `tokenizer`.
TemplateTokens TokensOf(const Tokenizer& tokenizer, const std::string& name);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DOCUMENTS_DOCUMENT_ENCODER_H_
