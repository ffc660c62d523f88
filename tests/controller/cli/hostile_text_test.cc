// Text from elsewhere that tries to be more than text, through every verb that shows some.
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/outside_text.h"
#include "controller/cli/command/verb.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"
#include "tests/controller/cli/run_cox.h"
#include "tests/controller/cli/temp_dir.h"

namespace coxswain::cli {
namespace {

// Colours, ends the line, begins one, and runs backwards.
constexpr char kHostile[] = "x\x1b[31m\r\nFORGED\ty\x7f\u009b2J\u202ez";

// Sets every field: text is hostile, numbers are 3, messages go as deep as `depth`.
void Fill(google::protobuf::Message* message, int depth) {
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const auto* field = message->GetDescriptor()->field(i);
    using Field = google::protobuf::FieldDescriptor;
    if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      if (depth == 0) continue;
      Fill(field->is_repeated() ? reflection->AddMessage(message, field)
                                : reflection->MutableMessage(message, field),
           depth - 1);
    } else if (field->type() == Field::TYPE_STRING) {
      field->is_repeated() ? reflection->AddString(message, field, kHostile)
                           : reflection->SetString(message, field, kHostile);
    } else if (field->is_repeated()) {
      continue;
    } else if (field->cpp_type() == Field::CPPTYPE_INT64) {
      reflection->SetInt64(message, field, 3);
    } else if (field->cpp_type() == Field::CPPTYPE_INT32) {
      reflection->SetInt32(message, field, 0);
    } else if (field->cpp_type() == Field::CPPTYPE_DOUBLE) {
      reflection->SetDouble(message, field, 3);
    }
  }
}

template <typename Message>
Message Hostile() {
  Message message;
  Fill(&message, 5);
  return message;
}

v1::Job HostileJob(v1::JobState state) {
  auto job = Hostile<v1::Job>();
  job.set_state(state);
  return job;
}

// Answers everything with hostile text.
class HostileJobs final : public v1::Jobs::Service {
 public:
  HostileJobs() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  Ran Run(std::vector<std::string> args) const {
    args.insert(args.end(), {"--server", address_});
    return RunInProcess(args);
  }

  using Context = grpc::ServerContext;
  grpc::Status Submit(Context*, const v1::SubmitRequest*, v1::Job* job) override {
    *job = HostileJob(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status Get(Context*, const v1::GetRequest* request, v1::Job* job) override {
    if (request->job() == "none") return {grpc::StatusCode::NOT_FOUND, kHostile};
    *job = HostileJob(request->job() == "a" ? v1::JOB_STATE_PAUSED : v1::JOB_STATE_FAILED);
    return grpc::Status::OK;
  }
  grpc::Status List(Context*, const v1::ListRequest*, v1::ListResponse* list) override {
    for (const auto state : {v1::JOB_STATE_RUNNING, v1::JOB_STATE_FAILED}) {
      *list->add_jobs() = HostileJob(state);
    }
    return grpc::Status::OK;
  }
  grpc::Status Watch(Context*, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::JobEvent>* events) override {
    for (const char* type : {"Warning", "CheckpointFailed", kHostile}) {
      auto event = Hostile<v1::JobEvent>();
      event.set_type(type);
      event.set_state(v1::JOB_STATE_PAUSED);
      events->Write(event);
    }
    v1::JobEvent committed;
    committed.set_message(kHostile);
    committed.mutable_checkpoint_committed()->set_directory(kHostile);
    events->Write(committed);
    return grpc::Status::OK;
  }
  grpc::Status Logs(Context*, const v1::LogsRequest*,
                    grpc::ServerWriter<v1::LogLine>* lines) override {
    lines->Write(Hostile<v1::LogLine>());
    auto line = Hostile<v1::LogLine>();
    line.set_json(nlohmann::json{{"msg", kHostile}, {kHostile, kHostile}}.dump());
    lines->Write(line);
    return grpc::Status::OK;
  }
  grpc::Status Cancel(Context*, const v1::CancelRequest*, v1::Job* job) override {
    *job = HostileJob(v1::JOB_STATE_CANCELLED);
    return grpc::Status::OK;
  }
  grpc::Status Pause(Context*, const v1::PauseRequest*, v1::Job* job) override {
    *job = HostileJob(v1::JOB_STATE_PAUSED);
    return grpc::Status::OK;
  }
  grpc::Status Resume(Context*, const v1::ResumeRequest*, v1::Job* job) override {
    *job = HostileJob(v1::JOB_STATE_QUEUED);
    return grpc::Status::OK;
  }
  grpc::Status ListWorkers(Context*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse* workers) override {
    *workers = Hostile<v1::ListWorkersResponse>();
    return grpc::Status::OK;
  }
  grpc::Status Cordon(Context*, const v1::CordonRequest*, v1::CordonResponse* response) override {
    *response = Hostile<v1::CordonResponse>();
    return grpc::Status::OK;
  }
  grpc::Status Uncordon(Context*, const v1::UncordonRequest*,
                        v1::UncordonResponse* response) override {
    *response = Hostile<v1::UncordonResponse>();
    return grpc::Status::OK;
  }
  grpc::Status CreateToken(Context*, const v1::CreateTokenRequest*,
                           v1::CreateTokenResponse* response) override {
    *response = Hostile<v1::CreateTokenResponse>();
    return grpc::Status::OK;
  }
  grpc::Status BeginUpload(Context*, const v1::BeginUploadRequest* request,
                           v1::BeginUploadResponse* response) override {
    *response = Hostile<v1::BeginUploadResponse>();
    response->set_offset(request->bytes());  // all of it is there
    return grpc::Status::OK;
  }
  grpc::Status ListTokens(Context*, const v1::ListTokensRequest*,
                          v1::ListTokensResponse* response) override {
    *response = Hostile<v1::ListTokensResponse>();
    return grpc::Status::OK;
  }
  grpc::Status RevokeToken(Context*, const v1::RevokeTokenRequest*,
                           v1::RevokeTokenResponse* response) override {
    *response = Hostile<v1::RevokeTokenResponse>();
    return grpc::Status::OK;
  }
  grpc::Status Inspect(Context*, const v1::InspectRequest*,
                       grpc::ServerWriter<v1::InspectResponse>* ranks) override {
    auto response = Hostile<v1::InspectResponse>();
    response.clear_choices();  // lines
    ranks->Write(response);
    return grpc::Status::OK;
  }
  grpc::Status Explain(Context*, const v1::ExplainRequest*,
                       v1::ExplainResponse* response) override {
    response->set_text(std::string("\x1b[31m\r\x7f\u009b2J\u202e") + OneLine(kHostile));
    return grpc::Status::OK;
  }
  grpc::Status ListArtifacts(Context*, const v1::ListArtifactsRequest*,
                             v1::ListArtifactsResponse* response) override {
    auto* artifact = response->add_artifacts();
    artifact->set_name(kHostile);
    return grpc::Status::OK;
  }
  grpc::Status Fetch(Context*, const v1::FetchRequest*,
                     grpc::ServerWriter<v1::FetchResponse>*) override {
    return grpc::Status::OK;
  }
  grpc::Status Dump(Context*, const v1::DumpRequest*, v1::DumpResponse* response) override {
    const nlohmann::json rank = {{"worker", kHostile},
                                 {"error", kHostile},
                                 {"dump", {{"device", {{"gpu", {{"problem", kHostile}}}}}}},
                                 {"controller", {{"phase", kHostile}}},
                                 {"process", {{"pid", 3}, {"state", kHostile}}}};
    response->set_json(nlohmann::json{
        {"id", kHostile},
        {"state", kHostile},
        {"ranks", {rank}},
        {"explanation", "\x1b[31m"},
        {"file", kHostile}}.dump());
    return grpc::Status::OK;
  }
  grpc::Status Delete(Context*, const v1::DeleteRequest*, v1::DeleteResponse*) override {
    return {grpc::StatusCode::FAILED_PRECONDITION, kHostile};
  }
  grpc::Status Version(Context*, const v1::VersionRequest*, v1::BuildInfo* build) override {
    *build = Hostile<v1::BuildInfo>();
    return grpc::Status::OK;
  }

 private:
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

void ExpectHarmless(const std::string& text) {
  EXPECT_TRUE(IsUtf8(text));
  EXPECT_EQ(CleanText(text, text.size() + 64), text);
  EXPECT_FALSE(text.starts_with("FORGED") || text.find("\nFORGED") != std::string::npos)
      << "a line of its own: " << text;
}

std::string WriteHostileJob() {
  const std::string path = TempDir() + "/hostile.yaml";
  std::ofstream(path)
      << "apiVersion: coxswain/v1\nkind: FineTuneJob\nmetadata: {name: tiny}\nspec:\n"
         "  base_model: ./model\n  datasets: [{path: ./train.jsonl}]\n";
  return path;
}

const std::vector<std::vector<std::string>> kCalls = {
    {"get"},
    {"get", "-o", "wide"},
    {"get", "-o", "name"},
    {"get", "a"},
    {"get", "none"},
    {"describe", "a"},
    {"describe", "failed"},
    {"describe", "none"},
    {"watch", "failed"},
    {"watch", "failed", "--progress", "plain"},
    {"events", "a"},
    {"events", "failed", "-f"},
    {"plot", "a", "failed", "-o", "-"},
    {"logs", "a"},
    {"explain", "a"},
    {"workers"},
    {"workers", "-o", "wide"},
    {"workers", "cordon", "h"},
    {"workers", "uncordon", "h"},
    {"token", "create", "--user", "a"},
    {"token", "list"},
    {"token", "revoke", "a"},
    {"inspect", "a"},
    {"inspect", "a", "-o", "wide"},
    {"dump", "a"},
    {"pause", "a"},
    {"pause", "a", "-o", "name"},
    {"cancel", "a"},
    {"resume", "a"},
    {"delete", "a"},
    {"step", "failed"},
    {"download", "a", "-o", "/nonexistent"},
    {"export", "a", "-o", "/nonexistent"},
    {"push", "a", "org/tuned"},
    {"upload", "README.md"},
    {"version"},
};

// Invariant cli-7.
TEST(HostileTextTest, NoVerbLetsItThrough) {
  HostileJobs server;
  for (const std::vector<std::string>& call : kCalls) {
    SCOPED_TRACE(testing::PrintToString(call));
    const Ran ran = server.Run(call);
    ExpectHarmless(ran.out);
    ExpectHarmless(ran.err);
    EXPECT_NE((ran.out + ran.err).find("FORGED"), std::string::npos) << ran.out << ran.err;
  }
}

// Invariant cli-7.
TEST(HostileTextTest, SubmittedJobsAreShownTheSameWay) {
  HostileJobs server;
  for (const char* output : {"table", "name"}) {
    const Ran ran = server.Run({"submit", WriteHostileJob(), "-o", output});
    ExpectHarmless(ran.out);
    ExpectHarmless(ran.err);
    EXPECT_NE(ran.out.find("FORGED"), std::string::npos) << ran.out << ran.err;
  }
}

// Invariant cli-7: a verb that is not listed here, and shows what a server says, is not tested.
TEST(HostileTextTest, EveryVerbIsTriedOrAsksNoServer) {
  const std::set<std::string> alone = {"train",    "generate", "up",     "down",   "validate",
                                       "plan",     "data",     "models", "pull",   "template",
                                       "tokenize", "import",   "health", "submit", "completion",
                                       "config",   "help"};
  std::set<std::string> tried;
  for (const std::vector<std::string>& call : kCalls) tried.insert(call[0]);
  CLI::App app;
  Cox cox;
  BuildApp(&app, &cox);
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    EXPECT_NE(tried.count(verb->get_name()), alone.count(verb->get_name())) << verb->get_name();
  }
}

// Invariant cli-7: the terminal is spared, the reader of JSON gets what is.
TEST(HostileTextTest, StructuredOutputHoldsItUnchanged) {
  HostileJobs server;
  for (const std::vector<std::string>& call :
       {std::vector<std::string>{"get", "a", "-o", "json"}, {"describe", "a", "-o", "json"}}) {
    const Ran ran = server.Run(call);
    ExpectHarmless(ran.out);
    EXPECT_EQ(nlohmann::json::parse(ran.out)["name"], kHostile) << ran.out;
  }
  const Ran yaml = server.Run({"get", "a", "-o", "yaml"});
  ExpectHarmless(yaml.out);
  EXPECT_NE(yaml.out.find("name: \"x\\u001b[31m\\r\\nFORGED"), std::string::npos) << yaml.out;
}

TEST(HostileTextTest, ArgumentsOfTheUserAreNoExceptions) {
  const Ran ran = RunInProcess({"get", "--no\x1b[31m\xff"});
  EXPECT_EQ(ran.code, 2);
  ExpectHarmless(ran.err);
}

}  // namespace
}  // namespace coxswain::cli
