// The conversations of a record.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATIONS_OF_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATIONS_OF_H_

#include <variant>
#include <vector>

#include "controller/text/records/record.h"

namespace coxswain::data {

// Of a pair both sides; none where the record is text or tokens. They are parts of `record`.
inline std::vector<const ChatRecord*> ConversationsOf(const Record& record) {
  std::vector<const ChatRecord*> conversations;
  const auto add = [&](const auto& part) {
    if (const auto* chat = std::get_if<ChatRecord>(&part)) conversations.push_back(chat);
  };
  add(record);
  if (const auto* labelled = std::get_if<LabelledRecord>(&record)) add(labelled->side);
  if (const auto* classified = std::get_if<ClassifiedRecord>(&record)) add(classified->text);
  if (const auto* pair = std::get_if<PairRecord>(&record)) {
    add(pair->chosen);
    add(pair->rejected);
  }
  return conversations;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_CONVERSATIONS_OF_H_
