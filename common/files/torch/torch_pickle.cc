// Source: CPython Lib/pickle.py and Lib/pickletools.py, the opcodes and what they do.
#include "common/files/torch/torch_pickle.h"

#include <array>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/torch/pickle_opcodes.h"
#include "common/files/torch/torch_objects.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr std::string_view kBegin = "\x80\x02";  // PROTO 2
constexpr char kWhatToDo[] =
    "; if you trust the file, load it with torch and save model.state_dict() as safetensors";

template <typename... Parts>
absl::Status BadPickle(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

class PickleMachine {
 public:
  explicit PickleMachine(std::string_view pickle) : pickle_(pickle) { heap.tuples.emplace_back(); }

  // The value that STOP leaves. An error names the byte of its opcode.
  absl::StatusOr<PickleValue> Run();

  PickleHeap heap;  // tuple 0 is the empty one

 private:
  absl::Status Step(uint8_t opcode);
  absl::Status StepNumber(uint8_t opcode);
  absl::Status StepContainer(uint8_t opcode);
  absl::Status StepMemo(uint8_t opcode);

  absl::StatusOr<std::string_view> Take(size_t bytes);
  absl::StatusOr<std::string_view> TakeLine();
  // A little-endian number of at most 8 bytes, signed or not.
  absl::StatusOr<int64_t> TakeNumber(size_t bytes, bool with_sign);

  absl::Status Count();
  absl::Status Push(PickleKind kind, int64_t number = 0);
  absl::StatusOr<PickleValue> Pop();
  absl::StatusOr<std::vector<PickleValue>> PopMany(size_t count);
  absl::StatusOr<std::vector<PickleValue>> PopToMark();
  absl::StatusOr<PickleValue> Top(PickleKind kind);

  absl::Status PushText(size_t length_bytes);
  absl::Status PushTuple(absl::StatusOr<std::vector<PickleValue>> items);
  absl::Status PushClass();
  absl::Status Reduce();
  absl::Status AddToDict(absl::StatusOr<std::vector<PickleValue>> items);

  const std::string_view pickle_;
  size_t at_ = 0;  // of the next byte
  std::vector<PickleValue> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<int64_t, PickleValue> memo_;
  size_t made_ = 0;  // values and memo entries
};

absl::StatusOr<PickleValue> PickleMachine::Run() {
  if (pickle_.size() > kMostPickleBytes) {
    return BadPickle("data.pkl has ", pickle_.size(), " bytes, the limit is ", kMostPickleBytes);
  }
  if (!pickle_.starts_with(kBegin)) {
    return BadPickle("data.pkl does not begin as a pickle of protocol 2, which torch.save writes",
                     kWhatToDo);
  }
  at_ = kBegin.size();
  while (at_ < pickle_.size()) {
    const size_t begin = at_;
    const auto opcode = static_cast<uint8_t>(pickle_[at_++]);
    if (opcode == '.') {
      if (at_ == pickle_.size() && stack_.size() == 1 && marks_.empty()) return stack_[0];
      return BadPickle("data.pkl, byte ", begin, ": STOP does not end it with one value");
    }
    const absl::Status status = Step(opcode);
    if (status.ok()) continue;
    return BadPickle("data.pkl, byte ", begin, ": ", std::string(status.message()));
  }
  return BadPickle("data.pkl ends without STOP at byte ", at_, " (truncated?)");
}

absl::Status PickleMachine::Step(uint8_t opcode) {
  switch (opcode) {
    case 'N':  // NONE
      return Push(PickleKind::kNone);
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return Push(PickleKind::kBool, opcode == 0x88 ? 1 : 0);
    case 'X':  // BINUNICODE
      return PushText(/*length_bytes=*/4);
    case 0x8c:  // SHORT_BINUNICODE
      return PushText(/*length_bytes=*/1);
    case 'c':  // GLOBAL
      return PushClass();
    case 'Q': {  // BINPERSID
      ASSIGN_OR_RETURN(const PickleValue id, Pop());
      ASSIGN_OR_RETURN(const PickleValue storage, FindTorchStorage(id, &heap));
      return Push(storage.kind, storage.number);
    }
    case 'R':  // REDUCE
      return Reduce();
    case 'K':   // BININT1
    case 'M':   // BININT2
    case 'J':   // BININT
    case 0x8a:  // LONG1
    case 'G':   // BINFLOAT
      return StepNumber(opcode);
    case 'q':  // BINPUT
    case 'r':  // LONG_BINPUT
    case 'h':  // BINGET
    case 'j':  // LONG_BINGET
      return StepMemo(opcode);
    default:
      return StepContainer(opcode);
  }
}

absl::Status PickleMachine::StepNumber(uint8_t opcode) {
  if (opcode == 'G') {
    RETURN_IF_ERROR(Take(8).status());
    return Push(PickleKind::kFraction);
  }
  size_t bytes = opcode == 'K' ? 1 : opcode == 'M' ? 2 : 4;
  if (opcode == 0x8a) {
    ASSIGN_OR_RETURN(const int64_t length, TakeNumber(1, /*with_sign=*/false));
    if (length > 8) return BadPickle("a number of ", length, " bytes, 8 are the most");
    bytes = static_cast<size_t>(length);
  }
  ASSIGN_OR_RETURN(const int64_t number,
                   TakeNumber(bytes, /*with_sign=*/opcode == 'J' || opcode == 0x8a));
  return Push(PickleKind::kNumber, number);
}

absl::Status PickleMachine::StepMemo(uint8_t opcode) {
  const bool put = opcode == 'q' || opcode == 'r';
  const bool small = opcode == 'q' || opcode == 'h';
  ASSIGN_OR_RETURN(const int64_t place, TakeNumber(small ? 1 : 4, /*with_sign=*/false));
  if (put) {
    RETURN_IF_ERROR(Count());
    ASSIGN_OR_RETURN(memo_[place], Pop());
    stack_.push_back(memo_[place]);
    return absl::OkStatus();
  }
  const auto found = memo_.find(place);
  if (found == memo_.end()) return BadPickle("nothing was put at place ", place, " of the memo");
  return Push(found->second.kind, found->second.number);
}

absl::Status PickleMachine::StepContainer(uint8_t opcode) {
  switch (opcode) {
    case '(':  // MARK
      if (marks_.size() == kMostPickleMarks) {
        return BadPickle("more than ", kMostPickleMarks, " containers lie in one another");
      }
      marks_.push_back(stack_.size());
      return absl::OkStatus();
    case '}':  // EMPTY_DICT
      heap.dicts.emplace_back();
      return Push(PickleKind::kDict, static_cast<int64_t>(heap.dicts.size()) - 1);
    case ']':  // EMPTY_LIST
      return Push(PickleKind::kList);
    case ')':  // EMPTY_TUPLE
      return Push(PickleKind::kTuple);
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:  // TUPLE3
      return PushTuple(PopMany(opcode - size_t{0x84}));
    case 't':  // TUPLE
      return PushTuple(PopToMark());
    case 's':  // SETITEM
      return AddToDict(PopMany(2));
    case 'u':  // SETITEMS
      return AddToDict(PopToMark());
    case 'a':  // APPEND
      RETURN_IF_ERROR(Pop().status());
      return Top(PickleKind::kList).status();
    case 'e':  // APPENDS
      RETURN_IF_ERROR(PopToMark().status());
      return Top(PickleKind::kList).status();
    case 'b': {  // BUILD: the attributes of an OrderedDict, its _metadata
      ASSIGN_OR_RETURN(const PickleValue attributes, Pop());
      if (attributes.kind != PickleKind::kDict) return BadPickle("attributes that are no dict");
      return Top(PickleKind::kDict).status();
    }
    default:
      return BadPickle("the opcode ", PickleOpcodeName(opcode),
                       " is none that torch.save writes for a state dict", kWhatToDo);
  }
}

absl::StatusOr<std::string_view> PickleMachine::Take(size_t bytes) {
  if (bytes > pickle_.size() - at_) {
    return BadPickle("it needs ", bytes, " bytes, ", pickle_.size() - at_, " are left");
  }
  at_ += bytes;
  return pickle_.substr(at_ - bytes, bytes);
}

absl::StatusOr<std::string_view> PickleMachine::TakeLine() {
  const size_t end = pickle_.find('\n', at_);
  if (end == std::string_view::npos) return BadPickle("a line without end");
  const std::string_view line = pickle_.substr(at_, end - at_);
  at_ = end + 1;
  return line;
}

absl::StatusOr<int64_t> PickleMachine::TakeNumber(size_t bytes, bool with_sign) {
  ASSIGN_OR_RETURN(const std::string_view from, Take(bytes));
  const bool negative =
      with_sign && bytes > 0 && (static_cast<uint8_t>(from[bytes - 1]) & 0x80) != 0;
  int64_t number = negative ? -1 : 0;
  std::memcpy(&number, from.data(), bytes);
  return number;
}

// Each value and each memo entry of a file takes its opcode.
absl::Status PickleMachine::Count() {
  if (++made_ <= kMostPickleValues) return absl::OkStatus();
  return BadPickle("more than ", kMostPickleValues, " values");
}

absl::Status PickleMachine::Push(PickleKind kind, int64_t number) {
  RETURN_IF_ERROR(Count());
  stack_.push_back({kind, number});
  return absl::OkStatus();
}

absl::StatusOr<PickleValue> PickleMachine::Pop() {
  if (stack_.size() == (marks_.empty() ? 0 : marks_.back())) {
    return BadPickle("it takes a value where there is none");
  }
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

absl::StatusOr<std::vector<PickleValue>> PickleMachine::PopMany(size_t count) {
  std::vector<PickleValue> values(count);
  for (size_t i = count; i-- > 0;) {
    ASSIGN_OR_RETURN(values[i], Pop());
  }
  return values;
}

absl::StatusOr<std::vector<PickleValue>> PickleMachine::PopToMark() {
  if (marks_.empty()) return BadPickle("it takes values to a mark, and there is none");
  const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
  std::vector<PickleValue> values(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return values;
}

absl::StatusOr<PickleValue> PickleMachine::Top(PickleKind kind) {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() > floor && stack_.back().kind == kind) return stack_.back();
  return BadPickle("it adds to what is no ", kind == PickleKind::kDict ? "dict" : "list");
}

absl::Status PickleMachine::PushText(size_t length_bytes) {
  ASSIGN_OR_RETURN(const int64_t length, TakeNumber(length_bytes, /*with_sign=*/false));
  ASSIGN_OR_RETURN(const std::string_view text, Take(static_cast<size_t>(length)));
  heap.texts.push_back(text);
  return Push(PickleKind::kText, static_cast<int64_t>(heap.texts.size()) - 1);
}

absl::Status PickleMachine::PushTuple(absl::StatusOr<std::vector<PickleValue>> items) {
  RETURN_IF_ERROR(items.status());
  heap.tuples.push_back(*std::move(items));
  return Push(PickleKind::kTuple, static_cast<int64_t>(heap.tuples.size()) - 1);
}

absl::Status PickleMachine::PushClass() {
  ASSIGN_OR_RETURN(const std::string_view module, TakeLine());
  ASSIGN_OR_RETURN(const std::string_view name, TakeLine());
  ASSIGN_OR_RETURN(const PickleValue found, FindTorchClass(module, name));
  return Push(found.kind, found.number);
}

absl::Status PickleMachine::Reduce() {
  ASSIGN_OR_RETURN(const PickleValue arguments, Pop());
  ASSIGN_OR_RETURN(const PickleValue callee, Pop());
  ASSIGN_OR_RETURN(const PickleValue made, CallTorchClass(callee, arguments, &heap));
  return Push(made.kind, made.number);
}

absl::Status PickleMachine::AddToDict(absl::StatusOr<std::vector<PickleValue>> items) {
  RETURN_IF_ERROR(items.status());
  ASSIGN_OR_RETURN(const PickleValue dict, Top(PickleKind::kDict));
  if (items->size() % 2 != 0) return BadPickle("a key without a value");
  PickleHeap::Dict& pairs = heap.dicts[static_cast<size_t>(dict.number)];
  for (size_t i = 0; i < items->size(); i += 2) {
    pairs.emplace_back((*items)[i], (*items)[i + 1]);
  }
  return absl::OkStatus();
}

std::string_view KindText(PickleKind kind) {
  constexpr std::array<std::string_view, 11> kTexts = {
      "None",   "a bool", "a number", "a fraction", "a text",  "a tuple",
      "a list", "a dict", "a class",  "a storage",  "a tensor"};
  return kTexts[static_cast<size_t>(kind)];
}

// Of a pair of the state dict.
absl::StatusOr<NamedView> ViewOf(const std::pair<PickleValue, PickleValue>& pair,
                                 const PickleHeap& heap) {
  if (pair.first.kind != PickleKind::kText) {
    return BadPickle("a key of its dict is ", std::string(KindText(pair.first.kind)),
                     ", the name of a tensor is a text");
  }
  const std::string_view name = heap.texts[static_cast<size_t>(pair.first.number)];
  if (pair.second.kind != PickleKind::kTensor) {
    return BadPickle("\"", OneLine(name, kMostNameBytes), "\" is ",
                     std::string(KindText(pair.second.kind)),
                     ", and only tensors are read; save model.state_dict() alone");
  }
  return NamedView{.name = std::string(name),
                   .view = heap.tensors[static_cast<size_t>(pair.second.number)]};
}

}  // namespace

absl::StatusOr<std::vector<NamedView>> ReadTorchPickle(std::string_view pickle) {
  PickleMachine machine(pickle);
  ASSIGN_OR_RETURN(const PickleValue top, machine.Run());
  if (top.kind != PickleKind::kDict) {
    return BadPickle("it holds ", std::string(KindText(top.kind)),
                     ", no dict of tensors; save model.state_dict()");
  }
  std::vector<NamedView> views;
  std::unordered_set<std::string> names;
  for (const auto& pair : machine.heap.dicts[static_cast<size_t>(top.number)]) {
    ASSIGN_OR_RETURN(views.emplace_back(), ViewOf(pair, machine.heap));
    if (names.insert(views.back().name).second) continue;
    return BadPickle("the tensor \"", OneLine(views.back().name, kMostNameBytes),
                     "\" is there twice");
  }
  return views;
}

}  // namespace coxswain
