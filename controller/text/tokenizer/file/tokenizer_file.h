// The checked content of a tokenizer's files, as plain data.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKENIZER_FILE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKENIZER_FILE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "controller/text/tokenizer/file/added_tokens.h"
#include "controller/text/tokenizer/model/bpe.h"
#include "controller/text/tokenizer/model/unigram.h"
#include "controller/text/tokenizer/steps/pipeline.h"

namespace coxswain::data {

struct TokenizerFile {
  std::string path;                               // path of the file that was read
  std::vector<std::string> tokens;                // by id; empty string: no token has this id
  absl::flat_hash_map<std::string, int32_t> ids;  // token -> id, added tokens included
  // The model. Byte-level: words are bytes, and byte_ids has all 256 bytes of the byte alphabet.
  // Else words are characters, and byte_ids has the tokens "<0x00>" to "<0xFF>"; -1: no such token.
  bool byte_level = false;
  std::optional<std::vector<Unigram::Piece>> unigram;  // the model, instead of `rules`
  std::array<int32_t, 256> byte_ids{};
  std::vector<Bpe::Rule> rules;
  int32_t unknown_id = -1;  // -1: none
  bool fuse_unknown = false;
  // ignore_merges: word -> id of every token of the model; empty without it.
  absl::flat_hash_map<std::string, int32_t> whole_words;
  int32_t model_size = 0;             // entries of the model's vocabulary
  std::vector<AddedToken> added;      // with contents in the form that is matched
  std::vector<std::string> appended;  // tokens that AppendTokens added
  // For added tokens that are matched in another form than their own: the text for the decoder.
  absl::flat_hash_map<int32_t, std::string> decoded_as;
  Pipeline pipeline;
  int32_t eos_id = -1;
  int32_t bos_id = -1;
  int32_t pad_id = -1;
  std::map<std::string, std::string, std::less<>> chat_templates;  // by name
  std::string fingerprint;

  // The id of `token`, or -1.
  int32_t IdOf(std::string_view token) const;
  // InvalidArgument: the id is out of range, or another token has it.
  absl::Status AddToken(std::string_view token, int64_t id);
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_FILE_TOKENIZER_FILE_H_
