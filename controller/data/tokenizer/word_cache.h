// Token ids of words seen before: a direct-mapped cache of fixed size, one cache line a word. A
// word that maps to a taken line replaces it, so memory is bounded and nothing is ever evicted by
// search.
#ifndef COXSWAIN_CONTROLLER_DATA_TOKENIZER_WORD_CACHE_H_
#define COXSWAIN_CONTROLLER_DATA_TOKENIZER_WORD_CACHE_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

namespace coxswain::data {

class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 31;
  static constexpr int kMaxIds = 7;

  // A word's bytes, zero-padded, its length in the last byte: equal keys are equal words.
  struct Key {
    uint64_t part[4];
  };

  WordCache() : lines_(static_cast<Line*>(std::calloc(kLines, sizeof(Line)))) {
    if (lines_ == nullptr) throw std::bad_alloc();
  }

  // 1 <= word.size() <= kMaxWordBytes.
  static Key MakeKey(std::string_view word) {
    Key key{};
    std::memcpy(&key, word.data(), word.size());
    reinterpret_cast<unsigned char*>(&key)[kMaxWordBytes] = static_cast<unsigned char>(word.size());
    return key;
  }

  // Appends the word's ids and returns true, or returns false.
  bool Find(const Key& key, std::vector<int32_t>* ids) const {
    const Line& line = lines_.get()[Slot(key)];
    if (std::memcmp(&line.key, &key, sizeof(Key)) != 0) return false;
    ids->insert(ids->end(), line.ids, line.ids + line.count);
    return true;
  }

  // Keeps `count` ids for the word; more than kMaxIds are not kept.
  void Insert(const Key& key, const int32_t* ids, size_t count) {
    if (count > kMaxIds) return;
    Line& line = lines_.get()[Slot(key)];
    line.key = key;
    line.count = static_cast<int32_t>(count);
    std::memcpy(line.ids, ids, count * sizeof(int32_t));
  }

 private:
  static constexpr int kLinesLog2 = 16;
  static constexpr size_t kLines = size_t{1} << kLinesLog2;
  struct Line {
    Key key;  // all zero: free (no word has length 0)
    int32_t count;
    int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Line) == 64);
  struct Free {
    void operator()(Line* lines) const { std::free(lines); }
  };

  static size_t Slot(const Key& key) {
    uint64_t mixed = key.part[0] * 0x9E3779B97F4A7C15u ^ key.part[1] * 0xC2B2AE3D27D4EB4Fu ^
                     key.part[2] * 0xD6E8FEB86659FD93u ^ key.part[3] * 0x165667B19E3779F9u;
    mixed ^= mixed >> 32;
    return mixed * 0x9E3779B97F4A7C15u >> (64 - kLinesLog2);
  }

  std::unique_ptr<Line, Free> lines_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TOKENIZER_WORD_CACHE_H_
