// Where in a rendered conversation the targets of a turn begin.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_BEGIN_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_BEGIN_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "controller/data/readers/record.h"
#include "controller/data/templates/conversation_template.h"

namespace coxswain::data {

// A turn of a conversation under its template.
struct Turn {
  const ConversationTemplate& chat_template;
  const ChatRecord& record;
  std::span<const Message> messages;  // up to it, and behind it
  size_t index = 0;
};

// The byte of `through`, the rendering up to the turn, behind what the model is given when it is
// asked for the turn: the generation prompt, as far as it is written here too. Where the two part,
// white space apart, behind the last tag or word that they share. A template that knows no
// generation prompt gives what it writes before any words of the turn. No byte of the turn's own
// words lies before it, unless the prompt writes it. InvalidArgument, without path and line: the
// template does not render the turn with other words, or refuses what stands before it.
absl::StatusOr<size_t> BeginOfTurn(const Turn& turn, std::string_view through);

// Where the words of `turn` begin in `through`, the rendering up to messages[last]. Errors: the
// template refuses the turn with other words.
absl::StatusOr<size_t> BeginOfWords(const Turn& turn, size_t last, std::string_view through);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_TURN_BEGIN_H_
