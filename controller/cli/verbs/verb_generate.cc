#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/parser/job_parser.h"
#include "common/host.h"
#include "common/identity.h"
#include "common/net/message_json.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/cli/command/follow.h"
#include "controller/cli/command/verb.h"
#include "controller/cli/connect/cluster.h"
#include "controller/cli/jobs/generation_job.h"
#include "controller/cli/jobs/job_change.h"
#include "controller/cli/jobs/submit.h"
#include "controller/cli/machine/interrupt.h"
#include "controller/cli/machine/local_resources.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/output.h"

namespace coxswain::cli {
namespace {

struct GenerateArgs {
  std::string source;  // a model's directory, or JOB[:step]
  GenerationArgs asked;
  std::string device = "auto";
  int64_t threads = 1;
  std::string output = "text";
};

bool IsModel(const std::string& source) {
  std::error_code error;
  return std::filesystem::exists(source + "/config.json", error);
}

// A job's name has no slash.
bool IsFolder(const std::string& source) {
  std::error_code error;
  return source.find('/') != std::string::npos && std::filesystem::is_directory(source, error);
}

absl::Status NotAModel(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder + "/adapter_config.json", error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        " holds an adapter and no model. Give it with --adapter: cox generate MODEL --adapter ",
        ShellQuoted(folder), ", where MODEL is the folder of its base model"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " holds neither config.json of a model nor an adapter"));
}

absl::StatusOr<nlohmann::ordered_json> JobOf(Cox* cox, const GenerateArgs& args) {
  if (IsModel(args.source)) return ModelGeneration(args.source, args.asked);
  if (IsFolder(args.source)) return NotAModel(args.source);
  const auto [id, step] = SplitStep(args.source);
  ASSIGN_OR_RETURN(const v1::Job job, cox->Server().Get(id));
  return JobGeneration(job, step, args.asked);
}

// Prints answers as they come: of one prompt piece by piece, of several each when it is whole.
class AnswerPrinter {
 public:
  AnswerPrinter(Cox* cox, const GenerateArgs& args)
      : cox_(cox), text_(!IsStructured(args.output)), one_(args.asked.prompts.size() < 2) {}

  bool Event(const v1::JobEvent& event) {
    if (text_ && one_ && event.has_answer_written()) {
      cox_->out() << event.answer_written().piece() << std::flush;
    }
    if (event.has_prompt_answered()) Answered(event.prompt_answered());
    return true;
  }

  const std::vector<v1::PromptAnswered>& answers() const { return answers_; }

 private:
  void Answered(const v1::PromptAnswered& answer) {
    answers_.push_back(answer);
    if (text_ && !one_) {
      cox_->out() << "> " << answer.text() << "\n" << answer.answer() << "\n";
    }
    if (text_) cox_->out() << "\n" << std::flush;
    cox_->err() << absl::StrFormat("%d tokens, %s, %.1f s\n", answer.tokens(),
                                   answer.ended() ? "ended" : "cut at the token limit",
                                   answer.seconds());
  }

  Cox* const cox_;
  const bool text_, one_;
  std::vector<v1::PromptAnswered> answers_;
};

absl::StatusOr<v1::Job> Submit(Cox* cox, nlohmann::ordered_json job, const std::string& scratch) {
  job["spec"]["checkpoint"]["output_dir"] = scratch;
  v1::SubmitRequest request;
  request.set_yaml(job.dump());  // JSON is YAML
  const config::ParsedJob parsed = config::ParseJob(request.yaml(), scratch);
  if (!parsed.errors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(parsed.errors[0].path, ": ", parsed.errors[0].message));
  }
  request.set_yaml_path(scratch + "/generate.yaml");
  request.set_idempotency_key(NewUuid());
  return cox->Server().Submit(request, std::chrono::seconds(10));
}

int SubmitAndPrint(Cox* cox, const GenerateArgs& args, const nlohmann::ordered_json& wanted,
                   const std::string& scratch, const std::optional<Cluster>& cluster) {
  const auto submitted = Submit(cox, wanted, scratch);
  if (!submitted.ok()) return cox->Fail(submitted.status());
  AnswerPrinter printer(cox, args);
  FollowOptions options;
  options.on_event = [&printer](const v1::JobEvent& event) { return printer.Event(event); };
  if (cluster) options.check = [&cluster] { return CheckProcesses(*cluster); };
  const auto job = FollowJob(cox, submitted->id(), options);
  if (InterruptSignal() != 0) {
    ClearInterrupt();
    (void)cox->Server().Cancel(submitted->id());
    cox->err() << "\ninterrupted\n";
    return kInterrupted;
  }
  if (!job.ok()) return cox->Fail(job.status());
  if (job->state() == v1::JOB_STATE_FAILED) {
    cox->err() << "cox: " << OneLine(job->error().message()) << "\n";
  } else if (IsStructured(args.output)) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const v1::PromptAnswered& answer : printer.answers()) {
      all.push_back(nlohmann::ordered_json::parse(MessageJson(answer).dump()));
      all.back().erase("seconds");  // the same question gives the same bytes; stderr has the time
    }
    PrintStructured(all, args.output, cox->out());
  }
  return ExitOf(job->state());
}

// A controller and one worker of this cox, for a model where none runs.
int RunHere(Cox* cox, const GenerateArgs& args, nlohmann::ordered_json wanted) {
  ClusterArgs cluster_args;
  cluster_args.directory = absl::StrCat(StateDir(), "/generate-", RandomHex(8));
  config::JobSpec spec;
  spec.workers = 1;
  spec.device = args.device == "auto"   ? config::Device::kAuto
                : args.device == "cuda" ? config::Device::kCuda
                                        : config::Device::kCpu;
  const auto local = ChooseLocally(spec, ListGpus(cluster_args.directory));
  if (!local.ok()) return cox->Fail(local.status());
  const config::Device device = local->chosen.device.value_or(spec.device);
  wanted["spec"]["resources"] = {{"device", config::DeviceName(device)}, {"workers", 1}};
  const bool cuda = device == config::Device::kCuda;
  cluster_args.workers = cuda ? 0 : 1;
  cluster_args.gpus = cuda ? 1 : 0;
  cluster_args.threads = static_cast<int>(args.threads);
  cluster_args.die_with_parent = true;
  const auto cluster = StartCluster(cluster_args);
  if (!cluster.ok()) {
    return InterruptSignal() != 0 ? static_cast<int>(kInterrupted) : cox->Fail(cluster.status());
  }
  cox->UseOwn(cluster->endpoint.grpc);
  const int code = SubmitAndPrint(cox, args, wanted, cluster_args.directory + "/scratch", *cluster);
  ClearInterrupt();
  StopCluster(*cluster);
  if (code == kOk || code == kInterrupted) {
    std::error_code error;
    std::filesystem::remove_all(cluster_args.directory, error);
  } else {
    cox->err() << "logs: " << cluster_args.directory << "\n";
  }
  return code;
}

// Of the controller that this cox talks to.
int RunThere(Cox* cox, const GenerateArgs& args, nlohmann::ordered_json wanted) {
  wanted["spec"]["resources"] = {{"device", args.device}, {"workers", 1}};
  const std::string scratch = absl::StrCat(StateDir(), "/generate-", RandomHex(8));
  const int code = SubmitAndPrint(cox, args, wanted, scratch, std::nullopt);
  std::error_code error;
  std::filesystem::remove_all(scratch, error);
  return code;
}

int RunGenerate(Cox* cox, const GenerateArgs& args) {
  auto wanted = JobOf(cox, args);
  if (!wanted.ok()) return cox->Fail(wanted.status());
  const bool runs = cox->Server().Version(std::chrono::seconds(2)).ok();
  if (IsModel(args.source) && !runs) return RunHere(cox, args, *std::move(wanted));
  return RunThere(cox, args, *std::move(wanted));
}

}  // namespace

void AddGenerate(CLI::App* app, Cox* cox) {
  auto args = std::make_shared<GenerateArgs>();
  Verb verb(app, "generate", "Answer prompts with a model, an adapter, or a job's checkpoint");
  verb.RequiredText("source", &args->source, "A model's directory, or JOB[:step]")
      .Texts("-p,--prompt", &args->asked.prompts, "Prompt to answer")
      .Word("--style", &args->asked.style, {"auto", "chat", "alpaca", "text"},
            "Form of a prompt. chat: a user message of the chat template; alpaca: an Alpaca "
            "instruction; text: unchanged; auto: like the job's records, else chat if there is a "
            "template")
      .Text("--messages", &args->asked.messages_file,
            "JSON file of a conversation: a list of {role, content}; -: standard input")
      .Text("--adapter", &args->asked.adapter, "PEFT adapter directory on the model")
      .Integer("-n,--max-new-tokens", &args->asked.max_new_tokens, 1, 1 << 20,
               "Largest number of tokens of an answer")
      .Number("--temperature", &args->asked.temperature,
              "0: take the likeliest token; above 0: draw a token")
      .Integer("--top-k", &args->asked.top_k, 0, 1 << 30,
               "Draw from so many of the likeliest tokens; 0: from all")
      .Number("--top-p", &args->asked.top_p,
              "Draw from the likeliest tokens that together have this probability")
      .Integer("--seed", &args->asked.seed, 0, int64_t{1} << 53, "Seed of the draws")
      .Word("--device", &args->device, {"auto", "cpu", "cuda"}, "Where to compute")
      .Integer("--threads", &args->threads, 1, 1024, "CPU threads of the worker, if cox starts one")
      .Output(&args->output, {"text", "json", "yaml"})
      .Footer(
          "Answers are printed as they come, counts go to stderr. With a model's directory the "
          "running\ncontroller answers; without one, cox starts a controller that ends with it.")
      .Run(cox, [cox, args] { return RunGenerate(cox, *args); });
}

}  // namespace coxswain::cli
