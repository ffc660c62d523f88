#include "controller/data/dataset_parts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::data {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";
constexpr std::string_view kAll = "all";

absl::Status BadSplit(std::string_view text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("split \"", OneLine(text, kMostNameBytes), "\" ", what));
}

struct Bound {
  std::optional<int64_t> value;
  bool percent = false;
};

// "", "-10", "1_000" or "90%". False: it is none.
bool ReadBound(std::string_view text, Bound* bound) {
  if (text.empty()) return true;
  bound->percent = text.back() == '%';
  if (bound->percent) text.remove_suffix(1);
  std::string digits;
  bool digit = false;  // before this character
  for (const char character : text) {
    const bool is_digit = character >= '0' && character <= '9';
    if (!is_digit && !(character == '_' && digit) && !(character == '-' && digits.empty())) {
      return false;
    }
    if (character != '_') digits += character;
    digit = is_digit;
  }
  int64_t value = 0;
  if (!digit || !absl::SimpleAtoi(digits, &value)) return false;
  bound->value = value;
  return true;
}

// "[FROM:TO]" and "(ROUNDING)" behind the name.
absl::Status ReadSlice(std::string_view text, std::string_view rest, SplitSlice* slice) {
  std::optional<std::string_view> rounding;
  if (rest.ends_with(')') && rest.find('(') != std::string_view::npos) {
    const size_t open = rest.find('(');
    rounding = rest.substr(open + 1, rest.size() - open - 2);
    rest = rest.substr(0, open);
  }
  Bound from, to;
  if (!rest.empty()) {
    const size_t colon = rest.find(':');
    const bool closed = rest.front() == '[' && rest.back() == ']' && colon != rest.npos;
    if (!closed || !ReadBound(rest.substr(1, colon - 1), &from) ||
        !ReadBound(rest.substr(colon + 1, rest.size() - colon - 2), &to)) {
      return BadSplit(text, "is not of the form NAME, NAME[FROM:TO] or NAME[FROM%:TO%]");
    }
  }
  *slice = {.split = std::move(slice->split),
            .from = from.value,
            .to = to.value,
            .percent = from.percent || to.percent};
  if (rounding && (*rounding != "closest" || !slice->percent)) {
    return BadSplit(text, absl::StrCat("asks for the rounding ", OneLine(*rounding, kMostNameBytes),
                                       "; percentages are rounded to the closest record"));
  }
  const auto large = [](std::optional<int64_t> percent) {
    return std::abs(percent.value_or(0)) > 100;
  };
  if (slice->percent && (large(slice->from) || large(slice->to))) {
    return BadSplit(text, "goes beyond 100 %");
  }
  return absl::OkStatus();
}

absl::StatusOr<SplitSlice> ReadPart(std::string_view text, std::string_view part) {
  const size_t name_bytes = std::min(part.find_first_of("[("), part.size());
  SplitSlice slice{.split = std::string(part.substr(0, name_bytes)), .from = {}, .to = {}};
  if (!IsSplitName(slice.split)) {
    return BadSplit(text, "does not begin with the name of a split; write for example train[:90%]");
  }
  RETURN_IF_ERROR(ReadSlice(text, part.substr(name_bytes), &slice));
  return slice;
}

// The record at `bound` percent.
int64_t ClosestRecord(int64_t bound, int64_t count) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(bound * count) / 100.0));
}

std::string BoundText(std::optional<int64_t> bound, bool percent) {
  return bound ? absl::StrCat(*bound, percent ? "%" : "") : "";
}

}  // namespace

bool IsSplitName(std::string_view name) {
  bool word = false;  // before this character
  for (const char character : name) {
    const auto byte = static_cast<unsigned char>(character);
    const bool in_word = std::isalnum(byte) != 0 || character == '_' || byte >= 0x80;
    if (!in_word && !(character == '.' && word)) return false;
    word = in_word;
  }
  return word;
}

absl::StatusOr<std::vector<SplitSlice>> ParseSplitExpression(std::string_view text) {
  if (text == kAll) return std::vector<SplitSlice>(1);
  std::vector<SplitSlice> parts;
  std::string_view left = text;
  while (true) {
    const size_t plus = left.find('+');
    std::string_view part = left.substr(0, plus);
    if (!parts.empty()) part.remove_prefix(std::min(part.find_first_not_of(kSpace), part.size()));
    if (plus != std::string_view::npos) {
      part.remove_suffix(part.size() - (part.find_last_not_of(kSpace) + 1));
    }
    ASSIGN_OR_RETURN(parts.emplace_back(), ReadPart(text, part));
    if (plus == std::string_view::npos) return parts;
    left.remove_prefix(plus + 1);
  }
}

std::string SplitText(const SplitSlice& slice) {
  const std::string name = slice.split.empty() ? std::string(kAll) : slice.split;
  if (slice.whole()) return name;
  return absl::StrCat(name, "[", BoundText(slice.from, slice.percent), ":",
                      BoundText(slice.to, slice.percent), "]");
}

absl::StatusOr<RowRange> RowsOf(const SplitSlice& slice, int64_t count) {
  const auto place = [&](std::optional<int64_t> bound, int64_t absent) {
    if (!bound) return absent;
    const int64_t at = slice.percent ? ClosestRecord(*bound, count) : *bound;
    return std::clamp<int64_t>(at < 0 ? count + at : at, 0, count);
  };
  const RowRange rows{.begin = place(slice.from, 0), .end = place(slice.to, count)};
  if (rows.begin < rows.end) return rows;
  return BadSplit(SplitText(slice), absl::StrCat("selects none of ", count, " records"));
}

std::vector<std::string> UsualSplits(bool held_out) {
  if (!held_out) return {"train"};
  return {"validation", "valid", "val", "dev", "eval", "test"};
}

}  // namespace coxswain::data
