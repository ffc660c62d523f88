#include "controller/text/tokenizer/steps/post_processor.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/text/tokenizer/steps/step_fields.h"

namespace coxswain::data {
namespace {

using simdjson::dom::element;

// The ids that special_tokens gives for a name of the template.
absl::Status AppendSpecial(element json, std::string_view name, std::vector<int32_t>* ids) {
  simdjson::dom::array listed;
  if (json["special_tokens"][name]["ids"].get(listed) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(absl::StrCat("post_processor 'TemplateProcessing' uses '",
                                                   std::string(name),
                                                   "', which its special_tokens do not have"));
  }
  for (const element id : listed) {
    int64_t value = 0;
    if (id.get(value) != simdjson::SUCCESS || value < 0 || value > INT32_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat("post_processor: an id of '", std::string(name), "' is no token id"));
    }
    ids->push_back(static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

absl::Status ReadTemplate(element json, PostProcessor* post_processor) {
  simdjson::dom::array pieces;
  if (json["single"].get(pieces) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError("post_processor 'TemplateProcessing' has no list 'single'");
  }
  PostProcessor own;
  bool behind = false;
  for (const element piece : pieces) {
    std::string_view name;
    if (piece["SpecialToken"]["id"].get(name) != simdjson::SUCCESS) {
      behind = true;  // the text
      continue;
    }
    RETURN_IF_ERROR(AppendSpecial(json, name, behind ? &own.behind : &own.front));
  }
  post_processor->front.insert(post_processor->front.begin(), own.front.begin(), own.front.end());
  post_processor->behind.insert(post_processor->behind.end(), own.behind.begin(), own.behind.end());
  return absl::OkStatus();
}

// "cls" before the text and "sep" behind it, each [token, id].
absl::Status ReadPair(element json, PostProcessor* post_processor) {
  int64_t cls = 0;
  int64_t sep = 0;
  if (json["cls"].at(1).get(cls) != simdjson::SUCCESS ||
      json["sep"].at(1).get(sep) != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(
        "post_processor has no pairs 'cls' and 'sep' of a token and its id");
  }
  post_processor->front.insert(post_processor->front.begin(), static_cast<int32_t>(cls));
  post_processor->behind.push_back(static_cast<int32_t>(sep));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPostProcessor(element json, PostProcessor* post_processor) {
  const std::string type = TextField(json, "type");
  if (type == "ByteLevel") return absl::OkStatus();  // trims offsets alone
  if (type == "TemplateProcessing") return ReadTemplate(json, post_processor);
  if (type == "RobertaProcessing" || type == "BertProcessing")
    return ReadPair(json, post_processor);
  simdjson::dom::array steps;
  if (type == "Sequence" && json["processors"].get(steps) == simdjson::SUCCESS) {
    for (const element step : steps) RETURN_IF_ERROR(ReadPostProcessor(step, post_processor));
    return absl::OkStatus();
  }
  return UnsupportedStep(
      "post_processor", absl::StrCat("'", type, "'"),
      "TemplateProcessing, ByteLevel, RobertaProcessing and BertProcessing, alone or "
      "in a Sequence");
}

}  // namespace coxswain::data
