// The parts of a Tokenizer: its file, one of three models, and the steps of encoding.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TEXT_ENCODER_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TEXT_ENCODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "controller/text/tokenizer/file/added_tokens.h"
#include "controller/text/tokenizer/file/read_tokenizer_file.h"
#include "controller/text/tokenizer/model/byte_bpe.h"
#include "controller/text/tokenizer/model/character_bpe.h"
#include "controller/text/tokenizer/model/unigram.h"
#include "controller/text/tokenizer/model/word_cache.h"
#include "controller/text/tokenizer/steps/normalizer.h"
#include "controller/text/tokenizer/steps/split_regex.h"
#include "controller/text/tokenizer/text_marks.h"

namespace coxswain::data {

// Keeps the memory of Encode between runs.

// The memory of one running Encode. Results do not depend on which workspace it gets.
struct Workspace {
  RegexScratch regex;
  WordCache cache;
  NormalizerScratch normalizer;
  std::vector<AddedTokenMatcher::Piece> raw_pieces;
  std::vector<AddedTokenMatcher::Piece> normalized_pieces;
};

// Holds as many workspaces as Encodes ran at the same time.
class WorkspacePool {
 public:
  std::unique_ptr<Workspace> Take() {
    {
      MutexLock lock(mu_);
      if (!idle_.empty()) {
        std::unique_ptr<Workspace> workspace = std::move(idle_.back());
        idle_.pop_back();
        return workspace;
      }
    }
    return std::make_unique<Workspace>();
  }

  void Return(std::unique_ptr<Workspace> workspace) {
    MutexLock lock(mu_);
    idle_.push_back(std::move(workspace));
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<Workspace>> idle_ ABSL_GUARDED_BY(mu_);
};

struct TextEncoder {
  using Piece = AddedTokenMatcher::Piece;

  explicit TextEncoder(TokenizerFile read);

  // Splits text at added tokens, normalises it, splits it at added tokens that are matched after
  // normalisation, and cuts it into words. With `special_as_text` special tokens are text; their
  // ids are added to it.
  absl::Status Encode(std::string_view text, std::vector<int32_t>* special_as_text,
                      std::vector<int32_t>* ids) const;
  absl::Status EncodeValid(std::string_view text, std::vector<int32_t>* special_as_text,
                           Workspace* workspace, std::vector<int32_t>* ids) const;
  absl::Status EncodeRaw(std::string_view text, bool is_first,
                         std::vector<int32_t>* special_as_text, Workspace* workspace,
                         std::vector<int32_t>* ids) const;
  absl::Status EncodeNormalized(std::string_view text, bool is_first, Workspace* workspace,
                                std::vector<int32_t>* ids) const;
  void EncodeCharacters(std::string_view word, WordCache* cache, std::vector<int32_t>* ids) const;

  // In encode_marked.cc: the same ids, with the results of Tokenizer::EncodeMarked. Ranges with
  // uniform marks are encoded like texts without marks.
  absl::Status EncodeMarked(std::string_view text, const TextMarks& marks, Workspace* workspace,
                            std::vector<int32_t>* ids, std::vector<bool>* wanted,
                            std::vector<int32_t>* broken) const;
  absl::Status EncodeRawMarked(std::string_view text, bool is_first, const TextMarks& marks,
                               Workspace* workspace, std::vector<int32_t>* ids,
                               std::vector<bool>* wanted, std::vector<int32_t>* broken) const;
  absl::Status EncodeNormalizedMarked(std::string_view text, bool is_first, const TextMarks& marks,
                                      Workspace* workspace, std::vector<int32_t>* ids,
                                      std::vector<bool>* wanted) const;

  TokenizerFile file;
  std::optional<ByteBpe> byte_bpe;  // one of the three is the model
  std::optional<CharacterBpe> character_bpe;
  std::optional<Unigram> unigram;
  AddedTokenMatcher raw_tokens;
  AddedTokenMatcher normalized_tokens;
  std::vector<bool> special;  // by id
  std::vector<bool> counts;   // by id
  mutable WorkspacePool workspaces;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_TEXT_ENCODER_H_
