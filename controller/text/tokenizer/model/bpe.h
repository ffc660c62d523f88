// Byte-pair encoding: joins neighbouring symbols (token ids) by rules until none applies.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_BPE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_BPE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "controller/text/tokenizer/model/merge_table.h"

namespace coxswain::data {

class Bpe {
 public:
  struct Rule {
    int32_t left;
    int32_t right;
    int32_t merged;
    int32_t rank;  // lower applies first; equal ranks from left to right
  };

  explicit Bpe(const std::vector<Rule>& rules);

  // The rule of two symbols. Without a rule the rank is MergeTable::kNone.
  MergeTable::Merge Find(int32_t left, int32_t right) const { return merges_.Find(left, right); }

  // Merges `symbols` and appends the result. The lowest rank merges first, among equals the
  // leftmost, until no pair has a rule. O(n^2) steps up to kShort symbols, O(n log n) above.
  // Source: Sennrich et al. 2016, algorithm 1; order as in tokenizers' models/bpe/word.rs.
  void Merge(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const {
    Merge(
        symbols, [&](size_t i) { return Find(symbols[i], symbols[i + 1]); }, ids);
  }

  // The same. `first_rule(i)` returns Find of symbols i and i + 1 in a faster way.
  template <typename FirstRule>
  void Merge(std::span<const int32_t> symbols, FirstRule first_rule,
             std::vector<int32_t>* ids) const {
    if (symbols.size() > kShort) {
      MergeLong(symbols, ids);
      return;
    }
    Short word;
    word.count = static_cast<int>(symbols.size());
    for (int i = 0; i < word.count; ++i) word.symbols[i] = symbols[i];
    for (int i = 0; i + 1 < word.count; ++i) word.Set(i, first_rule(i));
    MergeShort(&word, ids);
  }

 private:
  static constexpr size_t kShort = 48;
  struct Short {
    void Set(int i, MergeTable::Merge merge) {
      ranks[i] = merge.rank;
      merged[i] = merge.id;
    }
    int count;
    int32_t symbols[kShort];
    int32_t ranks[kShort];  // of symbol i with symbol i + 1
    int32_t merged[kShort];
  };

  void MergeShort(Short* word, std::vector<int32_t>* ids) const;
  void MergeLong(std::span<const int32_t> symbols, std::vector<int32_t>* ids) const;

  MergeTable merges_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_BPE_H_
