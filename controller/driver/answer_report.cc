#include "controller/driver/answer_report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/make_events.h"

namespace coxswain::driver {
namespace {

// Of the first evaluation stays; of the newest it is replaced.
void Remember(const v1::PromptAnswered& answered, v1::SampleAnswers* sample) {
  if (sample->prompt().empty()) {
    sample->set_prompt(answered.text());
    sample->set_first_answer(answered.answer());
    sample->set_first_step(answered.step());
  }
  sample->set_answer(answered.answer());
  sample->set_step(answered.step());
}

}  // namespace

void AnswerReport::TellPieces(const Answers& answers, bool whole) {
  const Questions& questions = curriculum_->questions();
  told_bytes_.resize(answers.all().size(), 0);
  for (size_t i = 0; i < answers.all().size(); ++i) {
    const std::string text = TextSoFar(questions, answers.all()[i], whole);
    if (text.size() <= told_bytes_[i]) continue;
    const std::string piece = text.substr(std::exchange(told_bytes_[i], text.size()));
    record_->AddEvent(AnswerWrittenEvent(static_cast<int32_t>(i), piece),
                      absl::StrCat("prompt ", i + 1, " goes on"));
  }
}

void AnswerReport::TellWhole(int64_t step, const Answers& answers, double seconds) {
  const Questions& questions = curriculum_->questions();
  v1::Job& job = record_->edit();
  for (size_t i = 0; i < answers.all().size(); ++i) {
    const WrittenAnswer& answer = answers.all()[i];
    v1::PromptAnswered answered;
    answered.set_step(step);
    answered.set_prompt(static_cast<int32_t>(i));
    answered.set_text(questions.texts[i]);
    answered.set_answer(TextSoFar(questions, answer, /*whole=*/true));
    answered.set_tokens(static_cast<int64_t>(answer.ids.size()));
    answered.set_ended(answer.ended && !answer.cut);
    answered.set_seconds(seconds);
    while (job.samples_size() <= static_cast<int>(i)) job.add_samples();
    Remember(answered, job.mutable_samples(static_cast<int>(i)));
    const std::string message =
        absl::StrCat("prompt ", i + 1, " at step ", step, ": ", answer.ids.size(), " tokens");
    record_->AddEvent(PromptAnsweredEvent(std::move(answered)), message);
  }
  record_->Changed();
}

}  // namespace coxswain::driver
