#include "controller/driver/report/answer_report.h"

#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "controller/driver/records/make_events.h"
#include "controller/driver/training/generation.h"

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

std::string ToldJson(const ToldAnswers& told) {
  return nlohmann::json({{"bytes", told.bytes}, {"whole", told.whole}, {"asked", told.asked}})
      .dump();
}

absl::StatusOr<ToldAnswers> ParseTold(const std::string& text) {
  try {
    const nlohmann::json in = nlohmann::json::parse(text);
    return ToldAnswers{.bytes = in.at("bytes"), .whole = in.at("whole"), .asked = in.at("asked")};
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat("what was told of the answers cannot be read: ", error.what()));
  }
}

void AnswerReport::TellPieces(const Answers& answers, bool whole) {
  const Questions& questions = curriculum_->questions();
  told_.bytes.resize(answers.all().size(), 0);
  for (size_t i = 0; i < answers.all().size(); ++i) {
    const std::string text = TextSoFar(questions, answers.all()[i], whole);
    if (text.size() <= told_.bytes[i]) continue;
    const std::string piece = text.substr(std::exchange(told_.bytes[i], text.size()));
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
  told_.whole = true;
  record_->Changed();
}

std::shared_ptr<gang::Program> MakeGeneration(JobRecord* record,
                                              std::shared_ptr<const Curriculum> curriculum,
                                              ToldAnswers told,
                                              std::function<void()> make_durable) {
  const int64_t pieces = told.whole ? told.asked : std::numeric_limits<int64_t>::max();
  auto report = std::make_shared<AnswerReport>(record, curriculum, std::move(told));
  return std::make_shared<Generation>(
      std::move(curriculum),
      [report, make_durable = std::move(make_durable)](int64_t step, const Answers& answers,
                                                       double seconds, bool whole) {
        report->TellPieces(answers, whole);
        if (whole && !report->told().whole) report->TellWhole(step, answers, seconds);
        make_durable();  // who watches sees it now
      },
      [report](int64_t asked) {
        ToldAnswers told = report->told();
        told.asked = asked;
        return ToldJson(told);
      },
      pieces);
}

}  // namespace coxswain::driver
