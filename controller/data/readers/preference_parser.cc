#include "controller/data/readers/preference_parser.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/data/readers/conversation_parser.h"
#include "controller/data/readers/preference_sides.h"
#include "controller/data/readers/typed_fields.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;
using config::PromptStyle;

constexpr char kQuestion[] = "question";
constexpr char kResponse[] = "response";

absl::Status BadPreference(const std::string& what) { return absl::InvalidArgumentError(what); }

// A turn of a conversation, from a message of the record or from a text.
struct Turn {
  Message message;
  const Json* source = nullptr;  // null: of a text
};
using Turns = std::vector<Turn>;

bool IsBlankText(const std::string& text) { return absl::StripAsciiWhitespace(text).empty(); }

const Json* FindField(const Json& record, const std::string& name) {
  const auto found = name.empty() ? record.end() : record.find(name);
  return found == record.end() || found->is_null() ? nullptr : &*found;
}

// A value that is of the wrong kind, in errors.
std::string ShownValue(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Where two texts part, at the beginning of a character.
// Source: TRL 1.10 data_utils.py, extract_prompt: a space before that place goes with the
// completions; of texts of which one begins with the other, the last character that both have.
size_t PartingOf(std::string_view a, std::string_view b) {
  const size_t least = std::min(a.size(), b.size());
  size_t at = static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<int64_t>(least), b.begin()).first -
      a.begin());
  const bool within = at == least;
  if (within && at > 0) --at;
  const auto continues = [&](std::string_view text) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (at > 0 && (continues(a) || continues(b))) --at;
  if (!within && at > 0 && a[at - 1] == ' ') --at;
  return at;
}

class PreferenceParser {
 public:
  PreferenceParser(const Json& record, const config::RecordFields& fields, PromptStyle style,
                   RecordNotes* notes)
      : record_(record), fields_(fields), style_(style), notes_(notes) {}

  absl::StatusOr<PairRecord> Pair() {
    ASSIGN_OR_RETURN(PairRecord pair, Sides());
    ASSIGN_OR_RETURN(pair.margin, Margin());
    return pair;
  }

  absl::StatusOr<Record> Labelled() {
    const Names labels = LabelNames(fields_);
    const bool labelled = std::any_of(labels.begin(), labels.end(), [&](const std::string& name) {
      return FindField(record_, name) != nullptr;
    });
    if (!labelled && NamesSides(record_, fields_)) return Pair();
    LabelledRecord record;
    ASSIGN_OR_RETURN(record.desirable, Label());
    ASSIGN_OR_RETURN(record.side, Completion());
    return record;
  }

  static Names LabelNames(const config::RecordFields& fields) {
    if (!fields.label.empty()) return {fields.label};
    return {"label", "kto_tag"};
  }

 private:
  absl::StatusOr<PairRecord> Sides() {
    ASSIGN_OR_RETURN(const PreferenceSides sides, FindSides(record_, fields_, notes_));
    RETURN_IF_ERROR(CheckSide(sides.chosen));
    RETURN_IF_ERROR(CheckSide(sides.rejected));
    if (sides.chosen.value->is_string() && sides.rejected.value->is_string()) {
      if (const std::optional<PairRecord> texts = PairOfTexts(sides)) return *texts;
    }
    ASSIGN_OR_RETURN(Turns chosen, TurnsOf(sides.chosen, "assistant"));
    ASSIGN_OR_RETURN(Turns rejected, TurnsOf(sides.rejected, "assistant"));
    Turns prompt;
    if (IsWhole(chosen) && IsWhole(rejected)) {
      TakeCommonTurns(&chosen, &rejected, &prompt);
    } else {
      ASSIGN_OR_RETURN(prompt, Prompt(sides.chosen.name));
    }
    PairRecord pair;
    ASSIGN_OR_RETURN(pair.chosen, Conversation(prompt, std::move(chosen)));
    ASSIGN_OR_RETURN(pair.rejected, Conversation(prompt, std::move(rejected)));
    return pair;
  }

  // By how much chosen is better: a number or its text. Source: TRL 1.10 reward_trainer.py.
  absl::StatusOr<float> Margin() {
    const Json* value = FindField(record_, fields_.margin);
    if (value == nullptr || *value == "") return 0.0f;
    std::optional<float> margin;
    if (value->is_number()) margin = FiniteFloat(value->get<double>());
    if (value->is_string()) margin = FiniteFloat(value->get<std::string>());
    if (margin) return *margin;
    return BadPreference(absl::StrCat("field \"", fields_.margin, "\" is ", ShownValue(*value),
                                      ", not a finite number"));
  }

  // Not empty, and of a form that can be read.
  static absl::Status CheckSide(const RecordPart& side) {
    const Json& value = *side.value;
    if (value.is_string() && IsBlankText(value)) {
      return BadPreference(absl::StrCat("field \"", side.name, "\" is an empty answer"));
    }
    if (value.is_array() && value.empty()) {
      return BadPreference(absl::StrCat("field \"", side.name, "\" holds no messages"));
    }
    if (value.is_string() || value.is_structured()) return absl::OkStatus();
    return BadPreference(absl::StrCat("field \"", side.name, "\" is ", ShownValue(value),
                                      ", neither a text nor messages"));
  }

  // Of sides that are texts: with their prompt where that is a text and stays one, or without any.
  // Nothing: the record's prompt makes it a conversation.
  std::optional<PairRecord> PairOfTexts(const PreferenceSides& sides) {
    const std::string chosen = *sides.chosen.value, rejected = *sides.rejected.value;
    const Json* prompt = FindField(record_, fields_.prompt);
    const bool stays = prompt != nullptr && prompt->is_string() && style_ != PromptStyle::kChat;
    if (MessagesKey(record_, fields_).empty() && stays) {
      NoteUnread();
      return PairRecord{PromptRecord{*prompt, chosen}, PromptRecord{*prompt, rejected}};
    }
    if (HasPrompt() || style_ == PromptStyle::kChat) return std::nullopt;
    const size_t at = PartingOf(chosen, rejected);
    NoteUnread();
    return PairRecord{PromptRecord{chosen.substr(0, at), chosen.substr(at)},
                      PromptRecord{chosen.substr(0, at), rejected.substr(at)}};
  }

  // What stands beside a text without turns says nothing.
  void NoteUnread() {
    for (const std::string& name : {fields_.system, fields_.tools, fields_.history}) {
      const Json* value = FindField(record_, name);
      if (value != nullptr && !value->empty() && *value != "") {
        Note(NoteKind::kUnreadField, name, notes_);
      }
    }
  }

  bool HasPrompt() const {
    if (!MessagesKey(record_, fields_).empty()) return true;
    for (const std::string& name :
         {fields_.prompt, fields_.instruction, std::string(kQuestion), fields_.input}) {
      if (FindField(record_, name) != nullptr) return true;
    }
    return false;
  }

  absl::StatusOr<Turns> TurnsOf(const RecordPart& part, const std::string& role) {
    Turns turns;
    if (part.value->is_string()) {
      turns.push_back({TextMessage(role, *part.value)});
      return turns;
    }
    const bool one = part.value->is_object();
    const size_t count = one ? 1 : part.value->size();
    for (size_t i = 0; i < count; ++i) {
      const Json& message = one ? *part.value : (*part.value)[i];
      const std::string where = one ? part.name : absl::StrCat(part.name, "[", i, "]");
      Turn& turn = turns.emplace_back();
      ASSIGN_OR_RETURN(turn.message, ParseMessage(message, fields_, where, notes_));
      turn.source = &message;
    }
    return turns;
  }

  // A conversation from its beginning on, and no answer alone.
  static bool IsWhole(const Turns& turns) {
    return turns.front().source != nullptr && turns.front().message.role != "assistant";
  }

  // Source: TRL 1.10 data_utils.py, extract_prompt.
  static void TakeCommonTurns(Turns* chosen, Turns* rejected, Turns* prompt) {
    const size_t least = std::min(chosen->size(), rejected->size());
    size_t common = 0;
    while (common + 1 < least && *(*chosen)[common].source == *(*rejected)[common].source) {
      ++common;
    }
    const auto end = static_cast<int64_t>(common);
    prompt->assign(chosen->begin(), chosen->begin() + end);
    chosen->erase(chosen->begin(), chosen->begin() + end);
    rejected->erase(rejected->begin(), rejected->begin() + end);
  }

  // The turns before a side that begins with an answer.
  absl::StatusOr<Turns> Prompt(const std::string& side) {
    const std::string messages(MessagesKey(record_, fields_));
    for (const std::string& name : {messages, fields_.prompt}) {
      const Json* value = FindField(record_, name);
      if (value == nullptr) continue;
      if (value->is_string() || value->is_structured()) return TurnsOf({value, name}, "user");
      return BadPreference(absl::StrCat("field \"", name, "\" is ", ShownValue(*value),
                                        ", neither a text nor messages"));
    }
    ASSIGN_OR_RETURN(Turns turns, History());
    std::string question;
    for (const std::string& name : {fields_.instruction, std::string(kQuestion), fields_.input}) {
      const Json* value = FindField(record_, name);
      if (value == nullptr) continue;
      if (!value->is_string()) {
        return BadPreference(
            absl::StrCat("field \"", name, "\" is ", ShownValue(*value), ", not a string"));
      }
      const std::string text = *value;
      if (!text.empty()) absl::StrAppend(&question, question.empty() ? "" : "\n", text);
    }
    if (question.empty()) {
      return BadPreference(absl::StrCat(
          "nothing is asked before \"", side, "\": the record has no ", fields_.prompt,
          ", messages, conversations, ", fields_.instruction, ", question or ", fields_.input));
    }
    turns.push_back({TextMessage("user", question)});
    return turns;
  }

  // Earlier turns beside an instruction: a list of pairs.
  absl::StatusOr<Turns> History() {
    Turns turns;
    const Json* pairs = FindField(record_, fields_.history);
    if (pairs == nullptr || (pairs->is_string() && *pairs == "")) return turns;
    const auto is_pair = [](const Json& pair) {
      return pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    };
    if (!pairs->is_array() || !std::all_of(pairs->begin(), pairs->end(), is_pair)) {
      return BadPreference(absl::StrCat("field \"", fields_.history,
                                        "\" is no list of pairs of texts [question, answer]"));
    }
    for (const Json& pair : *pairs) {
      turns.push_back({TextMessage("user", pair[0])});
      turns.push_back({TextMessage("assistant", pair[1])});
    }
    return turns;
  }

  absl::StatusOr<ChatRecord> Conversation(Turns prompt, Turns completion) {
    ChatRecord chat;
    for (Turn& turn : prompt) {
      turn.message.train = false;
      chat.messages.push_back(std::move(turn.message));
    }
    for (Turn& turn : completion) {
      turn.message.train = true;
      chat.messages.push_back(std::move(turn.message));
    }
    RETURN_IF_ERROR(AddContext(record_, fields_, &chat, notes_));
    return chat;
  }

  absl::StatusOr<bool> Label() {
    for (const std::string& name : LabelNames(fields_)) {
      const Json* value = FindField(record_, name);
      if (value == nullptr) continue;
      const std::string text = absl::AsciiStrToLower(value->is_string() ? value->get<std::string>()
                                                                        : ShownValue(*value));
      if (text == "true" || text == "1" || text == "1.0") return true;
      if (text == "false" || text == "0" || text == "0.0") return false;
      return BadPreference(absl::StrCat("field \"", name, "\" is ", ShownValue(*value),
                                        ", but a completion is good (true, 1) or bad (false, 0)"));
    }
    return BadPreference(
        absl::StrCat("field \"", LabelNames(fields_).front(),
                     "\" is missing; it says whether the completion is good or bad"));
  }

  absl::StatusOr<SideRecord> Completion() {
    for (const std::string& name : {fields_.completion, std::string(kResponse), fields_.output}) {
      const Json* value = FindField(record_, name);
      if (value == nullptr) continue;
      const RecordPart side{value, name};
      RETURN_IF_ERROR(CheckSide(side));
      const Json* prompt = FindField(record_, fields_.prompt);
      const bool texts = value->is_string() && prompt != nullptr && prompt->is_string();
      if (texts && style_ != PromptStyle::kChat && MessagesKey(record_, fields_).empty()) {
        NoteUnread();
        return PromptRecord{*prompt, *value};
      }
      ASSIGN_OR_RETURN(Turns turns, TurnsOf(side, "assistant"));
      if (IsWhole(turns)) return LastOf(std::move(turns), name);
      ASSIGN_OR_RETURN(Turns before, Prompt(name));
      return Conversation(std::move(before), std::move(turns));
    }
    const std::string messages(MessagesKey(record_, fields_));
    const Json* value = FindField(record_, messages);
    if (value == nullptr || !value->is_array() || value->empty()) {
      return BadPreference(
          absl::StrCat("field \"", fields_.completion,
                       "\" is missing, and there are no messages of which the last one "
                       "is the completion"));
    }
    ASSIGN_OR_RETURN(Turns turns, TurnsOf({value, messages}, "assistant"));
    return LastOf(std::move(turns), messages);
  }

  // The conversation whose last turn is the completion.
  absl::StatusOr<ChatRecord> LastOf(Turns turns, const std::string& name) {
    if (turns.size() < 2) {
      return BadPreference(absl::StrCat("field \"", name,
                                        "\" holds one message: a prompt or an answer is "
                                        "missing"));
    }
    Turns last;
    last.push_back(std::move(turns.back()));
    turns.pop_back();
    return Conversation(std::move(turns), std::move(last));
  }

  const Json& record_;
  const config::RecordFields& fields_;
  const PromptStyle style_;
  RecordNotes* const notes_;
};

void AddPromptFields(const config::RecordFields& fields, Names* names) {
  names->push_back(fields.prompt);
  if (fields.messages.empty()) {
    names->insert(names->end(), {"messages", "conversations"});
  } else {
    names->push_back(fields.messages);
  }
  names->insert(names->end(), {fields.instruction, kQuestion, fields.input, fields.system,
                               fields.history, fields.tools, "chat_template_kwargs"});
  std::erase(*names, "");
}

}  // namespace

absl::StatusOr<PairRecord> ParsePair(const Json& record, const config::RecordFields& fields,
                                     PromptStyle style, RecordNotes* notes) {
  return PreferenceParser(record, fields, style, notes).Pair();
}

absl::StatusOr<Record> ParseLabelled(const Json& record, const config::RecordFields& fields,
                                     PromptStyle style, RecordNotes* notes) {
  return PreferenceParser(record, fields, style, notes).Labelled();
}

bool HasLabel(const Json& record, const config::RecordFields& fields) {
  const Names names = PreferenceParser::LabelNames(fields);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const Json* value = FindField(record, name);
    return value != nullptr && value->is_boolean();
  });
}

std::vector<std::string> PairFields(const config::RecordFields& fields) {
  Names names = SideFields(fields);
  AddPromptFields(fields, &names);
  if (!fields.margin.empty()) names.push_back(fields.margin);
  return names;
}

std::vector<std::string> LabelledFields(const config::RecordFields& fields) {
  Names names = {fields.completion, kResponse, fields.output};
  for (const std::string& name : PreferenceParser::LabelNames(fields)) names.push_back(name);
  for (const std::string& name : PairFields(fields)) names.push_back(name);
  return names;
}

}  // namespace coxswain::data
