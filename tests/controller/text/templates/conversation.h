// Conversations of plain text, for tests.
#ifndef COXSWAIN_TESTS_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_H_
#define COXSWAIN_TESTS_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_H_

#include <string>
#include <utility>
#include <vector>

#include "controller/data/readers/conversation_parser.h"

namespace coxswain::data {

using Turns = std::vector<std::pair<std::string, std::string>>;  // role, text

inline ChatRecord Conversation(const Turns& turns) {
  ChatRecord record;
  for (const auto& [role, text] : turns) record.messages.push_back(TextMessage(role, text));
  return record;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_TESTS_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_H_
