// Finds where the targets of a turn begin in a rendered conversation.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_BEGIN_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_BEGIN_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "controller/text/records/record.h"
#include "controller/text/templates/conversation_template.h"

namespace coxswain::data {

// A turn of a conversation under its template.
struct Turn {
  const ConversationTemplate& chat_template;
  const ChatRecord& record;
  std::span<const Message> messages;  // of the conversation, before and after the turn too
  size_t index = 0;
};

// The byte offset in `through`, the rendering up to the turn, at which the targets begin. They
// begin after the generation prompt, as far as `through` contains it. If the two differ in more
// than white space, targets begin after the last tag or word that they share. Without a generation
// prompt they begin after the text that the template writes before any words of the turn. No byte
// of the turn's own words lies before the offset, unless the prompt contains it. InvalidArgument,
// without path and line: the template does not render the turn with other words, or refuses the
// messages before it.
absl::StatusOr<size_t> BeginOfTurn(const Turn& turn, std::string_view through);

// The byte offset of the words of `turn` in `through`, the rendering up to messages[last]. Errors:
// the template refuses the turn with other words.
absl::StatusOr<size_t> BeginOfWords(const Turn& turn, size_t last, std::string_view through);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_BEGIN_H_
