// cox up, train and down with the real controller, supervisor and workers.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/controller/cli/run_cox.h"
#include "tests/controller/cli/temp_dir.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::json;

struct Shell {
  int code = -1;
  std::string out;
};

Shell RunShell(const std::string& command) {
  Shell shell;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) shell.out.append(buffer, n);
  const int status = pclose(pipe);
  shell.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return shell;
}

// The real binary, which looks for its companions beside itself; both streams, or stdout as JSON.
Shell Cox(const std::string& args) {
  return RunShell(std::string(COX_BINARY " ") + args + " 2>&1");
}
Json CoxJson(const std::string& args) {
  const std::string errors = TempDir() + "/stderr";
  const Shell shell = RunShell(std::string(COX_BINARY " ") + args + " -o json 2>" + errors);
  EXPECT_EQ(shell.code, 0) << args << shell.out << support::ReadFile(errors);
  return Json::parse(shell.out, nullptr, /*allow_exceptions=*/false);
}

bool Eventually(const std::function<bool()>& condition) {
  return support::Eventually(condition, std::chrono::seconds(60));
}

// A process that ended and was not reaped yet has no program any more.
bool IsAlive(const Json& pid) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/" + pid.dump() + "/exe", error);
  return !error && !program.empty();
}

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_STATE_HOME", (TempDir() + "/state").c_str(), 1);
    setenv("XDG_CACHE_HOME", (TempDir() + "/cache").c_str(), 1);
    unsetenv("COXSWAIN_SERVER");
  }
  void TearDown() override { Cox("down"); }

  // Arguments of a short run of the quickstart whose output stays in the test's directory.
  static std::string Job(int steps) {
    return "deploy/quickstart/job.yaml --set train.max_steps=" + std::to_string(steps) +
           " --set 'test_datasets=[]' --set checkpoint.output_dir=" + TempDir() + "/out";
  }
};

TEST_F(ClusterTest, UpStartsDownStops) {
  const Json cluster = CoxJson("up --workers 2");
  EXPECT_EQ(CoxJson("workers")["workers"].size(), 2u);
  const Shell again = Cox("up --workers 2");
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.out.find("already up"), std::string::npos);
  EXPECT_EQ(Cox("up --workers 1").code, 1);
  const Shell down = Cox("down");
  EXPECT_EQ(down.code, 0) << down.out;
  EXPECT_FALSE(IsAlive(cluster["controller_pid"]));
  EXPECT_FALSE(IsAlive(cluster["supervisor_pid"]));
  EXPECT_EQ(Cox("down").out, "nothing is up\n");
  EXPECT_EQ(Cox("get").code, 5);
}

TEST_F(ClusterTest, UpRefusesAnUnknownNumberOfGpusAndNoWorkers) {
  const Shell unknown = Cox("up --gpus some");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.out.find("--gpus some: expected a number of GPUs or all"), std::string::npos)
      << unknown.out;
  EXPECT_EQ(Cox("up --workers 0").code, 2);
}

TEST_F(ClusterTest, UpWithoutNumbersSaysWhatItTook) {
  const Shell up = Cox("up");
  EXPECT_EQ(up.code, 0) << up.out;
  EXPECT_EQ(up.out.rfind("device: ", 0), 0u) << up.out;
  EXPECT_NE(up.out.find(" (auto: "), std::string::npos) << up.out;
}

TEST_F(ClusterTest, TrainChoosesAutoResourcesAndSaysSo) {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const Shell train = Cox("train " + Job(2) +
                          " --set resources.device=auto --set resources.workers=auto "
                          "--set checkpoint.save_steps=2");
  EXPECT_EQ(train.code, 0) << train.out;
  EXPECT_EQ(train.out.rfind("device: cpu (auto: ", 0), 0u) << train.out;
  EXPECT_NE(train.out.find("), workers: 1 (auto)\nstarting a controller and 1 worker\n"),
            std::string::npos)
      << train.out;
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(ClusterTest, StepsOfAPausedJobRankByRank) {
  ASSERT_EQ(Cox("up --workers 2").code, 0);
  const Shell submitted = Cox("submit " + Job(4) + " --paused -o name");
  ASSERT_EQ(submitted.code, 0) << submitted.out;
  const Json result = CoxJson("step quickstart -n 2");
  ASSERT_EQ(result["steps"].size(), 2u);
  EXPECT_EQ(result["steps"][0]["ranks"].size(), 2u);
  EXPECT_EQ(result["job"]["state"], "PAUSED");
  EXPECT_EQ(result["job"]["progress"]["step"], 2);
  EXPECT_EQ(Cox("resume quickstart").code, 0);
  const Shell watched = Cox("watch quickstart");
  EXPECT_EQ(watched.code, 0) << watched.out;
  EXPECT_NE(watched.out.find("SUCCEEDED at step 4/4"), std::string::npos) << watched.out;
  const Shell downloaded = Cox("download quickstart -o " + TempDir() + "/adapter");
  EXPECT_EQ(downloaded.code, 0) << downloaded.out;
  EXPECT_TRUE(std::filesystem::exists(TempDir() + "/adapter/adapter_model.safetensors"));
}

TEST_F(ClusterTest, UpRestartsAKilledControllerAndTheJobGoesOn) {
  const Json cluster = CoxJson("up --workers 2");
  ASSERT_EQ(Cox("submit " + Job(6)).code, 0);
  kill(cluster["controller_pid"].get<pid_t>(), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !IsAlive(cluster["controller_pid"]); }));
  const Json up = CoxJson("up --workers 2");
  EXPECT_EQ(up["grpc"], cluster["grpc"]);
  EXPECT_EQ(up["supervisor_pid"], cluster["supervisor_pid"]);
  const Shell watched = Cox("watch quickstart");
  EXPECT_EQ(watched.code, 0) << watched.out;
}

TEST_F(ClusterTest, UpFailsWithTheLastWordsOfAControllerThatCannotStart) {
  const std::string state = TempDir() + "/state/coxswain/controller";
  std::filesystem::create_directories(state);
  std::ofstream(state + "/coxswain.db") << std::string(8192, 'x');
  const Shell up = Cox("up --workers 1");
  EXPECT_EQ(up.code, 1) << up.out;
  EXPECT_NE(up.out.find("starting the controller: the controller ended"), std::string::npos)
      << up.out;
  EXPECT_NE(up.out.find("file is not a database"), std::string::npos) << up.out;
  std::filesystem::remove_all(state);
}

TEST_F(ClusterTest, AControllerThatDiedIsToldOfByUpInTheForegroundAndByTheNextCommand) {
  const std::string log = TempDir() + "/up.log";
  const std::string endpoint = TempDir() + "/state/coxswain/endpoint.json";
  const Shell up = RunShell(std::string(COX_BINARY " up --workers 1 --foreground > ") + log +
                            " 2>&1 & pid=$!\n" + "for i in $(seq 600); do grep -q 'status page' " +
                            log + " && break; sleep 0.1; done\n" + "cp " + endpoint + " " +
                            endpoint + ".kept\n" + "kill -KILL $(grep -o '\"pid\":[0-9]*' " +
                            endpoint + " | cut -d: -f2)\n" + "wait $pid; echo code $?");
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(up.out.find("code 1\n"), std::string::npos) << up.out << text;
  EXPECT_NE(text.find("the controller ended by itself. Newest lines of"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\"msg\":\"worker registered\""), std::string::npos) << text;

  std::filesystem::rename(endpoint + ".kept", endpoint);  // as a detached one leaves it
  const Shell get = Cox("get");
  EXPECT_EQ(get.code, 5) << get.out;
  EXPECT_NE(get.out.find("has ended; cox up starts it again"), std::string::npos) << get.out;
  std::filesystem::remove(endpoint);
}

// What it owns does not come back: nothing is waited for.
TEST_F(ClusterTest, TrainEndsWithTheLastWordsOfAControllerThatDied) {
  const std::string log = TempDir() + "/train.log";
  const Shell train =
      RunShell(std::string(COX_BINARY " train ") + Job(1000) + " > " + log + " 2>&1 & pid=$!\n" +
               "for i in $(seq 600); do grep -q 'step 1/' " + log + " && break; sleep 0.1; done\n" +
               "kill -KILL $(cat " + TempDir() + "/state/coxswain/train-*/endpoint.json | " +
               "grep -o '\"pid\":[0-9]*' | cut -d: -f2)\nbegan=$(date +%s); wait $pid\n" +
               "echo code $? after $(( $(date +%s) - began )) s");
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(train.out.find("code 1 after "), std::string::npos) << train.out << text;
  EXPECT_NE(text.find("the controller ended by itself. Newest lines of"), std::string::npos)
      << text;
  std::filesystem::remove_all(TempDir() + "/state");
}

// Invariant cli-3: train owns its processes.
TEST_F(ClusterTest, InterruptedTrainCancelsAndStopsEverything) {
  const std::string log = TempDir() + "/train.log";
  const Shell train =
      RunShell(std::string(COX_BINARY " train ") + Job(1000) + " > " + log + " 2>&1 & pid=$!\n" +
               "for i in $(seq 600); do grep -q 'step 1/' " + log + " && break; sleep 0.1; done\n" +
               "kill -INT $pid; wait $pid; echo code $?");
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(train.out.find("code 130"), std::string::npos) << train.out << text;
  EXPECT_NE(text.find(": CANCELLED"), std::string::npos) << train.out << text;
  // What it says is pasted, with an end.
  const std::string go_on = "go on with:  cox ";
  const size_t begin = text.find(go_on);
  ASSERT_NE(begin, std::string::npos) << text;
  const size_t args = begin + go_on.size();
  const std::string pasted = text.substr(args, text.find('\n', args) - args);
  EXPECT_NE(pasted.find("--set 'test_datasets=[]'"), std::string::npos) << pasted;
  std::filesystem::remove_all(TempDir() + "/state");
  const Shell again = RunShell(
      std::string(COX_BINARY " ") + pasted + " > " + log + " 2>&1 & pid=$!\n" +
      "for i in $(seq 600); do grep -q 'Resuming: from' " + log + " && break; sleep 0.1; done\n" +
      "kill -TERM $pid; wait $pid; echo code $?; cat " + log);
  EXPECT_NE(again.out.find("code 130"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find("Resuming: from " + TempDir() + "/out/checkpoint-"), std::string::npos)
      << again.out;
  EXPECT_NE(text.find("controller and workers stopped"), std::string::npos) << train.out << text;
  for (const auto& entry : std::filesystem::directory_iterator(TempDir() + "/state/coxswain")) {
    EXPECT_EQ(entry.path().filename().string().rfind("train-", 0), std::string::npos)
        << entry.path();
  }
}

// The worker stands still, so that its checkpoint is never saved.
TEST_F(ClusterTest, ASecondInterruptEndsTrainAtOnce) {
  const std::string log = TempDir() + "/train.log";
  const Shell train = RunShell(
      std::string(COX_BINARY " train ") + Job(1000) + " > " + log + " 2>&1 & pid=$!\n" +
      "until_says() { for i in $(seq 600); do grep -q \"$1\" " + log +
      " && break; sleep 0.1; done; }\n" + "until_says 'step 1/'\n" +
      "supervisor=$(pgrep -P $pid -f coxswain-supervisor); workers=$(pgrep -P $supervisor)\n" +
      "kill -STOP $workers; kill -INT $pid; until_says 'Ctrl-C again'\n" +
      "began=$(date +%s); kill -INT $pid; wait $pid; echo code $?\n" +
      "[ $(( $(date +%s) - began )) -lt 15 ] && echo at once\n" +
      "for process in $supervisor $workers; do for i in $(seq 100); do\n" +
      "  [ -e /proc/$process/exe ] || continue 2; sleep 0.1; done; echo left $process; done");
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(train.out, "code 130\nat once\n") << text;
  EXPECT_NE(text.find("stopped without waiting"), std::string::npos) << text;
  EXPECT_NE(text.find("controller and workers stopped"), std::string::npos) << text;
}

TEST_F(ClusterTest, AnotherLearningRateInTheSameFolderStartsNothing) {
  const std::string train = "train " + Job(1) + " --set checkpoint.output_dir=" + TempDir() +
                            "/rates --set checkpoint.resume=auto --set checkpoint.save_steps=1";
  ASSERT_EQ(Cox(train).code, 0);
  const Shell other = Cox(train + " --set train.learning_rate=0.5");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("train.learning_rate is 0.0002 there and 0.5 here"), std::string::npos)
      << other.out;
  EXPECT_EQ(other.out.find("starting a controller"), std::string::npos) << other.out;
}

// Eight workers take a while to start.
TEST_F(ClusterTest, AnInterruptWhileTheWorkersStartSubmitsNothing) {
  const std::string log = TempDir() + "/train.log";
  const Shell train =
      RunShell(std::string(COX_BINARY " train ") + Job(1000) + " --workers 8 > " + log +
               " 2>&1 & pid=$!\n" + "for i in $(seq 3000); do grep -q 'starting a controller' " +
               log + " && break; sleep 0.02; done\n" + "kill -INT $pid; wait $pid; echo code $?");
  std::ifstream in(log);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(train.out, "code 130\n") << text;
  EXPECT_NE(text.find("interrupted: no job was submitted"), std::string::npos) << text;
}

}  // namespace
}  // namespace coxswain::cli
