#include "controller/cli/import/command_line.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain::job_import {
namespace {

using config::Entry;
using config::Node;

struct Word {
  std::string text;
  int line = 0;
  bool ends_command = false;  // a line feed, ; & or | that no backslash hides
};

// POSIX shell words: quotes, backslashes, comments; variables stay as they are written.
class Shell {
 public:
  explicit Shell(const std::string& text) : text_(text) {}

  absl::StatusOr<std::vector<Word>> Words() {
    while (at_ < text_.size()) {
      if (!Step()) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", quote_line_, ": a quote that does not end"));
      }
    }
    End(false);
    return std::move(words_);
  }

 private:
  void End(bool ends_command) {
    if (open_) words_.push_back({std::move(word_), word_line_, false});
    if (ends_command) words_.push_back({"", line_, true});
    word_.clear();
    open_ = false;
  }

  void Add(char c) {
    if (!open_) word_line_ = line_;
    open_ = true;
    word_ += c;
  }

  bool Quoted(char quote) {
    quote_line_ = line_;
    if (!open_) word_line_ = line_;
    open_ = true;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      if (text_[at_] == '\n') ++line_;
      word_ += text_[at_];
    }
    return at_++ < text_.size();
  }

  bool Step() {
    const char c = text_[at_];
    if (c == '\'' || c == '"') return Quoted(c);
    ++at_;
    if (c == '\\' && at_ < text_.size()) {
      if (text_[at_] == '\r' && at_ + 1 < text_.size()) ++at_;
      if (text_[at_] == '\n') {
        End(false);
        ++line_;
      } else {
        Add(text_[at_]);
      }
      ++at_;
    } else if (c == '#' && !open_) {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
      End(true);
      if (c == '\n') ++line_;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      End(false);
    } else {
      Add(c);
    }
    return true;
  }

  const std::string& text_;
  size_t at_ = 0;
  int line_ = 1, word_line_ = 1, quote_line_ = 1;
  bool open_ = false;
  std::string word_;
  std::vector<Word> words_;
};

constexpr std::string_view kScripts[] = {"sft", "dpo", "kto", "cpo", "orpo", "reward"};

// The script that a word names: "sft" of "sft" and "trl/scripts/sft.py"; empty: none.
std::string ScriptOf(const Word& word) {
  std::string_view name = word.text;
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  if (name.ends_with(".py")) name.remove_suffix(3);
  if (name == "reward_modeling") name = "reward";  // examples/scripts
  const bool known =
      std::find(std::begin(kScripts), std::end(kScripts), name) != std::end(kScripts);
  return known ? std::string(name) : "";
}

bool IsScript(const Word& word) { return !ScriptOf(word).empty(); }

bool IsOption(const std::string& text) { return text.rfind("--", 0) == 0 && text.size() > 2; }

// A map or list as JSON is one; anything else is text, number or switch.
Node ValueOf(const Word& word) {
  if (word.text[0] == '{' || word.text[0] == '[') {
    config::YamlTree tree = config::ParseYaml(word.text);
    if (tree.problems.empty()) return std::move(tree.root);
  }
  Node node;
  node.kind = Node::Kind::kScalar;
  node.line = word.line;
  node.text = word.text;
  return node;
}

Entry ReadOption(const std::vector<Word>& words, size_t* at) {
  const Word& option = words[(*at)++];
  std::string name = option.text.substr(2);
  std::vector<Node> values;
  const size_t equals = name.find('=');
  if (equals != std::string::npos) {
    values.push_back(ValueOf({name.substr(equals + 1), option.line, false}));
    name = name.substr(0, equals);
  }
  while (*at < words.size() && !words[*at].ends_command && !IsOption(words[*at].text)) {
    values.push_back(ValueOf(words[(*at)++]));
  }
  std::replace(name.begin(), name.end(), '-', '_');
  Entry entry{name, option.line, {}};
  if (values.empty()) {
    const bool negated = name.rfind("no_", 0) == 0;
    if (negated) entry.key = name.substr(3);
    values.push_back(ValueOf({negated ? "false" : "true", option.line, false}));
  }
  if (values.size() == 1) {
    entry.value = std::move(values[0]);
  } else {
    entry.value.kind = Node::Kind::kList;
    entry.value.line = option.line;
    entry.value.items = std::move(values);
  }
  return entry;
}

void SetEntry(Node* map, Entry entry) {
  for (Entry& old : map->entries) {
    if (old.key != entry.key) continue;
    old = std::move(entry);
    return;
  }
  map->entries.push_back(std::move(entry));
}

absl::StatusOr<Node> ReadConfigFile(const std::string& name, const std::string& base_dir) {
  const std::filesystem::path path = std::filesystem::path(base_dir) / name;
  const absl::StatusOr<std::string> text = ReadFile(path.string());
  if (!text.ok()) {
    return absl::NotFoundError(absl::StrCat("--config ", name, ": ",
                                            std::string(text.status().message()),
                                            "; give a path beside the command"));
  }
  config::YamlTree tree = config::ParseYaml(*text);
  if (!tree.problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", tree.problems[0].line, ": ", tree.problems[0].message));
  }
  return std::move(tree.root);
}

}  // namespace

bool IsCommandLine(const std::string& text) {
  const config::YamlTree tree = config::ParseYaml(text);
  if (tree.problems.empty() && tree.root.kind == Node::Kind::kMap) return false;
  const absl::StatusOr<std::vector<Word>> words = Shell(text).Words();
  if (!words.ok()) return text.find("--") != std::string::npos;
  if (!words->empty() && IsOption(words->front().text)) return true;
  return std::any_of(words->begin(), words->end(), IsScript);
}

absl::StatusOr<Node> ParseCommandLine(const std::string& text, const std::string& base_dir) {
  ASSIGN_OR_RETURN(const std::vector<Word> words, Shell(text).Words());
  size_t at = 0;
  const auto script = std::find_if(words.begin(), words.end(), IsScript);
  Node map;
  map.kind = Node::Kind::kMap;
  if (script != words.end()) at = static_cast<size_t>(script - words.begin());
  const std::string name = script == words.end() ? "sft" : ScriptOf(*script);
  // Options before the script are the launcher's.
  for (size_t i = 0; i < at;) {
    if (!IsOption(words[i].text)) {
      ++i;
      continue;
    }
    Entry entry = ReadOption(words, &i);
    const bool counts = entry.key == "num_processes" || entry.key == "nproc_per_node";
    if (counts && entry.value.kind == Node::Kind::kList) {
      const Node first = entry.value.items[0];
      entry.value = first;
    }
    if (counts) SetEntry(&map, std::move(entry));
    i = std::min(i, at);
  }
  std::vector<Entry> options;
  std::string file;
  for (at += script != words.end() ? 1 : 0; at < words.size() && !words[at].ends_command;) {
    if (!IsOption(words[at].text)) {
      ++at;
      continue;
    }
    Entry entry = ReadOption(words, &at);
    if (entry.key == "config") {
      file = entry.value.text;
    } else {
      options.push_back(std::move(entry));
    }
  }
  if (!file.empty()) {
    ASSIGN_OR_RETURN(Node read, ReadConfigFile(file, base_dir));
    for (Entry& entry : read.entries) SetEntry(&map, std::move(entry));
  }
  for (Entry& option : options) SetEntry(&map, std::move(option));
  const bool any = !map.entries.empty();
  if (any && name != "sft")
    SetEntry(&map, {kScriptKey, script->line, ValueOf({name, script->line})});
  if (!any) {
    return absl::InvalidArgumentError("the command has no options: expected --model_name_or_path");
  }
  return map;
}

}  // namespace coxswain::job_import
