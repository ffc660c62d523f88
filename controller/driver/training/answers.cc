#include "controller/driver/training/answers.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace coxswain::driver {

absl::Status Answers::Add(const gang::InFlight& command) {
  const v1::Done& done = *command.results.front();
  if (static_cast<size_t>(done.texts_size()) != answers_.size()) {
    return absl::InternalError(absl::StrCat("step ", command.step, ": rank 0 was asked ",
                                            answers_.size(), " prompts and answers ",
                                            done.texts_size()));
  }
  for (size_t i = 0; i < answers_.size(); ++i) {
    const v1::GeneratedText& text = done.texts(static_cast<int>(i));
    answers_[i].ids.insert(answers_[i].ids.end(), text.ids().begin(), text.ids().end());
    answers_[i].ended = text.ended();
    answers_[i].cut = text.cut();
  }
  return absl::OkStatus();
}

bool Answers::AllEnded() const {
  return std::all_of(answers_.begin(), answers_.end(),
                     [](const WrittenAnswer& answer) { return answer.ended; });
}

std::string TextSoFar(const Questions& questions, const WrittenAnswer& answer, bool whole) {
  constexpr std::string_view kCut = "\xEF\xBF\xBD";  // U+FFFD
  std::string text = questions.decode(answer.ids);
  while (!whole && !answer.ended && text.ends_with(kCut)) text.resize(text.size() - kCut.size());
  return text;
}

}  // namespace coxswain::driver
