// Counts what became of the turns of conversations that should be trained.
#ifndef COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_COUNTS_H_
#define COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_COUNTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::data {

struct TurnCounts {
  int64_t rewritten = 0;        // not trained: the template rewrites them when others follow
  int64_t as_said = 0;          // rewritten too, but trained in their original words
  int64_t unended = 0;          // trained without an end-of-turn token
  int64_t without_calls = 0;    // trained without their tool calls, which the template leaves out
  int64_t without_thought = 0;  // trained without their reasoning

  TurnCounts& operator+=(const TurnCounts& other) {
    rewritten += other.rewritten;
    as_said += other.as_said;
    unended += other.unended;
    without_calls += other.without_calls;
    without_thought += other.without_thought;
    return *this;
  }
};

// Describes what became of the trained turns of conversations.

// A sentence for each count that is not 0.
std::vector<std::string> TurnNotes(const TurnCounts& turns);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_TEXT_TEMPLATES_TURN_COUNTS_H_
