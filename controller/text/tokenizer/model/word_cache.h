// Caches token ids of earlier words: a direct-mapped cache of fixed size, with one cache line per
// word. A word that maps to a used line replaces it. So memory is bounded, and eviction needs no
// search.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_WORD_CACHE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_WORD_CACHE_H_

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

  // A word's bytes, zero-padded, with its length in the last byte. Equal keys are equal words.
  struct Key {
    uint64_t part[4];
    bool operator==(const Key& other) const {
      return ((part[0] ^ other.part[0]) | (part[1] ^ other.part[1]) | (part[2] ^ other.part[2]) |
              (part[3] ^ other.part[3])) == 0;
    }
  };

  WordCache()
      : lines_(static_cast<Line*>(std::aligned_alloc(sizeof(Line), kLines * sizeof(Line)))) {
    if (lines_ == nullptr) throw std::bad_alloc();
    std::memset(static_cast<void*>(lines_.get()), 0, kLines * sizeof(Line));
  }

  // 1 <= word.size() <= kMaxWordBytes.
  static Key MakeKey(std::string_view word) {
    Key key{};
    const char* data = word.data();
    const size_t full = word.size() / 8;  // whole parts
    for (size_t i = 0; i < full; ++i) key.part[i] = Load<uint64_t>(data + i * 8);
    key.part[full] = LoadTail(word, full * 8);
    key.part[3] |= static_cast<uint64_t>(word.size()) << 56;
    return key;
  }

  // Appends the word's ids and returns true; false when the word is not cached.
  bool Find(const Key& key, std::vector<int32_t>* ids) const {
    const Line& line = lines_.get()[Slot(key)];
    if (!(line.key == key)) return false;
    if (line.count == 1) {
      ids->push_back(line.ids[0]);
    } else {
      ids->insert(ids->end(), line.ids, line.ids + line.count);
    }
    return true;
  }

  // Stores `count` ids for the word, unless they are more than kMaxIds.
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

  template <typename T>
  static T Load(const char* data) {
    T value;
    std::memcpy(&value, data, sizeof(T));
    return value;
  }

  // The bytes of `word` from `from` on, fewer than 8, little-endian and zero-padded. Reads nothing
  // outside the word.
  static uint64_t LoadTail(std::string_view word, size_t from) {
    const size_t size = word.size() - from;
    const char* data = word.data() + from;
    if (size == 0) return 0;
    if (from > 0) return Load<uint64_t>(data + size - 8) >> (8 * (8 - size));
    if (size >= 4) {
      const uint64_t high = Load<uint32_t>(data + size - 4);
      return Load<uint32_t>(data) | high << (8 * (size - 4));
    }
    const auto byte = [&](size_t i) {
      return uint64_t{static_cast<unsigned char>(data[i])} << (8 * i);
    };
    return byte(0) | byte(size / 2) | byte(size - 1);
  }

  static size_t Slot(const Key& key) {
    uint64_t mixed = key.part[0] * 0x9E3779B97F4A7C15u ^ key.part[1] * 0xC2B2AE3D27D4EB4Fu ^
                     key.part[2] * 0xD6E8FEB86659FD93u ^ key.part[3] * 0x165667B19E3779F9u;
    mixed ^= mixed >> 32;
    return mixed * 0x9E3779B97F4A7C15u >> (64 - kLinesLog2);
  }

  std::unique_ptr<Line, Free> lines_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_WORD_CACHE_H_
