// BPE merge rules by pair of token ids: a flat, open-addressed table, read-only once built.
#ifndef COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_MERGE_TABLE_H_
#define COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_MERGE_TABLE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::data {

class MergeTable {
 public:
  struct Merge {
    int32_t rank = kNone;  // lower merges first
    int32_t id = -1;       // of the joined token
  };
  static constexpr int32_t kNone = INT32_MAX;

  // Room for `count` rules.
  explicit MergeTable(size_t count) : slots_(std::bit_ceil(count * 3 / 2 + 2)) {
    shift_ = 64 - std::countr_zero(slots_.size());
  }

  // A pair given twice keeps the later rule, as Hugging Face's loader does.
  void Insert(int32_t left, int32_t right, Merge merge) {
    *Locate(Key(left, right)) = {Key(left, right), merge};
  }

  // rank == kNone when the two do not merge.
  Merge Find(int32_t left, int32_t right) const {
    const uint64_t key = Key(left, right);
    for (size_t i = Start(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;  // ids are never negative
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t Start(uint64_t key) const { return (key ^ key >> 29) * 0x9E3779B97F4A7C15u >> shift_; }
  Slot* Locate(uint64_t key) {
    size_t i = Start(key);
    while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & (slots_.size() - 1);
    return &slots_[i];
  }

  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TOKENIZER_MODEL_MERGE_TABLE_H_
