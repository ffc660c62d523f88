#include "controller/text/templates/turn_counts.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::data {

std::vector<std::string> TurnNotes(const TurnCounts& turns) {
  const std::pair<int64_t, const char*> all[] = {
      {turns.rewritten,
       "are not trained: the chat template writes them anew once others follow (reasoning "
       "templates do); train_on: split trains each of them"},
      {turns.as_said,
       "are trained as they were said, though the chat template writes them anew once a question "
       "follows; train_on: split puts each behind what the template writes then"},
      {turns.unended,
       "have no end-of-turn token among their targets: the model is not taught to stop; use a "
       "template that ends answers with a special token"},
      {turns.without_calls,
       "are trained without their tool calls: the chat template leaves them out"},
      {turns.without_thought,
       "are trained without their reasoning: the chat template leaves it out"},
  };
  std::vector<std::string> notes;
  for (const auto& [count, what] : all) {
    if (count > 0) notes.push_back(absl::StrCat(count, " turns ", what));
  }
  return notes;
}

}  // namespace coxswain::data
