// Reads tokenizer.json and tokenizer_config.json into checked, plain data.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_TOKENIZER_FILE_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_TOKENIZER_FILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "controller/data/tokenizer/added_tokens.h"
#include "controller/data/tokenizer/bpe.h"
#include "controller/data/tokenizer/pipeline_spec.h"

namespace coxswain::data {

struct TokenizerFile {
  std::string path;                               // of the tokenizer.json read
  std::vector<std::string> tokens;                // by id; empty string: no token has this id
  std::vector<std::string> bytes;                 // by id: what the token decodes to
  absl::flat_hash_map<std::string, int32_t> ids;  // token -> id, added tokens included
  std::array<int32_t, 256> byte_ids{};            // token of each single byte
  std::vector<Bpe::Rule> rules;
  // ignore_merges: bytes -> id of every token of the model; empty without it.
  absl::flat_hash_map<std::string, int32_t> whole_words;
  int32_t model_size = 0;         // entries of the model's vocabulary
  std::vector<AddedToken> added;  // contents as they are matched
  PipelineSpec pipeline;
  int32_t eos_id = -1;
  int32_t bos_id = -1;
  int32_t pad_id = -1;
  std::string chat_template;
  std::string fingerprint;
};

// Errors as Tokenizer::Load.
absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::string& path);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_TOKENIZER_FILE_H_
