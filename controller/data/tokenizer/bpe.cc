#include "controller/data/tokenizer/bpe.h"

#include <cstring>
#include <queue>
#include <utility>

namespace coxswain::data {
namespace {

// A token of a long word in a doubly linked list of positions; -1 ends it.
struct Symbol {
  int32_t id;
  int32_t previous;
  int32_t next;
};

// A possible merge of the symbol at `position` with its successor. Stale when the two are no longer
// `left` and `right`.
struct Candidate {
  int32_t rank;
  int32_t position;
  int32_t left;
  int32_t right;
  int32_t merged;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

Bpe::Bpe(const std::array<int32_t, 256>& byte_ids, const std::vector<Rule>& rules,
         absl::flat_hash_map<std::string, int32_t> whole_words)
    : byte_ids_(byte_ids),
      merges_(rules.size()),
      byte_pairs_(1 << 16),
      whole_words_(std::move(whole_words)) {
  for (size_t rank = 0; rank < rules.size(); ++rank) {
    merges_.Insert(rules[rank].left, rules[rank].right,
                   {static_cast<int32_t>(rank), rules[rank].merged});
  }
  for (int left = 0; left < 256; ++left) {
    for (int right = 0; right < 256; ++right) {
      byte_pairs_[left << 8 | right] = merges_.Find(byte_ids[left], byte_ids[right]);
    }
  }
}

void Bpe::EncodeWord(std::string_view word, std::vector<int32_t>* ids) const {
  if (word.size() == 1) {
    ids->push_back(byte_ids_[static_cast<uint8_t>(word[0])]);
    return;
  }
  if (!whole_words_.empty()) {
    const auto found = whole_words_.find(absl::string_view(word.data(), word.size()));
    if (found != whole_words_.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  if (word.size() <= kShortWord) {
    EncodeShort(word, ids);
  } else {
    EncodeLong(word, ids);
  }
}

void Bpe::EncodeShort(std::string_view word, std::vector<int32_t>* ids) const {
  int32_t symbols[kShortWord];
  int32_t ranks[kShortWord];  // of symbol i with symbol i + 1
  int32_t merged[kShortWord];
  int count = static_cast<int>(word.size());
  const auto set = [&](int i, MergeTable::Merge merge) {
    ranks[i] = merge.rank;
    merged[i] = merge.id;
  };
  for (int i = 0; i < count; ++i) symbols[i] = byte_ids_[static_cast<uint8_t>(word[i])];
  for (int i = 0; i + 1 < count; ++i) {
    set(i, FindBytePair(static_cast<uint8_t>(word[i]), static_cast<uint8_t>(word[i + 1])));
  }
  while (count > 1) {
    int best = 0;
    for (int i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == MergeTable::kNone) break;
    symbols[best] = merged[best];
    --count;
    for (int i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (int i = best; i + 1 < count; ++i) {
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    if (best > 0) set(best - 1, merges_.Find(symbols[best - 1], symbols[best]));
    if (best + 1 < count) set(best, merges_.Find(symbols[best], symbols[best + 1]));
  }
  ids->insert(ids->end(), symbols, symbols + count);
}

void Bpe::EncodeLong(std::string_view word, std::vector<int32_t>* ids) const {
  const auto count = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols(word.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int32_t position) {
    if (position < 0 || symbols[position].next < 0) return;
    const int32_t left = symbols[position].id;
    const int32_t right = symbols[symbols[position].next].id;
    const MergeTable::Merge merge = merges_.Find(left, right);
    if (merge.rank != MergeTable::kNone) queue.push({merge.rank, position, left, right, merge.id});
  };
  for (int32_t i = 0; i < count; ++i) {
    symbols[i] = {byte_ids_[static_cast<uint8_t>(word[i])], i - 1, i + 1 < count ? i + 1 : -1};
  }
  for (int32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    if (left.id != top.left || left.next < 0 || symbols[left.next].id != top.right) continue;
    Symbol& right = symbols[left.next];
    left.id = top.merged;
    left.next = right.next;
    if (right.next >= 0) symbols[right.next].previous = top.position;
    right.id = -1;  // consumed: no candidate at its position is valid any more
    offer(left.previous);
    offer(top.position);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next) ids->push_back(symbols[i].id);
}

}  // namespace coxswain::data
