#include "controller/text/tokenizer/model/byte_bpe.h"

#include <utility>

namespace coxswain::data {
namespace {

constexpr size_t kOnStack = 64;  // bytes of a word whose symbols need no allocation

}  // namespace

ByteBpe::ByteBpe(const std::array<int32_t, 256>& byte_ids, const std::vector<Bpe::Rule>& rules,
                 absl::flat_hash_map<std::string, int32_t> whole_words)
    : byte_ids_(byte_ids), bpe_(rules), byte_pairs_(1 << 16), whole_words_(std::move(whole_words)) {
  for (int left = 0; left < 256; ++left) {
    for (int right = 0; right < 256; ++right) {
      byte_pairs_[left << 8 | right] = bpe_.Find(byte_ids[left], byte_ids[right]);
    }
  }
}

void ByteBpe::EncodeWord(std::string_view word, std::vector<int32_t>* ids) const {
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
  int32_t on_stack[kOnStack];
  std::vector<int32_t> on_heap;
  int32_t* symbols = on_stack;
  if (word.size() > kOnStack) {
    on_heap.resize(word.size());
    symbols = on_heap.data();
  }
  for (size_t i = 0; i < word.size(); ++i) symbols[i] = byte_ids_[static_cast<uint8_t>(word[i])];
  const auto rule_of_bytes = [&](size_t i) {
    return byte_pairs_[static_cast<uint8_t>(word[i]) << 8 | static_cast<uint8_t>(word[i + 1])];
  };
  bpe_.Merge({symbols, word.size()}, rule_of_bytes, ids);
}

}  // namespace coxswain::data
