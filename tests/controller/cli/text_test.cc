// The pieces that cox's text is made of.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/yaml_tree.h"
#include "common/net/event_json.h"
#include "common/net/message_json.h"
#include "controller/cli/jobs/submit.h"
#include "controller/cli/machine/local_resources.h"
#include "controller/cli/text/describe_text.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/expert_text.h"
#include "controller/cli/text/gauges.h"
#include "controller/cli/text/held_out_text.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/log_text.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/progress_view.h"
#include "controller/cli/text/table.h"
#include "coxswain/v1/job.pb.h"
#include "tests/common/config/default_spec.h"

namespace coxswain::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(TableTest, AlignsAndFillsEmptyCells) {
  Table table({"A", "LONGER"});
  table.Add({"x▁y", "1"});
  table.Add({"", "22"});
  EXPECT_EQ(table.Text(2), "  A     LONGER\n  x▁y   1\n  -     22\n");
}

// Text of another process is on one line.
TEST(DescribeTest, TellsHowAnExportWasReadBack) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  v1::Verification& model = *job.add_verifications();
  model.set_artifact("model");
  model.set_reason("no\ntime");
  EXPECT_THAT(Summary(job), testing::HasSubstr("\nread back:   model skipped: no"));
  EXPECT_THAT(DescribeText(job, {}, 0), testing::HasSubstr("\nRead back:     model skipped: no"));
  EXPECT_THAT(Summary(job), testing::Not(testing::HasSubstr("\ntime")));
}

TEST(HeldOutTextTest, NamesTheExportedStepOfEarlyStopping) {
  v1::Job job;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  v1::Progress& progress = *job.mutable_progress();
  progress.set_step(40);
  progress.set_first_eval_loss(4);
  progress.set_eval_loss(3.5);
  progress.set_best_eval_loss(3);
  progress.set_best_step(20);
  EXPECT_EQ(HeldOutText(job), "held-out loss: 4.0000 before, 3.5000 after (-12.5 %)\n");
  job.set_effective_json(R"({"spec": {"eval": {"early_stopping_patience": 2}}})");
  EXPECT_EQ(HeldOutText(job),
            "held-out loss: 4.0000 before, 3.0000 at step 20, which is exported (-25.0 %), "
            "perplexity 20.09; 3.5000 at the last\n");
}

TEST(HeldOutTextTest, CountsPairsOfAPreferenceJob) {
  v1::Job job;
  job.mutable_data()->set_eval_documents(36);
  EXPECT_THAT(HeldOutText(job), testing::EndsWith("on 36 records\n"));
  job.mutable_progress()->mutable_eval_preference()->set_pairs(true);
  EXPECT_THAT(HeldOutText(job), testing::EndsWith("on 18 pairs\n"));
}

TEST(ResumeCommandTest, KeepsWhatTheUserGaveAndQuotesIt) {
  JobFileArgs file{
      .path = "my jobs/it's.yaml",
      .overrides = {"train.max_steps=40", "test_datasets=[]", "checkpoint.resume=auto"}};
  EXPECT_EQ(ResumeCommand(file, {"--threads", "2"}, "/out/checkpoint-20"),
            "cox train 'my jobs/it'\\''s.yaml' --threads 2 --set train.max_steps=40 "
            "--set 'test_datasets=[]' --set checkpoint.resume=/out/checkpoint-20");
  file = {.path = "-", .overrides = {}};
  EXPECT_EQ(ResumeCommand(file, {}, "/a b"),
            "cox train - --set 'checkpoint.resume=/a b' < job.yaml");
  EXPECT_EQ(ShellQuoted(""), "''");
}

TEST(FitsHereTest, SaysWhatIsNeededAndWhatIsThere) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_EQ(DoesNotFitHere(12 * kGib, 1, 16 * kGib, 12 * kGib), "");
  EXPECT_EQ(DoesNotFitHere(203 * kGib, 2, 16 * kGib, 6 * kGib),
            "does not fit here: each of 2 workers needs 203.0 GiB, this machine has 16.0 GiB of "
            "memory, of which each may plan with 6.00 GiB; cox plan --memory-gib 6 says what would "
            "fit");
}

TEST(GaugesTest, ProgressBarAtOddWidths) {
  EXPECT_EQ(ProgressBar(0.5, 2), "");
  EXPECT_EQ(ProgressBar(0.5, 3), "[ ]");
  EXPECT_EQ(ProgressBar(1, 3), "[#]");
  EXPECT_EQ(ProgressBar(0.5, 7), "[##   ]");
  EXPECT_EQ(ProgressBar(0.999, 12), "[######### ]");
  EXPECT_EQ(ProgressBar(-1, 5), "[   ]");
  EXPECT_EQ(ProgressBar(kNan, 5), "[   ]");
  EXPECT_EQ(ProgressBar(7, 5), "[###]");
}

TEST(GaugesTest, Sparkline) {
  const std::vector<double> falling = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(Sparkline(falling, 8), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(Sparkline(falling, 2), "█▁");
  EXPECT_EQ(Sparkline(falling, 3), "█▅▁");  // groups of 2, 3 and 3
  EXPECT_EQ(Sparkline(falling, 0), "");
  EXPECT_EQ(Sparkline({}, 8), "");
  EXPECT_EQ(Sparkline(std::vector<double>{2, 2}, 8), "▅▅");
  EXPECT_EQ(Sparkline(std::vector<double>{1, kNan, 2}, 8), "▁!█");
  EXPECT_EQ(Sparkline(std::vector<double>{kNan}, 8), "!");
}

v1::Job RunningJob() {
  v1::Job job;
  job.set_id("tiny-1");
  job.set_state(v1::JOB_STATE_RUNNING);
  v1::Progress* p = job.mutable_progress();
  p->set_step(5);
  p->set_total_steps(10);
  p->set_loss(3.1234);
  p->set_has_eval(true);
  p->set_eval_loss(3.2);
  p->set_tokens_per_second(1234);
  p->set_eta_seconds(12);
  return job;
}

TEST(ProgressLineTest, FitsAnyWidth) {
  const std::vector<double> losses = {4, 3};
  EXPECT_EQ(ProgressLine(RunningJob(), losses, 120),
            "tiny-1 RUNNING [###########           ] 50% 5/10 loss 3.1234 █▁ eval 3.2000 1,234 "
            "tok/s ETA 12s");
  const std::vector<double> many = {8, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_NE(ProgressLine(RunningJob(), many, 99).find("█▇▆▅▄▃▂▁"), std::string::npos);
  for (int columns = 0; columns < 130; ++columns) {
    EXPECT_LE(DisplayWidth(ProgressLine(RunningJob(), losses, columns)), columns) << columns;
  }
}

TEST(ProgressLineTest, BeforeTheFirstStep) {
  v1::Job job;
  job.set_id("tiny-1");
  job.set_state(v1::JOB_STATE_PREPARING);
  job.mutable_progress()->set_prepare_fraction(0.25);
  job.mutable_progress()->set_eta_seconds(12);  // of an earlier attempt
  EXPECT_EQ(ProgressLine(job, {}, 80), "tiny-1 PREPARING [#####                 ] 25%");
  job.set_state(v1::JOB_STATE_QUEUED);
  EXPECT_EQ(ProgressLine(job, {}, 80), "tiny-1 QUEUED [                      ] 0%");
}

TEST(ProgressModeTest, AutoDependsOnTheTerminal) {
  EXPECT_EQ(ParseProgressMode("auto", true), ProgressMode::kBar);
  EXPECT_EQ(ParseProgressMode("auto", false), ProgressMode::kPlain);
  EXPECT_EQ(ParseProgressMode("plain", true), ProgressMode::kPlain);
  EXPECT_EQ(ParseProgressMode("none", true), ProgressMode::kNone);
}

TEST(LocalResourcesTest, CudaWhereThereIsAGpu) {
  config::JobSpec job = config::DefaultSpec();
  job.device = config::Device::kAuto;
  const Gpus none = absl::FailedPreconditionError("no NVIDIA driver is loaded on this host");
  const Gpus no_worker = absl::NotFoundError("coxswain-worker-cuda is nowhere");
  const Gpus one = std::vector<std::string>{"NVIDIA H200"};
  const Gpus four = std::vector<std::string>(4, "NVIDIA H200");
  EXPECT_EQ(ChooseLocally(job, one)->line, "device: cuda (auto: 1 NVIDIA H200)");
  EXPECT_EQ(ChooseLocally(job, one)->chosen.device, config::Device::kCuda);
  EXPECT_EQ(ChooseLocally(job, one)->chosen.workers, std::nullopt);
  EXPECT_EQ(ChooseLocally(job, four)->line,
            "device: cuda (auto: 4 NVIDIA H200); resources.workers is 1, auto takes all 4");
  EXPECT_EQ(ChooseLocally(job, none)->line,
            "device: cpu (auto: no NVIDIA driver is loaded on this host)");
  EXPECT_EQ(ChooseLocally(job, no_worker)->line,
            "device: cpu (auto: no coxswain-worker-cuda is installed here)");
  EXPECT_EQ(AllLocally(four).chosen.workers, 4);
  EXPECT_EQ(AllLocally(none).chosen.workers, 1);
  EXPECT_EQ(AllLocally(none).chosen.device, config::Device::kCpu);
}

TEST(LocalResourcesTest, AutoWorkersAreAllGpusOrOneCpuWorker) {
  config::JobSpec job = config::DefaultSpec();
  job.device = config::Device::kAuto;
  job.workers = 0;
  const Gpus none = absl::FailedPreconditionError("no NVIDIA driver");
  const Gpus mixed = std::vector<std::string>{"NVIDIA L4", "NVIDIA H200", "NVIDIA L4"};
  EXPECT_EQ(ChooseLocally(job, mixed)->line,
            "device: cuda (auto: 1 NVIDIA H200, 2 NVIDIA L4), workers: 3 (auto: every GPU)");
  EXPECT_EQ(ChooseLocally(job, mixed)->chosen.workers, 3);
  EXPECT_EQ(ChooseLocally(job, none)->line,
            "device: cpu (auto: no NVIDIA driver), workers: 1 (auto)");
  job.device = config::Device::kCuda;
  EXPECT_EQ(ChooseLocally(job, mixed)->line, "workers: 3 (auto: every GPU)");
  EXPECT_NE(std::string(ChooseLocally(job, none).status().message()).find("no NVIDIA driver"),
            std::string::npos);
}

TEST(ResourcesLineTest, SaysWhatWasChosenOrThatItWaits) {
  v1::Job job;
  job.set_id("tiny-1");
  job.set_workers(2);
  EXPECT_EQ(ResourcesLine(job), "") << "of a release without auto";
  job.set_device("cpu");
  EXPECT_EQ(ResourcesLine(job), "") << "as the job gave it";
  job.set_device("cuda");
  job.set_resources_reason("auto: 2 workers, NVIDIA H200");
  EXPECT_EQ(ResourcesLine(job), "device: cuda, workers: 2 (auto: 2 workers, NVIDIA H200)\n");
  job.set_device("auto");
  job.set_workers(0);
  job.clear_resources_reason();
  EXPECT_EQ(ResourcesLine(job),
            "device: auto, workers: auto: chosen once workers have registered; cox explain "
            "tiny-1\n");
}

// Invariant cli-4.
TEST(EventJsonTest, DataStandsForTheDetail) {
  v1::JobEvent event;
  event.set_id(7);
  event.set_time_unix_ms(1767323045678);
  event.mutable_checkpoint_deleted()->set_step(3);
  event.set_state(v1::JOB_STATE_RUNNING);
  EXPECT_EQ(
      EventJson(event).dump(),
      R"({"id":7,"job":"","time":"2026-01-02T03:04:05.678Z","type":"","message":"","data":{"directory":"","step":3},"state":"RUNNING"})");
  event.clear_detail();
  EXPECT_EQ(EventJson(event)["data"].dump(), "{}");
}

// Invariant cli-4.
v1::ExpertUse UseOfExperts() {
  v1::ExpertUse use;
  use.set_load_ratio(1.5);
  use.set_worst_load_ratio(2.25);
  use.set_worst_layer(3);
  use.set_unused_experts(4);
  use.set_router_entropy(0.5);
  return use;
}

// Of a dense model the event says nothing of experts.
TEST(EventJsonTest, ExpertsOfAStep) {
  v1::JobEvent event;
  event.mutable_step_done()->set_step(1);
  EXPECT_FALSE(EventData(event).contains("experts"));
  *event.mutable_step_done()->mutable_experts() = UseOfExperts();
  event.mutable_step_done()->mutable_experts()->set_z_loss(0.25);
  EXPECT_EQ(EventData(event)["experts"].dump(),
            R"({"balance_loss":null,"load_ratio":1.5,"nonfinite_tokens":0,"router_entropy":0.5,)"
            R"("unused_experts":4,"worst_layer":3,"worst_load_ratio":2.25,"z_loss":0.25})");
}

TEST(ExpertTextTest, OneLineWithTheLossesThatThereAre) {
  v1::ExpertUse use = UseOfExperts();
  EXPECT_EQ(ExpertText(use),
            "experts: the fullest has 1.50x the mean (2.25x in layer 3), 4 unused; router entropy "
            "0.500 nats\n");
  use.set_balance_loss(2.0125);
  use.set_z_loss(0.25);
  use.set_nonfinite_tokens(12345);
  EXPECT_EQ(ExpertText(use),
            "experts: the fullest has 1.50x the mean (2.25x in layer 3), 4 unused; router entropy "
            "0.500 nats without 12,345 tokens that are not finite; balancing loss 2.0125; z-loss "
            "0.2500\n");
}

TEST(ExpertTextTest, InspectShowsTheModelAndWideItsLayers) {
  v1::InspectResponse ranks;
  ranks.set_last_step(4);
  ranks.add_ranks()->set_last_step(4);
  EXPECT_EQ(RanksTable(ranks, true).find("experts"), std::string::npos);
  *ranks.mutable_experts() = UseOfExperts();
  for (const int layer : {1, 3}) {
    v1::LayerExpertUse* use = ranks.add_expert_layers();
    use->set_layer(layer);
    use->set_load_ratio(0.75 * layer);
    use->set_unused_experts(layer);
  }
  EXPECT_NE(RanksTable(ranks, false).find(ExpertText(UseOfExperts())), std::string::npos);
  EXPECT_EQ(RanksTable(ranks, false).find("LAYER"), std::string::npos);
  EXPECT_NE(RanksTable(ranks, true)
                .find("  LAYER   LOAD    UNUSED   ENTROPY   NOT-FINITE\n"
                      "  1       0.75x   1        0.000     0\n"
                      "  3       2.25x   3        0.000     0\n"),
            std::string::npos)
      << RanksTable(ranks, true);
}

TEST(EventLineTest, TellsTheLoadOfExperts) {
  v1::JobEvent event;
  event.set_type("StepDone");
  event.mutable_step_done()->set_step(1);
  EXPECT_EQ(EventLine(event, 0).find("experts"), std::string::npos);
  *event.mutable_step_done()->mutable_experts() = UseOfExperts();
  EXPECT_NE(EventLine(event, 0).find("  experts 1.50x"), std::string::npos);
}

TEST(MessageJsonTest, NamesTypesAndUnsetFields) {
  v1::Job job;
  job.set_recipe_hash("\x01\xab");
  (*job.mutable_labels())["b"] = "2";
  (*job.mutable_labels())["a"] = "1";
  const auto json = MessageJson(job);
  EXPECT_EQ(json["recipe_hash"], "01ab");
  EXPECT_EQ(json["labels"].dump(), R"({"a":"1","b":"2"})");
  EXPECT_TRUE(json["error"].is_null());
  EXPECT_TRUE(json["started"].is_null());
  EXPECT_TRUE(json["effective"].is_null());
  EXPECT_EQ(json["checkpoints"].dump(), "[]");
  EXPECT_EQ(json["state"], "UNSPECIFIED");
}

TEST(OutputTest, YamlParsesBackToTheSameScalars) {
  const nlohmann::ordered_json value = {
      {"name", "yes"},
      {"text", "a: b\n#c \"q\""},
      {"number", 1.5},
      {"digits", "15"},
      {"none", nullptr},
      {"empty_list", nlohmann::ordered_json::array()},
      {"list", {1, {{"k", "v"}, {"l", {2, 3}}}, nlohmann::ordered_json::array({4, 5})}},
      {"map", {{"inner", true}}}};
  const config::YamlTree tree = config::ParseYaml(ToYaml(value));
  ASSERT_TRUE(tree.problems.empty()) << ToYaml(value) << tree.problems[0].message;
  const auto& entries = tree.root.entries;
  ASSERT_EQ(entries.size(), 8u);
  EXPECT_EQ(entries[0].value.text, "yes");
  EXPECT_TRUE(entries[0].value.quoted);
  EXPECT_EQ(entries[1].value.text, "a: b\n#c \"q\"");
  EXPECT_FALSE(entries[2].value.quoted);
  EXPECT_TRUE(entries[3].value.quoted);
  EXPECT_EQ(entries[6].value.items.size(), 3u);
  EXPECT_EQ(entries[6].value.items[1].entries[1].value.items[1].text, "3");
  EXPECT_EQ(entries[6].value.items[2].items[1].text, "5");
}

TEST(LogTextTest, ShowsFieldsAndOddLines) {
  v1::LogLine line;
  line.set_time_unix_ms(1767323045678);
  line.set_rank(1);
  line.set_level("info");
  line.set_json(R"({"ts":"x","level":"info","msg":"step done","step":3,"job":"j","worker":"w/1"})");
  EXPECT_EQ(LogText(line),
            "2026-01-02T03:04:05.678Z  rank 1      info     step done  step=3  worker=w/1");
  line.set_json("not json");
  line.set_rank(-1);
  EXPECT_EQ(LogText(line), "2026-01-02T03:04:05.678Z  controller  info     not json");
}

TEST(ExitCodeTest, MapsStatusesAndStates) {
  EXPECT_EQ(ExitOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitOf(absl::InternalError("")), 1);
  EXPECT_EQ(ExitOf(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitOf(absl::NotFoundError("")), 4);
  EXPECT_EQ(ExitOf(absl::UnavailableError("")), 5);
  EXPECT_EQ(ExitOf(absl::DeadlineExceededError("")), 124);
  EXPECT_EQ(ExitOf(absl::CancelledError("")), 130);
  EXPECT_EQ(ExitOf(v1::JOB_STATE_SUCCEEDED), 0);
  EXPECT_EQ(ExitOf(v1::JOB_STATE_FAILED), 1);
  EXPECT_EQ(ExitOf(v1::JOB_STATE_CANCELLED), 3);
}

}  // namespace
}  // namespace coxswain::cli
