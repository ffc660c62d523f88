// Makes messages with other words. The text that a template writes around the words stays the same.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_PROBE_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_PROBE_H_

#include "controller/text/records/record.h"

namespace coxswain::data {

// Puts a noncharacter before every text of the message (content, reasoning, names and arguments of
// calls), and after each tag in it, where templates cut off reasoning. Roles, types and ids stay.
Message Probe(const Message& message);

// The same role with a noncharacter for content, and nothing else.
Message BareProbe(const Message& message);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_PROBE_H_
