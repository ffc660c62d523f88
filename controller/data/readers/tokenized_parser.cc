#include "controller/data/readers/tokenized_parser.h"

#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/typed_fields.h"

namespace coxswain::data {
namespace {

constexpr int64_t kIgnored = -100;  // a label that is no target

using Numbers = std::vector<int64_t>;

absl::Status WrongEntry(const char* field, size_t i, int64_t entry, const std::string& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("field \"", field, "[", i, "]\" is ", entry, "; it is ", allowed));
}

// One record while its fields are read: an entry for every token of input_ids.
class TokenizedReader {
 public:
  explicit TokenizedReader(simdjson::dom::object from) : from_(from) {}

  absl::StatusOr<TokenizedRecord> Read() {
    ASSIGN_OR_RETURN(ids_, IntegersField(from_, "input_ids", "a token id"));
    for (const int64_t id : ids_) {
      if (id >= 0 && id <= std::numeric_limits<int32_t>::max()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("field \"input_ids\" holds ", id, ", which is no token id"));
    }
    trained_.assign(ids_.size(), true);
    kept_.assign(ids_.size(), true);
    begins_.assign(ids_.size(), false);
    RETURN_IF_ERROR(ReadAttention());
    RETURN_IF_ERROR(ReadLabels());
    for (const char* mask : {"completion_mask", "assistant_masks", "loss_mask"}) {
      RETURN_IF_ERROR(ReadMask(mask));
    }
    RETURN_IF_ERROR(ReadLengths());
    RETURN_IF_ERROR(ReadPositions());
    return Kept();
  }

 private:
  absl::StatusOr<std::optional<Numbers>> OneForEach(const char* field, const char* what) const {
    ASSIGN_OR_RETURN(std::optional<Numbers> numbers, OptionalIntegers(from_, field, what));
    if (numbers && numbers->size() != ids_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", field, "\" has ", numbers->size(),
                                                     " entries, \"input_ids\" ", ids_.size()));
    }
    return numbers;
  }

  // Source: LLaMA-Factory's neat_packing and Axolotl's multipack, whose masks count documents.
  absl::Status ReadAttention() {
    ASSIGN_OR_RETURN(const auto mask, OneForEach("attention_mask", "0 or 1"));
    if (!mask) return absl::OkStatus();
    int64_t document = 0;  // of the last token that is kept
    for (size_t i = 0; i < ids_.size(); ++i) {
      const int64_t entry = (*mask)[i];
      if (entry < 0) return WrongEntry("attention_mask", i, entry, "0, 1 or a document's number");
      kept_[i] = entry != 0;
      if (entry == 0) continue;
      begins_[i] = document != 0 && entry != document;
      document = entry;
    }
    return absl::OkStatus();
  }

  // The label of a token that is left out says nothing.
  absl::Status ReadLabels() {
    ASSIGN_OR_RETURN(const auto labels, OneForEach("labels", "a token id"));
    if (!labels) return absl::OkStatus();
    for (size_t i = 0; i < ids_.size(); ++i) {
      const int64_t label = (*labels)[i];
      if (kept_[i] && label != kIgnored && label != ids_[i]) {
        return WrongEntry("labels", i, label,
                          absl::StrCat(ids_[i], " as in input_ids, or ", kIgnored));
      }
      trained_[i] = label != kIgnored;
    }
    return absl::OkStatus();
  }

  absl::Status ReadMask(const char* field) {
    ASSIGN_OR_RETURN(const auto mask, OneForEach(field, "0 or 1"));
    if (!mask) return absl::OkStatus();
    for (size_t i = 0; i < ids_.size(); ++i) {
      const int64_t entry = (*mask)[i];
      if (entry != 0 && entry != 1) return WrongEntry(field, i, entry, "0 or 1");
      if (entry == 0) trained_[i] = false;
    }
    return absl::OkStatus();
  }

  absl::Status ReadLengths() {
    ASSIGN_OR_RETURN(const auto lengths, OptionalIntegers(from_, "seq_lengths", "a length"));
    if (!lengths) return absl::OkStatus();
    const auto all = static_cast<int64_t>(ids_.size());
    int64_t sum = 0;
    for (size_t i = 0; i < lengths->size(); ++i) {
      const int64_t length = (*lengths)[i];
      if (length < 0 || length > all) {
        return WrongEntry("seq_lengths", i, length, absl::StrCat("0 to ", all));
      }
      if (sum < all) begins_[static_cast<size_t>(sum)] = true;
      sum += length;
    }
    if (sum == all) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("field \"seq_lengths\" adds up to ", sum, ", \"input_ids\" has ", all));
  }

  // A gap is that of tokens which are left out.
  absl::Status ReadPositions() {
    ASSIGN_OR_RETURN(const auto positions, OneForEach("position_ids", "a position"));
    if (!positions) return absl::OkStatus();
    std::optional<size_t> before;  // the last token that is kept
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (!kept_[i]) continue;
      const int64_t position = (*positions)[i];
      if (before && position <= (*positions)[*before]) begins_[i] = true;
      if (before && !begins_[i] && i == *before + 1 && position != (*positions)[*before] + 1) {
        return WrongEntry(
            "position_ids", i, position,
            absl::StrCat((*positions)[*before] + 1, ", or that of a document which begins there"));
      }
      before = i;
    }
    return absl::OkStatus();
  }

  TokenizedRecord Kept() const {
    TokenizedRecord record;
    bool begins = false;
    for (size_t i = 0; i < ids_.size(); ++i) {
      begins |= begins_[i];
      if (!kept_[i]) continue;
      if (begins && !record.ids.empty()) record.begins.push_back(record.ids.size());
      begins = false;
      record.ids.push_back(static_cast<int32_t>(ids_[i]));
      record.trained.push_back(trained_[i]);
    }
    return record;
  }

  const simdjson::dom::object from_;
  Numbers ids_;
  std::vector<bool> trained_, kept_, begins_;
};

}  // namespace

absl::StatusOr<TokenizedRecord> ParseTokenized(simdjson::dom::object from) {
  return TokenizedReader(from).Read();
}

}  // namespace coxswain::data
