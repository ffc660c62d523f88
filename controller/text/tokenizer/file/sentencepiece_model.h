// A tokenizer.model: the protocol buffer of SentencePiece. Source: sentencepiece_model.proto.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_SENTENCEPIECE_MODEL_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_SENTENCEPIECE_MODEL_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2, kWord = 3, kCharacter = 4 };
  enum class Type {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
  };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };

  std::vector<Piece> pieces;  // by id
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  std::string charsmap;  // precompiled_charsmap of the normalizer; empty: the identity
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

// InvalidArgument: `bytes` are no such model, or the model is damaged.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_SENTENCEPIECE_MODEL_H_
