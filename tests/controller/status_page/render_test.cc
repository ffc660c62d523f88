// Pages of made-up controllers: what is in them, that it is escaped, and how large they get.
#include "controller/status_page/render.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/status_page/views.h"

namespace coxswain::status_page {
namespace {

constexpr char kEvil[] = "<script>alert(1)</script>\"'&{{ID}}";
constexpr size_t kLimit = 100'000;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

v1::Job JobOf(const std::string& id, v1::JobState state = v1::JOB_STATE_RUNNING) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  job.set_workers(2);
  job.set_created_unix_ms(1'000);
  job.mutable_progress()->set_step(48);
  job.mutable_progress()->set_total_steps(1200);
  job.mutable_progress()->set_loss(3.2529417);
  job.mutable_progress()->set_tokens_per_second(3736.4);
  return job;
}

// Every string that a user, a model or a worker can choose.
v1::Job EvilJob() {
  v1::Job job = JobOf(kEvil, v1::JOB_STATE_FAILED);
  job.set_name(kEvil);
  job.set_method(kEvil);
  job.set_base_model(kEvil);
  job.set_artifact_dir(kEvil);
  (*job.mutable_labels())[kEvil] = kEvil;
  job.mutable_error()->set_code(kEvil);
  job.mutable_error()->set_message(kEvil);
  job.mutable_error()->set_host(kEvil);
  job.mutable_error()->set_phase(kEvil);
  job.add_checkpoints()->set_directory(kEvil);
  job.add_verifications()->set_artifact(kEvil);
  job.mutable_verifications(0)->set_reason(kEvil);
  v1::SampleAnswers* sample = job.add_samples();
  sample->set_prompt(kEvil);
  sample->set_first_answer(kEvil);
  sample->set_answer(kEvil);
  return job;
}

v1::WorkerInfo EvilWorker() {
  v1::WorkerInfo worker;
  worker.set_id(kEvil);
  worker.set_state(kEvil);
  worker.set_job(kEvil);
  worker.set_device_name(kEvil);
  worker.set_metrics_address("x\" onclick=\"alert(1)");
  return worker;
}

v1::JobEvent EventOf(int64_t id, const std::string& type, const std::string& message) {
  v1::JobEvent event;
  event.set_id(id);
  event.set_job(message);
  event.set_type(type);
  event.set_message(message);
  return event;
}

void ExpectHarmless(const std::string& html) {
  EXPECT_EQ(CountOf(html, "<script"), 1u) << html;  // our own
  EXPECT_EQ(CountOf(html, "&lt;script&gt;alert(1)"),
            CountOf(html, "alert(1)") - CountOf(html, "onclick"));
  EXPECT_EQ(CountOf(html, "onclick=\""), 0u);
}

// Invariant page-3.
TEST(RenderTest, NoTextOfAUserBecomesMarkup) {
  const Renderer renderer;
  History history;
  history.Add(EventOf(1, kEvil, kEvil));
  Overview overview;
  overview.jobs.push_back({.job = EvilJob(), .gang = {}});
  overview.jobs.push_back({.job = JobOf(kEvil), .gang = {.phase = kEvil}});
  overview.workers.push_back(EvilWorker());
  overview.queue.push_back({.job = kEvil, .device = kEvil});
  overview.build.set_version(kEvil);
  ExpectHarmless(renderer.Render("overview", OverviewFields(overview, {{kEvil, &history}})));

  JobDetail detail;
  detail.row.job = EvilJob();
  detail.why = kEvil;
  detail.ranks.resize(2);
  detail.ranks[0].target.id = kEvil;
  detail.workers.push_back(EvilWorker());
  v1::Plan plan;
  plan.set_recompute(kEvil);
  plan.mutable_model()->set_architecture(kEvil);
  plan.add_groups()->set_name(kEvil);
  const std::string html =
      renderer.Render("job", JobFields({.detail = detail, .history = history, .plan = &plan}));
  ExpectHarmless(html);
  EXPECT_NE(html.find("{{ID}}"), std::string::npos) << "a text is no template";
}

// Invariant page-3.
TEST(RenderTest, AMetricsAddressCannotNameAnotherScheme) {
  v1::WorkerInfo worker;
  worker.set_metrics_address("127.0.0.1:7180");
  Overview page;
  page.workers.push_back(worker);
  const std::string html = Renderer().Render("overview", OverviewFields(page, {}));
  EXPECT_NE(html.find("href=\"http://127.0.0.1:7180/metrics\""), std::string::npos) << html;
}

// Invariant page-3.
TEST(RenderTest, ThePolicyNamesStyleAndScriptByHashAndNothingElse) {
  const std::string policy = Renderer().content_security_policy();
  EXPECT_EQ(policy.rfind("default-src 'none'; ", 0), 0u) << policy;
  EXPECT_EQ(CountOf(policy, "'sha256-"), 2u) << policy;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
}

TEST(RenderTest, NumbersStandExactBesideTheirText) {
  Overview page;
  page.jobs.push_back({.job = JobOf("a-1"), .gang = {.phase = "RUNNING", .world_size = 2}});
  const std::string html = Renderer().Render("overview", OverviewFields(page, {}));
  EXPECT_NE(html.find("data-field=\"progress.loss\" value=\"3.2529417\">3.2529<"),
            std::string::npos);
  EXPECT_NE(html.find("data-field=\"progress.total_steps\" value=\"1200\">1,200<"),
            std::string::npos);
  EXPECT_NE(html.find("value=\"3736.4\">3,736<"), std::string::npos);
  EXPECT_EQ(html.find("progress.eval_loss"), std::string::npos) << "no evaluation was made";
}

TEST(RenderTest, ACheckpointWithoutEvaluationShowsNone) {
  History history;
  JobDetail detail;
  detail.row.job = JobOf("a-1");
  detail.row.job.mutable_progress()->set_has_eval(true);
  detail.row.job.mutable_progress()->set_eval_loss(7.25);
  detail.row.job.mutable_progress()->set_eval_perplexity(1408.1);
  detail.row.job.add_checkpoints()->set_step(20);
  const std::string html =
      Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  EXPECT_EQ(CountOf(html, ">7.2500<"), 1u) << "the job's own";
  EXPECT_EQ(CountOf(html, "progress.eval_perplexity"), 0u) << "an older release told none";
  detail.row.job.mutable_progress()->set_eval_token_accuracy(0.125);
  const std::string told =
      Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  EXPECT_EQ(CountOf(told, "progress.eval_perplexity\" value=\"1408.1\""), 1u);
  EXPECT_EQ(CountOf(told, "progress.eval_token_accuracy\" value=\"0.125\""), 1u);
}

TEST(RenderTest, AModelWithExpertsShowsTheirUse) {
  History history;
  JobDetail detail;
  detail.row.job = JobOf("a-1");
  const std::string dense =
      Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  EXPECT_EQ(CountOf(dense, "xpert"), 0u);
  v1::ExpertUse& use = *detail.row.job.mutable_progress()->mutable_experts();
  use.set_load_ratio(1.5);
  use.set_unused_experts(4);
  use.set_router_entropy(0.25);
  const std::string html =
      Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  EXPECT_EQ(CountOf(html, "progress.experts.load_ratio\" value=\"1.5\">1.50<"), 1u);
  EXPECT_EQ(CountOf(html, "progress.experts.unused_experts\" value=\"4\">4<"), 1u);
  EXPECT_EQ(CountOf(html, "progress.experts.router_entropy\" value=\"0.25\">0.250<"), 1u);
}

TEST(RenderTest, AnExportShowsHowItWasReadBack) {
  History history;
  JobDetail detail;
  detail.row.job = JobOf("a-1");
  v1::Verification& adapter = *detail.row.job.add_verifications();
  adapter.set_artifact("adapter");
  adapter.set_verified(true);
  adapter.set_records(8);
  adapter.set_targets(412);
  adapter.set_bound_from("equal bits");
  v1::Verification& model = *detail.row.job.add_verifications();
  model.set_artifact("model");
  model.set_reason("no time");
  const std::string html =
      Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  EXPECT_EQ(CountOf(html,
                    "adapter verified on 8 records (412 targets): largest difference 0, "
                    "bound 0, equal bits"),
            1u);
  EXPECT_EQ(CountOf(html, "model skipped: no time"), 1u);
}

TEST(RenderTest, AnswersStandSideBySide) {
  History history;
  JobDetail detail;
  detail.row.job = JobOf("a-1");
  const auto render = [&] {
    return Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  };
  EXPECT_EQ(CountOf(render(), ">Answers<"), 0u);
  for (int i = 0; i < 9; ++i) {
    v1::SampleAnswers* sample = detail.row.job.add_samples();
    sample->set_prompt(absl::StrCat("What ", i));
    sample->set_first_answer("before");
    sample->set_answer("after");
    sample->set_step(1200);
  }
  const std::string html = render();
  EXPECT_EQ(CountOf(html, ">At step 0<") + CountOf(html, ">At step 1,200<"), 2u);
  EXPECT_EQ(CountOf(html, "<td class=\"answer\">before</td><td class=\"answer\">after</td>"), 8u);
  EXPECT_EQ(CountOf(html, "; 1 more: <code>cox describe a-1</code>"), 1u);
}

TEST(RenderTest, TextsAreShortenedByTheirSizeOnThePage) {
  EXPECT_EQ(Shortened("abc", 3), "abc");
  EXPECT_EQ(Shortened("abcd", 3), "abc…");
  EXPECT_EQ(Shortened("a\"b", 7), "a\"…");
  EXPECT_EQ(Shortened("aé", 2), "a…");
}

// Invariant page-2: more of everything than is shown, with the longest names and bad texts.
TEST(RenderTest, TheLargestOverviewStaysBelowTheLimit) {
  const std::string name = std::string(63, 'x') + "-3f2a91";
  Overview page;
  std::map<std::string, History> pasts;
  std::map<std::string, const History*> histories;
  for (size_t i = 0; i < kMaxJobs; ++i) {
    const std::string id = absl::StrCat(name, i);
    v1::Job job = JobOf(id, i % 2 == 0 ? v1::JOB_STATE_RUNNING : v1::JOB_STATE_FAILED);
    job.mutable_error()->set_message(std::string(5000, '"'));
    page.jobs.push_back({.job = job, .gang = {.phase = "CONNECTING", .world_size = 99}});
    if (i >= 4) continue;
    for (int64_t step = 0; step < 1000; ++step) {
      v1::JobEvent event = EventOf(step + 1, "StepDone", "");
      event.mutable_step_done()->set_step(step);
      event.mutable_step_done()->set_loss(static_cast<double>(step % 7));
      event.mutable_step_done()->set_tokens_per_second(static_cast<double>(step % 11));
      pasts[id].Add(event);
    }
    for (int64_t k = 0; k < 30; ++k) {
      v1::JobEvent event = EventOf(2000 + k, "CheckpointCommitted", std::string(5000, '<'));
      event.set_job(id);
      pasts[id].Add(event);
    }
    histories[id] = &pasts[id];
  }
  for (size_t i = 0; i < kMaxWorkers; ++i) {
    v1::WorkerInfo worker = EvilWorker();
    worker.set_id(absl::StrCat(name, "/", i));
    worker.set_job(name);
    worker.set_state("RUNNING");
    worker.set_device_name(std::string(300, 'd'));
    page.workers.push_back(worker);
  }
  for (size_t i = 0; i < kMaxQueue; ++i) page.queue.push_back({.job = name, .device = "cuda"});
  EXPECT_LT(Renderer().Render("overview", OverviewFields(page, histories)).size(), kLimit);
}

// Invariant page-2.
TEST(RenderTest, TheLargestJobPageStaysBelowTheLimit) {
  JobDetail detail;
  v1::Job& job = detail.row.job;
  job = JobOf(std::string(63, 'x') + "-3f2a91", v1::JOB_STATE_FAILED);
  job.mutable_error()->set_message(std::string(50'000, '"'));
  (*job.mutable_labels())["k"] = std::string(50'000, 'v');
  job.set_base_model(std::string(4000, 'm'));
  job.mutable_planned_memory()->set_weights(1);
  for (int i = 0; i < 50; ++i) job.add_checkpoints()->set_directory(std::string(300, 'd'));
  for (int i = 0; i < 64; ++i) {
    v1::SampleAnswers* sample = job.add_samples();
    sample->set_prompt(std::string(5000, '<'));
    sample->set_first_answer(std::string(5000, '<'));
    sample->set_answer(std::string(5000, '<'));
  }
  detail.ranks.resize(500);
  detail.workers.resize(500);
  for (v1::WorkerInfo& worker : detail.workers) {
    worker.set_id(std::string(60, 'w'));
    worker.set_device_name(std::string(300, 'd'));
    worker.set_metrics_address("host.example.org:7180");
  }
  History history;
  for (int64_t step = 0; step < 799; ++step) {
    v1::JobEvent event = EventOf(step + 1, "StepDone", "");
    const auto value = static_cast<double>(step % 7);
    v1::StepDone& done = *event.mutable_step_done();
    done.set_step(step);
    done.set_loss(value);
    done.set_tokens_per_second(value);
    done.set_grad_norm(value);
    done.set_learning_rate(value);
    history.Add(event);
  }
  for (int i = 0; i < 40; ++i) history.Add(EventOf(1000 + i, "Warning", std::string(5000, '<')));
  const std::string html =
      Renderer().Render("job", JobFields({.detail = detail, .history = history}));
  EXPECT_LT(html.size(), kLimit);
}

}  // namespace
}  // namespace coxswain::status_page
