// Byte-level BPE of one word: bytes in, token ids out.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_BYTE_BPE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_BYTE_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/text/tokenizer/model/bpe.h"

namespace coxswain::data {

class ByteBpe {
 public:
  // `byte_ids`: the token of each byte. `whole_words`: bytes of a token -> its id. Every word is
  // first looked up there. Empty unless the model sets ignore_merges.
  ByteBpe(const std::array<int32_t, 256>& byte_ids, const std::vector<Bpe::Rule>& rules,
          absl::flat_hash_map<std::string, int32_t> whole_words);

  // Appends the ids of `word`, which is not empty.
  void EncodeWord(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  std::array<int32_t, 256> byte_ids_;
  Bpe bpe_;
  std::vector<MergeTable::Merge> byte_pairs_;  // the rules of two single bytes: 65,536
  absl::flat_hash_map<std::string, int32_t> whole_words_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_BYTE_BPE_H_
