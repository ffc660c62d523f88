#include "controller/text/tokenizer/model/bpe.h"

#include <functional>
#include <queue>

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

Bpe::Bpe(const std::vector<Rule>& rules) : merges_(rules.size()) {
  for (const Rule& rule : rules) merges_.Insert(rule.left, rule.right, {rule.rank, rule.merged});
}

void Bpe::MergeShort(Short* word, std::vector<int32_t>* ids) const {
  while (word->count > 1) {
    int best = 0;
    for (int i = 1; i + 1 < word->count; ++i) {
      if (word->ranks[i] < word->ranks[best]) best = i;
    }
    if (word->ranks[best] == MergeTable::kNone) break;
    int32_t* symbols = word->symbols;
    symbols[best] = word->merged[best];
    const int count = --word->count;
    for (int i = best + 1; i < count; ++i) symbols[i] = symbols[i + 1];
    for (int i = best; i + 1 < count; ++i) {
      word->ranks[i] = word->ranks[i + 1];
      word->merged[i] = word->merged[i + 1];
    }
    if (best > 0) word->Set(best - 1, merges_.Find(symbols[best - 1], symbols[best]));
    if (best + 1 < count) word->Set(best, merges_.Find(symbols[best], symbols[best + 1]));
  }
  ids->insert(ids->end(), word->symbols, word->symbols + word->count);
}

void Bpe::MergeLong(std::span<const int32_t> word, std::vector<int32_t>* ids) const {
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
    symbols[i] = {word[i], i - 1, i + 1 < count ? i + 1 : -1};
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
