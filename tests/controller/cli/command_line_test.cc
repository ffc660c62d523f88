// What cox makes of words: help, version, mistyped verbs, several jobs at once.
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/identity.h"
#include "tests/controller/cli/run_cox.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HelpTest, ShowsTwelveVerbsAndTheOthersByGroup) {
  const std::string help = RunInProcess({"--help"}).out;
  const size_t begin = help.find("\nFirst verbs:\n"), end = help.find("\nMore verbs (");
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << help;
  std::istringstream lines(help.substr(begin + 14, end - begin - 14));
  int verbs = 0;
  for (std::string line; std::getline(lines, line);) verbs += line.starts_with("  ") ? 1 : 0;
  EXPECT_EQ(verbs, 12) << help;
  EXPECT_TRUE(Has(help, "\n  train         Run one job on this machine")) << help;
  EXPECT_TRUE(Has(help, "\n  jobs          logs, events, plot, explain,")) << help;
}

TEST(HelpTest, NamesEveryVerbOnce) {
  const std::string all = RunInProcess({"help", "--all"}).out;
  for (const char* verb : {"train", "delete", "tokenize", "token", "completion", "help"}) {
    const std::string line = std::string("\n  ") + verb + " ";
    EXPECT_TRUE(Has(all, line)) << verb << all;
    EXPECT_EQ(all.find(line), all.rfind(line)) << verb;
  }
}

TEST(HelpTest, OfAVerbIsWhatItsOptionPrints) {
  EXPECT_EQ(RunInProcess({"help"}).out, RunInProcess({"--help"}).out);
  const Ran submit = RunInProcess({"help", "submit"});
  EXPECT_EQ(submit.code, 0) << submit.err;
  EXPECT_EQ(submit.out, RunInProcess({"submit", "--help"}).out);
  EXPECT_TRUE(Has(submit.out, "cox submit [OPTIONS]")) << submit.out;
  EXPECT_EQ(RunInProcess({"help", "data", "check"}).out,
            RunInProcess({"data", "check", "--help"}).out);
}

TEST(VersionTest, OptionAsksNoController) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--version"}, {"-V"}}) {
    const Ran ran = RunInProcess(args);
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(ran.out,
              "cox " + std::string(BuildVersion()) + " (" + std::string(BuildCommit()) + ")\n");
    EXPECT_EQ(ran.err, "");
  }
}

// Invariant cli-2.
TEST(MistypedTest, SuggestsTheNearestWord) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"sumbit", "job.yaml"}, "cox: cox has no verb 'sumbit'; did you mean 'submit'?\n"},
      {{"zzz"}, "cox: cox has no verb 'zzz'; cox --help lists the verbs\n"},
      {{}, "cox: no verb is given; cox --help lists them\n"},
      {{"help", "zzz", "check"}, "cox: cox has no verb 'zzz'; cox --help lists the verbs\n"},
      {{"help", "trian"}, "cox: cox has no verb 'trian'; did you mean 'train'?\n"},
      {{"data", "chekc"}, "cox: cox data has no verb 'chekc'; did you mean 'check'?\n"},
      {{"help", "data", "zzz"},
       "cox: cox data has no verb 'zzz'; there are preview, inspect, check\n"},
      {{"data"}, "cox: cox data needs one of preview, inspect, check\n"},
      {{"submit", "a.yaml", "--folow"},
       "cox: cox submit has no option '--folow'; did you mean '--follow'?\n"},
      {{"get", "--sever=a:1"}, "cox: cox get has no option '--sever'; did you mean '--server'?\n"},
      {{"get", "--quite-other"},
       "cox: cox get has no option '--quite-other'; see cox get --help\n"},
  };
  for (const auto& [args, expected] : cases) {
    const Ran ran = RunInProcess(args);
    EXPECT_EQ(ran.code, 2) << expected;
    EXPECT_EQ(ran.err, expected);
    EXPECT_EQ(ran.out, "");
  }
}

// Invariant cli-2.
TEST(SeveralJobsTest, EachIsTriedAndTheHighestCodeReturned) {
  FakeJobs fake;
  fake.AddJob("first", v1::JOB_STATE_RUNNING);
  fake.AddJob("ended", v1::JOB_STATE_SUCCEEDED);
  fake.AddJob("last", v1::JOB_STATE_QUEUED);
  const Ran cancelled = RunAt(fake, {"cancel", "first", "nobody", "ended", "last"});
  EXPECT_EQ(cancelled.code, 4);
  EXPECT_EQ(cancelled.out, "job first-000001 CANCELLED\njob last-000003 CANCELLED\n");
  EXPECT_EQ(cancelled.err,
            "cox: nobody: no job \"nobody\" (0 match)\ncox: ended: the job ended already\n");
  const Ran deleted = RunAt(fake, {"delete", "first", "nobody", "last"});
  EXPECT_EQ(deleted.code, 4);
  EXPECT_EQ(deleted.out, "job first deleted\njob last deleted\n");
  EXPECT_EQ(deleted.err, "cox: nobody: no job \"nobody\" (0 match)\n");
  EXPECT_EQ(RunAt(fake, {"cancel"}).code, 2);
}

TEST(SeveralJobsTest, AreAListInJsonAndOneIsItself) {
  FakeJobs fake;
  for (const char* name : {"a", "b", "c"}) fake.AddJob(name, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Json::parse(RunAt(fake, {"pause", "a", "-o", "json"}).out)["state"], "PAUSED");
  const Json jobs = Json::parse(RunAt(fake, {"pause", "b", "c", "-o", "json"}).out)["jobs"];
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[1]["id"], "c-000003");
}

}  // namespace
}  // namespace coxswain::cli
