#include "common/files/torch/torch_objects.h"

#include <array>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

enum class Callee { kOrderedDict, kTensor, kParameter, kStorage };

struct TorchClass {
  std::string_view module, name;
  Callee callee;
  ElementType dtype = {};  // of a storage
};

constexpr std::array<TorchClass, 13> kClasses = {{
    {"collections", "OrderedDict", Callee::kOrderedDict},
    {"torch._utils", "_rebuild_tensor_v2", Callee::kTensor},
    {"torch._utils", "_rebuild_parameter", Callee::kParameter},
    {"torch", "HalfStorage", Callee::kStorage, ElementType::kF16},
    {"torch", "BFloat16Storage", Callee::kStorage, ElementType::kBF16},
    {"torch", "FloatStorage", Callee::kStorage, ElementType::kF32},
    {"torch", "DoubleStorage", Callee::kStorage, ElementType::kF64},
    {"torch", "LongStorage", Callee::kStorage, ElementType::kI64},
    {"torch", "IntStorage", Callee::kStorage, ElementType::kI32},
    {"torch", "ShortStorage", Callee::kStorage, ElementType::kI16},
    {"torch", "CharStorage", Callee::kStorage, ElementType::kI8},
    {"torch", "ByteStorage", Callee::kStorage, ElementType::kU8},
    {"torch", "BoolStorage", Callee::kStorage, ElementType::kBool},
}};

template <typename... Parts>
absl::Status BadObject(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

const TorchClass& ClassOf(const PickleValue& value) {
  return kClasses[static_cast<size_t>(value.number)];
}

// Of a tuple of few numbers. One tuple may be the shape of many tensors, each of which copies it.
std::optional<std::vector<int64_t>> NumbersOf(const PickleValue& value, const PickleHeap& heap) {
  constexpr size_t kMostExtents = 16;
  if (value.kind != PickleKind::kTuple) return std::nullopt;
  const std::vector<PickleValue>& items = heap.tuples[static_cast<size_t>(value.number)];
  if (items.size() > kMostExtents) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const PickleValue& item : items) {
    if (item.kind != PickleKind::kNumber) return std::nullopt;
    numbers.push_back(item.number);
  }
  return numbers;
}

// (storage, offset, shape, strides, requires_grad, hooks), perhaps with metadata that say nothing.
absl::StatusOr<PickleValue> RebuildTensor(const std::vector<PickleValue>& arguments,
                                          PickleHeap* heap) {
  const auto kind = [&](size_t i) { return arguments[i].kind; };
  const bool known = (arguments.size() == 6 || arguments.size() == 7) &&
                     kind(0) == PickleKind::kStorage && kind(1) == PickleKind::kNumber &&
                     kind(4) == PickleKind::kBool && kind(5) == PickleKind::kDict;
  const auto shape = known ? NumbersOf(arguments[2], *heap) : std::nullopt;
  const auto strides = known ? NumbersOf(arguments[3], *heap) : std::nullopt;
  if (!shape || !strides) return BadObject("_rebuild_tensor_v2 is called with other arguments");
  if (shape->size() != strides->size()) {
    return BadObject("a tensor has ", shape->size(), " extents and ", strides->size(), " strides");
  }
  if (arguments.size() == 7 && kind(6) != PickleKind::kNone) {
    return BadObject("a tensor is the conjugate or the negative of its storage; save its clone()");
  }
  heap->tensors.push_back({.storage = heap->storages[static_cast<size_t>(arguments[0].number)],
                           .offset = arguments[1].number,
                           .shape = *shape,
                           .strides = *strides});
  return PickleValue{PickleKind::kTensor, static_cast<int64_t>(heap->tensors.size()) - 1};
}

}  // namespace

absl::StatusOr<PickleValue> FindTorchClass(std::string_view module, std::string_view name) {
  for (size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i].module == module && kClasses[i].name == name) {
      return PickleValue{PickleKind::kClass, static_cast<int64_t>(i)};
    }
  }
  return BadObject(
      "it asks for ", OneLine(module, kMostNameBytes), ".", OneLine(name, kMostNameBytes),
      ", and only tensors are read; if you trust the file, load it with torch and save ",
      "model.state_dict() as safetensors");
}

absl::StatusOr<PickleValue> CallTorchClass(const PickleValue& callee, const PickleValue& arguments,
                                           PickleHeap* heap) {
  if (callee.kind != PickleKind::kClass || arguments.kind != PickleKind::kTuple) {
    return BadObject("it calls what is no class");
  }
  const std::vector<PickleValue>& items = heap->tuples[static_cast<size_t>(arguments.number)];
  const TorchClass& called = ClassOf(callee);
  switch (called.callee) {
    case Callee::kOrderedDict:
      if (!items.empty()) return BadObject("OrderedDict is called with arguments");
      heap->dicts.emplace_back();
      return PickleValue{PickleKind::kDict, static_cast<int64_t>(heap->dicts.size()) - 1};
    case Callee::kTensor:
      return RebuildTensor(items, heap);
    case Callee::kParameter:  // (tensor, requires_grad, hooks)
      if (items.size() == 3 && items[0].kind == PickleKind::kTensor) return items[0];
      return BadObject("_rebuild_parameter is called with other arguments");
    case Callee::kStorage:
      break;
  }
  return BadObject("it calls ", std::string(called.name), ", which names a dtype");
}

absl::StatusOr<PickleValue> FindTorchStorage(const PickleValue& id, PickleHeap* heap) {
  const auto bad = [] { return BadObject("a storage is not named as torch.save names one"); };
  if (id.kind != PickleKind::kTuple) return bad();
  const std::vector<PickleValue>& items = heap->tuples[static_cast<size_t>(id.number)];
  constexpr std::array<PickleKind, 5> kKinds = {PickleKind::kText, PickleKind::kClass,
                                                PickleKind::kText, PickleKind::kText,
                                                PickleKind::kNumber};
  if (items.size() != kKinds.size()) return bad();
  for (size_t i = 0; i < kKinds.size(); ++i) {
    if (items[i].kind != kKinds[i]) return bad();
  }
  const TorchClass& type = ClassOf(items[1]);
  if (heap->texts[static_cast<size_t>(items[0].number)] != "storage" ||
      type.callee != Callee::kStorage || items[4].number < 0) {
    return bad();
  }
  heap->storages.push_back({.key = heap->texts[static_cast<size_t>(items[2].number)],
                            .dtype = type.dtype,
                            .elements = items[4].number});
  return PickleValue{PickleKind::kStorage, static_cast<int64_t>(heap->storages.size()) - 1};
}

}  // namespace coxswain
