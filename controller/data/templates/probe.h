// A message with other words in it: what a template writes around the words stays the same.
#ifndef COXSWAIN_CONTROLLER_DATA_TEMPLATES_PROBE_H_
#define COXSWAIN_CONTROLLER_DATA_TEMPLATES_PROBE_H_

#include "controller/data/readers/record.h"

namespace coxswain::data {

// Every text of the message (content, reasoning, names and arguments of calls) begins with a
// noncharacter, and goes on with one where a tag of its own ends: templates cut reasoning off
// there. Roles, types and ids stay.
Message Probe(const Message& message);

// The same role with a noncharacter for content, and nothing else.
Message BareProbe(const Message& message);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TEMPLATES_PROBE_H_
