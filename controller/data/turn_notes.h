// Describes what became of the trained turns of conversations.
#ifndef COXSWAIN_CONTROLLER_DATA_TURN_NOTES_H_
#define COXSWAIN_CONTROLLER_DATA_TURN_NOTES_H_

#include <string>
#include <vector>

#include "controller/text/templates/turn_counts.h"

namespace coxswain::data {

// A sentence for each count that is not 0.
std::vector<std::string> TurnNotes(const TurnCounts& turns);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_TURN_NOTES_H_
