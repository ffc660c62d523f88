// One record of a dataset, checked and typed.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_RECORD_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_RECORD_H_

#include <string>
#include <variant>
#include <vector>

namespace coxswain::data {

struct AlpacaRecord {
  std::string instruction;
  std::string input;  // empty: none
  std::string output;
};

enum class Role { kSystem, kUser, kAssistant };

struct Message {
  Role role = Role::kUser;
  std::string content;
};

struct ChatRecord {
  std::vector<Message> messages;
};

struct CompletionRecord {
  std::string text;
};

using Record = std::variant<AlpacaRecord, ChatRecord, CompletionRecord>;

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_RECORD_H_
