// Notes the parts of a conversation that its chat template does not use.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_NOTES_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_NOTES_H_

#include <string>
#include <string_view>
#include <vector>

#include "controller/text/records/record.h"
#include "controller/text/templates/conversation_template.h"

namespace coxswain::data {

// Immutable; threads share it.
class ConversationNotes {
 public:
  // `roles`: further known roles, namely those to be trained.
  ConversationNotes(const ConversationTemplate& chat_template, std::vector<std::string> roles);

  // Adds keys of messages that the template does not mention, unless it writes whole messages. Adds
  // roles that are neither in the template nor in kRoles.
  void Add(const ChatRecord& record, RecordNotes* notes) const;

 private:
  bool Reads(std::string_view key) const;
  bool KnowsRole(const std::string& role) const;

  std::string source_;
  std::vector<std::string> roles_;
  bool writes_messages_ = false;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_CONVERSATION_NOTES_H_
