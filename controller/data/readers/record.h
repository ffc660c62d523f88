// One record of a dataset, checked and typed.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_RECORD_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/data/jinja/value.h"

namespace coxswain::data {

struct AlpacaRecord {
  std::string instruction;
  std::string input;  // empty: none
  std::string output;
  std::string system = {};                                        // empty: none
  std::vector<std::pair<std::string, std::string>> history = {};  // earlier questions and answers
};

struct Message {
  std::string role;           // system, user, assistant, tool, or one that only the template knows
  std::string text;           // the content; empty where it is no text
  bool has_more = false;      // beside its content: tool calls, reasoning
  std::optional<bool> train;  // the record says whether it is a target
  jinja::Value fields;        // what the template sees: a dict of role, content and all others
  // The same with the arguments of tool calls as the text that the record has them as, for
  // templates that add them to text; None: no call has text.
  jinja::Value text_fields = jinja::Value::None();
};

struct ChatRecord {
  std::vector<Message> messages;
  jinja::Value tools = jinja::Value::None();
  jinja::Value kwargs = jinja::Value::None();  // variables of the template, a dict
};

struct PromptRecord {
  std::string prompt;
  std::string completion;
};

struct CompletionRecord {
  std::string text;
};

struct LabelledText {
  std::string text;
  bool target = false;
};

struct SegmentsRecord {
  std::vector<LabelledText> segments;
};

struct TokenizedRecord {
  std::vector<int32_t> ids;
  std::vector<bool> trained;        // as many
  std::vector<size_t> begins = {};  // tokens with which its documents begin, but for the first
};

using Record = std::variant<AlpacaRecord, ChatRecord, PromptRecord, CompletionRecord,
                            SegmentsRecord, TokenizedRecord>;

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_RECORD_H_
