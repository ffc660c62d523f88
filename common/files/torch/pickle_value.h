// What the pickle of a file of torch.save is made of, as TorchPickle reads it: values, and the heap
// that they refer to. Nothing in it is run, and a value that is used twice is held once.
#ifndef COXSWAIN_COMMON_FILES_TORCH_PICKLE_VALUE_H_
#define COXSWAIN_COMMON_FILES_TORCH_PICKLE_VALUE_H_

#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "common/element_type.h"

namespace coxswain {

enum class PickleKind : uint8_t {
  kNone,
  kBool,      // number: 0 or 1
  kNumber,    // number
  kFraction,  // nothing reads its value
  kText,      // index of PickleHeap::texts
  kTuple,     // index of PickleHeap::tuples
  kList,      // nothing reads its items
  kDict,      // index of PickleHeap::dicts
  kClass,     // index of the table of torch_objects.cc
  kStorage,   // index of PickleHeap::storages
  kTensor,    // index of PickleHeap::tensors
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t number = 0;  // or the index
};

// The bytes of one or more tensors: entry data/KEY of the archive.
struct TorchStorage {
  std::string_view key;
  ElementType dtype{};
  int64_t elements = 0;  // not negative
};

// A view of a storage, in elements of its dtype. None of the numbers is checked against the others.
struct TorchView {
  TorchStorage storage;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;
};

struct PickleHeap {
  using Dict = std::vector<std::pair<PickleValue, PickleValue>>;  // in the order of the file

  std::vector<std::string_view> texts;  // into the pickle
  std::deque<std::vector<PickleValue>> tuples;
  std::deque<Dict> dicts;
  std::vector<TorchStorage> storages;
  std::vector<TorchView> tensors;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TORCH_PICKLE_VALUE_H_
