// Invariant common-3: every name the controller exports is in the table of common/README.md, and
// every name of its table is exported.
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "common/net/metrics.h"
#include "controller/runtime/metrics.h"

namespace coxswain {
namespace {

std::set<std::string> NamesOfTable(const std::string& heading) {
  std::ifstream in("common/README.md");
  std::set<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("### ")) inside = line.find(heading) != std::string::npos;
    if (!inside || !line.starts_with("| `coxswain_")) continue;
    const size_t begin = line.find('`') + 1;
    names.insert(line.substr(begin, line.find_first_of("{`", begin) - begin));
  }
  return names;
}

v1::Preference PairsOf(double accuracies) {
  v1::Preference pairs;
  pairs.set_pairs(true);
  pairs.set_rewards_chosen(0.5);
  pairs.set_rewards_rejected(-0.25);
  pairs.set_accuracies(accuracies);
  pairs.set_logps_chosen(-12);
  pairs.set_chosen(4);
  pairs.set_rejected(4);
  return pairs;
}

v1::ExpertUse AllOfExperts() {
  v1::ExpertUse use;
  use.set_load_ratio(1.5);
  use.set_worst_load_ratio(2.5);
  use.set_worst_layer(3);
  use.set_unused_experts(4);
  use.set_router_entropy(0.5);
  use.set_nonfinite_tokens(6);
  use.set_balance_loss(2.25);
  use.set_z_loss(0.25);
  return use;
}

// The sample lines of the page whose metric is of experts or routers.
std::string ExpertLines(const prometheus::Registry& registry) {
  std::istringstream page(prometheus::TextSerializer().Serialize(registry.Collect()));
  std::string lines;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("coxswain_expert") || line.starts_with("coxswain_router")) {
      lines += line + "\n";
    }
  }
  return lines;
}

TEST(MetricNamesTest, ExpertsHaveGaugesOfTheirOwn) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  metrics.Step("dense", {});
  EXPECT_EQ(ExpertLines(*registry), "");
  metrics.Step("j", {.experts = AllOfExperts()});
  EXPECT_EQ(ExpertLines(*registry),
            "coxswain_expert_load_ratio{job=\"j\"} 1.5\n"
            "coxswain_expert_load_worst_ratio{job=\"j\"} 2.5\n"
            "coxswain_experts_unused{job=\"j\"} 4\n"
            "coxswain_router_entropy_nats{job=\"j\"} 0.5\n"
            "coxswain_router_nonfinite_tokens{job=\"j\"} 6\n"
            "coxswain_router_balance_loss{job=\"j\"} 2.25\n"
            "coxswain_router_z_loss{job=\"j\"} 0.25\n");
  metrics.DropJob("j");
  EXPECT_EQ(ExpertLines(*registry), "");
}

// A loss that is not finite in this step: the page shows no old value, and Prometheus reads it.
TEST(MetricNamesTest, ALossOfRoutersThatIsGoneIsNotANumber) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  v1::ExpertUse use = AllOfExperts();
  use.clear_z_loss();
  metrics.Step("j", {.experts = use});
  EXPECT_EQ(ExpertLines(*registry).find("z_loss"), std::string::npos);
  use.clear_balance_loss();
  metrics.Step("j", {.experts = use});
  EXPECT_NE(ExpertLines(*registry).find("coxswain_router_balance_loss{job=\"j\"} Nan\n"),
            std::string::npos)
      << ExpertLines(*registry);
}

// Where the peak of the GPUs is not known: no 0, which would be a utilisation, and no old value.
TEST(MetricNamesTest, AUtilisationThatIsNotKnownIsNotThere) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  const auto page = [&registry] {
    return prometheus::TextSerializer().Serialize(registry->Collect());
  };
  metrics.Step("j", {.tokens_per_second = 5});
  metrics.StepsEnded("j");
  EXPECT_EQ(page().find("coxswain_mfu_ratio{"), std::string::npos);
  metrics.Step("j", {.tokens_per_second = 5, .mfu = 0.25});
  EXPECT_NE(page().find("coxswain_mfu_ratio{job=\"j\"} 0.25\n"), std::string::npos) << page();
  metrics.Step("j", {.tokens_per_second = 5});
  EXPECT_NE(page().find("coxswain_mfu_ratio{job=\"j\"} Nan\n"), std::string::npos) << page();
}

// Of pairs, by side, of the last step and of the newest evaluation, which has no perplexity.
TEST(MetricNamesTest, PreferencesAreBySide) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  metrics.Step("j", {.preference = PairsOf(0.75)});
  metrics.Eval("j", {.loss = 1, .preference = PairsOf(1)});
  const std::string page = prometheus::TextSerializer().Serialize(registry->Collect());
  for (const char* line :
       {"coxswain_reward_nats{job=\"j\",of=\"train\",side=\"chosen\"} 0.5\n",
        "coxswain_reward_nats{job=\"j\",of=\"eval\",side=\"rejected\"} -0.25\n",
        "coxswain_reward_accuracy_ratio{job=\"j\",of=\"train\"} 0.75\n",
        "coxswain_document_logp_nats{job=\"j\",of=\"eval\",side=\"chosen\"} -12\n"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
  EXPECT_EQ(page.find("coxswain_eval_perplexity"), std::string::npos);
}

// Of labels there is an accuracy alone; scores have no log-probabilities.
TEST(MetricNamesTest, ScoresHaveTheirOwn) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  v1::Preference labels = PairsOf(0.75), scores = PairsOf(0.5);
  labels.set_of(v1::Preference::LABELS);
  scores.set_of(v1::Preference::PAIR_SCORES);
  metrics.Eval("labels", {.loss = 1, .preference = labels});
  metrics.Eval("scores", {.loss = 1, .preference = scores});
  const std::string page = prometheus::TextSerializer().Serialize(registry->Collect());
  for (const char* line : {"coxswain_label_accuracy_ratio{job=\"labels\",of=\"eval\"} 0.75\n",
                           "coxswain_reward_accuracy_ratio{job=\"scores\",of=\"eval\"} 0.5\n"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
  EXPECT_EQ(page.find("coxswain_document_logp_nats{"), std::string::npos);
  EXPECT_EQ(page.find("coxswain_reward_nats{job=\"labels\""), std::string::npos);
}

TEST(MetricNamesTest, TableAndControllerAgree) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  metrics.JobSubmitted();
  metrics.JobEnded("j", v1::JOB_STATE_SUCCEEDED);
  metrics.JobStateIs("j", v1::JOB_STATE_RUNNING);
  metrics.Step("j", {.mfu = 0.4, .experts = AllOfExperts(), .preference = PairsOf(1)});
  v1::Preference labels;
  labels.set_of(v1::Preference::LABELS);
  metrics.Step("j", {.preference = labels});
  metrics.Progress("j", 1, 2);
  metrics.Eval("j", {.loss = 1, .token_accuracy = 1});
  metrics.Epoch("j", 1);
  metrics.Restart("j", "train");
  metrics.GangReadopted("j");
  metrics.GangNotReadopted("j");
  metrics.RecoveryStage("j", "abort");
  metrics.Preempted("j");
  metrics.CheckpointFailed("j");
  metrics.Checkpoint("j", 1, 1, 1);
  metrics.CheckpointStep("j", 1, 1);
  metrics.OutputFree("j", 1);
  metrics.Packing("j", 1);
  metrics.Goodput("j", 1);
  metrics.Credits("j", 1);
  metrics.Pace("j", {});
  metrics.Jobs({{"RUNNING", 1}});
  metrics.Workers({{"READY", 1}});
  metrics.HeartbeatAge({{"h/0", 1.0}});
  metrics.Rpc("Get", "OK", 0.1);
  std::set<std::string> exported;
  for (const auto& family : registry->Collect()) exported.insert(family.name);
  EXPECT_EQ(exported, NamesOfTable("Controller"));
}

// Each number of a step in the series that names it: all are different.
TEST(MetricNamesTest, EveryNumberOfAStepIsInItsOwnSeries) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  metrics.Step("j", {.loss = 2.5,
                     .grad_norm = 0.75,
                     .learning_rate = 1e-4,
                     .tokens = 4096,
                     .tokens_per_second = 8192,
                     .mfu = 0.4375,
                     .seconds = 0.5,
                     .eta_seconds = 4.5,
                     .applied = false});
  metrics.Progress("j", 3, 12);
  metrics.Goodput("j", 0.875);
  metrics.Packing("j", 0.9375);
  std::map<std::string, double> values;
  for (const auto& family : registry->Collect()) {
    for (const auto& metric : family.metric) {
      values[family.name] = family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                                           : metric.gauge.value;
    }
  }
  const std::map<std::string, double> wanted = {
      {"coxswain_train_loss", 2.5},
      {"coxswain_grad_norm", 0.75},
      {"coxswain_learning_rate", 1e-4},
      {"coxswain_train_tokens_total", 4096},
      {"coxswain_tokens_per_second", 8192},
      {"coxswain_mfu_ratio", 0.4375},
      {"coxswain_step", 3},
      {"coxswain_steps_expected", 12},
      {"coxswain_progress_ratio", 0.25},
      {"coxswain_eta_seconds", 4.5},
      {"coxswain_goodput_ratio", 0.875},
      {"coxswain_packing_efficiency_ratio", 0.9375},
      {"coxswain_nonfinite_steps_total", 1},
  };
  for (const auto& [name, value] : wanted) EXPECT_EQ(values[name], value) << name;
}

TEST(MetricNamesTest, DroppingAJobRemovesItsSeriesAndOnlyThose) {
  auto registry = std::make_shared<prometheus::Registry>();
  Metrics metrics(registry);
  for (const char* job : {"a", "b"}) {
    metrics.JobStateIs(job, v1::JOB_STATE_RUNNING);
    metrics.Step(job, {.experts = AllOfExperts()});
    metrics.Restart(job, "train");
    metrics.Checkpoint(job, 1, 1, 1);
    metrics.CheckpointStep(job, 1, 1);
    metrics.OutputFree(job, 1);
  }
  metrics.DropJob("a");
  int of_b = 0;
  for (const auto& family : registry->Collect()) {
    for (const auto& row : family.metric) {
      for (const auto& label : row.label) {
        if (label.name != "job") continue;
        EXPECT_EQ(label.value, "b") << family.name;
        ++of_b;
      }
    }
  }
  EXPECT_GT(of_b, 10);
}

}  // namespace
}  // namespace coxswain
