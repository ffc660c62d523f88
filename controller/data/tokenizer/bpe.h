// Byte-pair encoding of one word (pre-token): bytes in, token ids out.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_BPE_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "controller/data/tokenizer/merge_table.h"

namespace coxswain::data {

class Bpe {
 public:
  struct Rule {
    int32_t left;
    int32_t right;
    int32_t merged;
  };

  // `byte_ids`: the token of each byte. `rules` in rank order. `whole_words`: bytes of a token ->
  // its id, asked first for every word; empty unless the model says ignore_merges.
  Bpe(const std::array<int32_t, 256>& byte_ids, const std::vector<Rule>& rules,
      absl::flat_hash_map<std::string, int32_t> whole_words);

  // Appends the ids of `word`. Merges by lowest rank, leftmost first among equals, until no pair
  // has a rule. O(n^2) steps up to kShortWord bytes, O(n log n) above. Source: Sennrich et al.
  // 2016, algorithm 1; order as in tokenizers' models/bpe/word.rs.
  void EncodeWord(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  static constexpr size_t kShortWord = 48;

  MergeTable::Merge FindBytePair(uint8_t left, uint8_t right) const {
    return byte_pairs_[left << 8 | right];
  }
  void EncodeShort(std::string_view word, std::vector<int32_t>* ids) const;
  void EncodeLong(std::string_view word, std::vector<int32_t>* ids) const;

  std::array<int32_t, 256> byte_ids_;
  MergeTable merges_;
  std::vector<MergeTable::Merge> byte_pairs_;  // the rules of two single bytes: 65,536
  absl::flat_hash_map<std::string, int32_t> whole_words_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_BPE_H_
