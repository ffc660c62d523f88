#include "controller/data/readers/fields_read.h"

#include <iterator>

#include "controller/data/readers/classification_parser.h"
#include "controller/data/readers/preference_parser.h"
#include "controller/data/readers/tokenized_parser.h"

namespace coxswain::data {
namespace {

// Fields without a name are those that the job does not read.
std::vector<std::string> Named(std::vector<std::string> names) {
  std::erase(names, "");
  return names;
}

std::vector<std::string> ConversationFields(const config::RecordFields& fields) {
  std::vector<std::string> names = {fields.messages};
  if (fields.messages.empty()) names = {"messages", "conversations"};
  for (const std::string& name : {fields.tools, fields.system}) names.push_back(name);
  names.emplace_back("chat_template_kwargs");
  return Named(std::move(names));
}

}  // namespace

std::vector<std::string> FieldsRead(config::DatasetFormat format,
                                    const config::RecordFields& fields) {
  switch (format) {
    case config::DatasetFormat::kAlpaca:
      return Named(
          {fields.output, fields.instruction, fields.input, fields.system, fields.history});
    case config::DatasetFormat::kCompletion:
      return {fields.text};
    case config::DatasetFormat::kTokenized:
      return {std::begin(kTokenizedFields), std::end(kTokenizedFields)};
    case config::DatasetFormat::kInputOutput:
      return {"segments"};
    case config::DatasetFormat::kPromptCompletion:
      return Named(
          {fields.completion, fields.prompt, fields.tools, fields.system, "chat_template_kwargs"});
    case config::DatasetFormat::kChat:
    case config::DatasetFormat::kSharegpt:
      return ConversationFields(fields);
    case config::DatasetFormat::kPreference:
      return PairFields(fields);
    case config::DatasetFormat::kUnpairedPreference:
      return LabelledFields(fields);
    case config::DatasetFormat::kClassification:
      return Named(ClassifiedFields(fields));
    case config::DatasetFormat::kAuto:
      break;
  }
  return {};
}

}  // namespace coxswain::data
