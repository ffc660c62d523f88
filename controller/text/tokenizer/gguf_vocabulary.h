// A tokenizer as a GGUF file holds it. Source: llama.cpp convert_hf_to_gguf.py (get_vocab_base,
// _create_vocab_sentencepiece) and gguf-py vocab.py (SpecialVocab).
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_GGUF_VOCABULARY_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_GGUF_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

struct GgufVocabulary {
  // Source: llama.cpp include/llama.h, llama_token_type.
  enum Type : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

  std::string model;                // "gpt2": byte-level BPE; "llama": BPE of SentencePiece
  std::string pre;                  // how texts are cut into words: "qwen2"
  std::vector<std::string> tokens;  // one for each row of the embedding; "[PAD7]" without a token
  std::vector<int32_t> types;       // Type of each
  std::vector<float> scores;        // of "llama", one for each token
  std::vector<std::string> merges;  // of "gpt2": the two tokens with a space between
  std::optional<uint32_t> bos, eos, pad;
  // Whether the two stand around a text; absent where the tokenizer does not say.
  std::optional<bool> add_bos, add_eos;
  std::optional<bool> add_space_prefix;  // of "llama", where it is not as usual
  std::string chat_template;             // Jinja; empty: none
};

// Of the tokenizer in `directory`; `config_path` is the model's config.json, whose ids stand in for
// those that the tokenizer does not name. `rows`: of the embedding. InvalidArgument: it cannot be
// read, or has more tokens than rows. Unimplemented names what llama.cpp has no name for, and what
// is known.
absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const std::string& directory,
                                                  const std::string& config_path, int64_t rows);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_GGUF_VOCABULARY_H_
