#include "controller/server.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <prometheus/registry.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/access/call_credentials.h"
#include "common/access/door.h"
#include "common/access/join_token.h"
#include "common/access/local_secrets.h"
#include "common/access/page_guard.h"
#include "common/access/secret_file.h"
#include "common/files/durable_file.h"
#include "common/identity.h"
#include "common/logging.h"
#include "common/net/health_server.h"
#include "common/net/metrics.h"
#include "common/status_macros.h"
#include "controller/access/audit_log.h"
#include "controller/access/tokens.h"
#include "controller/api/context.h"
#include "controller/api/jobs_service.h"
#include "controller/api/registry_service.h"
#include "controller/api/scrape_targets.h"
#include "controller/driver/job/job_table.h"
#include "controller/driver/preparation/lane_work.h"
#include "controller/status_page/status_page.h"
#include "controller/store/sqlite.h"
#include "controller/store/sqlite_store.h"
#include "controller/transport/grpc_worker_transport.h"
#include "controller/uploads/upload_store.h"

namespace coxswain {
namespace {

constexpr int kHttpThreads = 8;  // a browser holds several connections
constexpr std::chrono::seconds kShutdownGrace{2};
constexpr std::chrono::seconds kHealthPeriod{5};
constexpr std::chrono::seconds kPagePatience{5};  // with the loop
constexpr char kJobsService[] = "coxswain.v1.Jobs";

v1::BuildInfo ThisBuild() {
  v1::BuildInfo build;
  build.set_version(std::string(BuildVersion()));
  build.set_commit(std::string(BuildCommit()));
  build.set_protocol(kWireProtocol);
  return build;
}

}  // namespace

// Members in order of construction: what stands below uses what stands above.
struct Server::Impl {
  SystemClock clock;
  DiskFiles files;
  std::unique_ptr<store::SqliteStore> store;
  std::shared_ptr<prometheus::Registry> metrics_registry = std::make_shared<prometheus::Registry>();
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<uploads::UploadStore> uploads;
  driver::LaneWork lane_work;
  std::unique_ptr<Loop> loop;  // its lanes use what stands before it until they have ended
  std::unique_ptr<GrpcWorkerTransport> transport;
  std::unique_ptr<FanOut> fan_out;
  std::unique_ptr<scheduler::Registry> registry;
  std::unique_ptr<driver::Journal> journal;
  std::unique_ptr<driver::JobTable> jobs;
  api::EventHub events;
  api::Context context;
  std::unique_ptr<api::JobsService> jobs_service;
  std::unique_ptr<api::RegistryService> registry_service;
  std::unique_ptr<status_page::StatusPage> status_page;
  std::unique_ptr<HttpServer> http;  // /metrics and the status page; null: none
  std::thread loop_thread;
  SocketAddress listen;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<HealthServer> health;  // null: --health is off
  std::string state_dir, endpoint_file;
  access::Tokens tokens;
  std::string local_token;
  std::unique_ptr<access::JoinToken> join_token;
  std::unique_ptr<access::AuditLog> audit;
  std::unique_ptr<access::Door> door;
  bool draining = false;  // of the loop
  std::jthread page_check;

  ~Impl();
  absl::Status Build(const Flags& flags);
  absl::Status BuildDoor(const Flags& flags);
  void LeaveSecrets() const;
  absl::Status Serve(const Flags& flags);
  absl::Status ServeHttp(const Flags& flags);
  std::string HttpAddress() const { return http ? http->address() : std::string(); }
  absl::Status WriteEndpointFile();
  void CheckHealth();
  void CheckPages(const std::stop_token& stop);
  void SetServing(bool serving);
  void Drain(std::chrono::seconds grace);
  HttpResponse Page(const std::string& path);
  HttpResponse ScrapeTargetsPage();
};

absl::Status Server::Impl::Build(const Flags& flags) {
  state_dir = flags.state_dir;
  ASSIGN_OR_RETURN(store, store::SqliteStore::Open(state_dir));
  metrics = std::make_unique<Metrics>(metrics_registry);
  AddProcessMetrics("controller", metrics_registry.get());
  loop = std::make_unique<Loop>(&clock, Loop::Offloading::kToLanes);
  loop->OnStall([this](double seconds) {
    log::Warning("the event loop stalled: leases and deadlines are extended by as much",
                 {{"seconds", seconds}});
    metrics->LoopStall(seconds);
  });
  RETURN_IF_ERROR(BuildDoor(flags));
  transport = std::make_unique<GrpcWorkerTransport>(
      loop.get(), flags.tls, flags.insecure,
      access::SignByJoinToken(access::Role::kController, [this] { return join_token->Held(); }));
  fan_out = std::make_unique<FanOut>(FanOut::DefaultThreads());
  const std::chrono::milliseconds silence = std::chrono::seconds(flags.silence_seconds);
  registry = std::make_unique<scheduler::Registry>(
      loop.get(), transport.get(),
      scheduler::LeaseTimes{.suspect = 3 * silence / 5, .lost = silence});
  journal = std::make_unique<driver::Journal>(loop.get(), store.get());
  journal->OnEvents([this](const std::set<std::string>& changed) { events.Notify(changed); });
  journal->OnCommit([this](double seconds) { metrics->StoreCommit(seconds); });
  journal->OnDropped(
      [this](int64_t events, int64_t steps) { metrics->JournalDropped(events, steps); });
  const std::string cache_dir = flags.state_dir + "/token-cache";
  RETURN_IF_ERROR(files.MakeDirs(cache_dir));
  ASSIGN_OR_RETURN(uploads,
                   uploads::UploadStore::Open({.root = uploads::UploadsFolder(state_dir),
                                               .most_bytes_per_owner = flags.upload_gib << 30}));
  const sources::HubAccess hub_access{
      .token_users = {flags.hub_token_users.begin(), flags.hub_token_users.end()},
      .tokens_dir = flags.hub_tokens_dir};
  lane_work = driver::MakeLaneWork(cache_dir, &files, hub_access);
  driver::Deps deps{.loop = loop.get(),
                    .journal = journal.get(),
                    .files = &files,
                    .transport = transport.get(),
                    .fan_out = fan_out.get(),
                    .registry = registry.get(),
                    .lane_work = &lane_work,
                    .metrics = metrics.get(),
                    .incidents_dir = std::filesystem::absolute(flags.state_dir) / "incidents",
                    .settings = {}};
  deps.settings.credits = flags.credits;
  // Who is silent is lost before it is suspected of keeping others waiting.
  deps.settings.collective_floor =
      std::max(deps.settings.collective_floor, silence + std::chrono::seconds(2));
  jobs = std::make_unique<driver::JobTable>(deps);
  context.deps = deps;
  context.jobs = jobs.get();
  context.events = &events;
  context.door = door.get();
  context.tokens = &tokens;
  context.uploads = uploads.get();
  context.audit = audit.get();
  context.build = ThisBuild();
  context.plan = [cache_dir, files = &files](
                     const config::JobSpec& spec, const driver::WorkerFacts& workers,
                     const std::function<bool()>& cancelled) -> absl::StatusOr<v1::PlanResponse> {
    ASSIGN_OR_RETURN(driver::PlanPage page,
                     driver::MakePlanPage(cache_dir, files, spec, workers, cancelled));
    v1::PlanResponse response;
    response.set_text(std::move(page.text));
    response.set_json(std::move(page.json));
    return response;
  };
  context.pin = [hub_access, state_dir = state_dir](
                    config::ParsedJob job, const std::string& owner,
                    const std::function<bool()>& cancelled) -> absl::StatusOr<sources::PinnedJob> {
    ASSIGN_OR_RETURN(sources::HubCaller caller, sources::CallerOf(hub_access, owner));
    caller.upload = [&](const std::string& text) {
      return uploads::ResolveUpload(state_dir, owner, text);
    };
    return sources::PinSources(caller, std::move(job), cancelled);
  };
  jobs_service = std::make_unique<api::JobsService>(&context);
  registry_service = std::make_unique<api::RegistryService>(&context, registry.get(), ThisBuild());
  return absl::OkStatus();
}

absl::Status Server::Impl::BuildDoor(const Flags& flags) {
  const std::string join_file =
      flags.join_token_file.empty() ? flags.state_dir + "/join-token" : flags.join_token_file;
  RETURN_IF_ERROR(access::ReadOrDrawSecret(join_file).status());
  join_token = std::make_unique<access::JoinToken>(join_file, /*controller=*/"");
  ASSIGN_OR_RETURN(const std::vector<store::TokenRow> rows, store->Tokens());
  for (const store::TokenRow& row : rows) tokens.Put(row);
  local_token = access::DrawSecret();
  tokens.LetInLocally(local_token);
  audit = std::make_unique<access::AuditLog>(flags.state_dir);
  door = std::make_unique<access::Door>(access::Door::Options{
      .open = flags.open,
      .role_uri = flags.role_uri,
      .join_tokens = [this] { return join_token->Held(); },
      .bearer =
          [this](const std::string& token) { return tokens.Identify(token, clock.UnixMs()); }});
  if (flags.open) {
    log::Warning("--open: anybody who reaches a port may submit, cancel, register and read all");
  }
  return absl::OkStatus();
}

// Again and again: what cleans /tmp takes files that nobody has touched for long, and the folder of
// a login goes with it.
void Server::Impl::LeaveSecrets() const {
  const std::vector<std::string> held = join_token->Held();
  if (held.empty()) return;
  absl::Status left = access::LeaveLocalSecret(listen.port, access::kJoinToken, held.front());
  if (left.ok()) left = access::LeaveLocalSecret(listen.port, access::kOperatorToken, local_token);
  if (left.ok()) return;
  log::Warning("programs of this user cannot find the controller's tokens: each needs its own",
               {{"error", std::string(left.message())}});
}

absl::Status Server::Impl::Serve(const Flags& flags) {
  ASSIGN_OR_RETURN(listen, ParseSocketAddress(flags.listen));
  ASSIGN_OR_RETURN(const auto credentials, ServerCredentials(listen, flags.tls, flags.insecure));
  if (!flags.metrics.empty()) RETURN_IF_ERROR(ServeHttp(flags));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  builder.RegisterService(jobs_service.get());
  builder.RegisterService(registry_service.get());
  ASSIGN_OR_RETURN(server, StartServer(&builder, &listen, credentials));
  if (!flags.health.empty()) {
    ASSIGN_OR_RETURN(health, HealthServer::Start(flags.health));
  }
  SetServing(false);
  LeaveSecrets();
  RETURN_IF_ERROR(jobs->Recover());
  loop->Post([this] { CheckHealth(); });
  page_check = std::jthread([this](const std::stop_token& stop) { CheckPages(stop); });
  loop_thread = std::thread([this] { loop->Run(); });
  endpoint_file = flags.endpoint_file;
  return WriteEndpointFile();
}

// Until the loop runs, a request for the page waits.
absl::Status Server::Impl::ServeHttp(const Flags& flags) {
  status_page = std::make_unique<status_page::StatusPage>(
      &context, &clock, [this](Loop::Task task) { loop->Post(std::move(task)); });
  const auto page = [this](const std::string& path) { return Page(path); };
  HttpServer::Guard guard = [this](const HttpCaller& caller) {
    return access::RefusePage(*door, caller);
  };
  if (flags.open || flags.open_pages) guard = nullptr;
  ASSIGN_OR_RETURN(http, HttpServer::Start(flags.metrics, kHttpThreads, page, guard));
  context.pages = http->address();
  return absl::OkStatus();
}

absl::Status Server::Impl::WriteEndpointFile() {
  log::Info("serving", {{"grpc", listen.text()},
                        {"metrics", HttpAddress()},
                        {"pid", static_cast<int64_t>(getpid())}});
  if (endpoint_file.empty()) return absl::OkStatus();
  const nlohmann::json content = {
      {"grpc", listen.text()}, {"metrics", HttpAddress()}, {"pid", getpid()}};
  return WriteFileDurably(endpoint_file, content.dump() + "\n");
}

// Jobs is SERVING while the store takes writes.
void Server::Impl::CheckHealth() {
  const absl::Status writable = store->CheckWritable();
  if (!writable.ok()) {
    log::Error("the store takes no writes", {{"error", std::string(writable.message())}});
  }
  SetServing(writable.ok() && !draining);
  LeaveSecrets();
  std::error_code error;
  const auto space = std::filesystem::space(state_dir, error);
  if (!error) metrics->StateFree(static_cast<int64_t>(space.available));
  loop->After(kHealthPeriod, [this] { CheckHealth(); });
}

// Invariant store-9. Rows that cannot be read are set aside all the same (store-6).
void Server::Impl::CheckPages(const std::stop_token& stop) {
  const auto damage = store::FindDamage(state_dir + "/coxswain.db", stop);
  if (absl::IsCancelled(damage.status())) return;
  if (!damage.ok()) {
    log::Warning("the pages of the store cannot be checked",
                 {{"error", std::string(damage.status().message())}});
    return;
  }
  metrics->StoreDamage(static_cast<int64_t>(damage->size()));
  for (const std::string& sentence : *damage) {
    log::Error("the store's file is damaged: keep a copy, and restore a backup of it",
               {{"file", state_dir + "/coxswain.db"}, {"damage", sentence}});
  }
}

void Server::Impl::SetServing(bool serving) {
  server->GetHealthCheckService()->SetServingStatus(kJobsService, serving);
  if (health) health->Set(kJobsService, serving);
}

void Server::Impl::Drain(std::chrono::seconds grace) {
  auto at_rest = std::make_shared<std::promise<void>>();
  auto rest = at_rest->get_future();
  loop->Post([this, at_rest] {
    draining = true;
    SetServing(false);
    jobs->Stop([at_rest] { at_rest->set_value(); });
  });
  if (rest.wait_for(grace) == std::future_status::ready) return;
  loop->Post([this, grace] {
    log::Warning(
        "stopping although not all jobs have stopped with a checkpoint: these go on from "
        "their last one (--grace)",
        {{"seconds", static_cast<int64_t>(grace.count())},
         {"jobs", absl::StrJoin(jobs->NotAtRest(), ", ")}});
  });
}

HttpResponse Server::Impl::Page(const std::string& path) {
  if (path == "/metrics") return MetricsText(*metrics_registry);
  if (path == "/scrape-targets") return ScrapeTargetsPage();
  return status_page->Answer(path);
}

HttpResponse Server::Impl::ScrapeTargetsPage() {
  auto text = std::make_shared<std::promise<std::string>>();
  auto answer = text->get_future();
  loop->Post([this, text] { text->set_value(api::ScrapeTargets(registry->All())); });
  if (answer.wait_for(kPagePatience) != std::future_status::ready) {
    return {.status = 503, .body = "the controller is starting, stopping or overloaded\n"};
  }
  return {.body = answer.get(), .content_type = "application/json"};
}

Server::Impl::~Impl() {
  page_check = {};
  http.reset();  // the loop still runs: requests in progress end by themselves
  if (server) {
    server->GetHealthCheckService()->SetServingStatus(false);
    if (health) health->Set(kJobsService, false);
    // The loop still runs: calls that wait for it can end by themselves.
    server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server->Wait();
  }
  if (loop_thread.joinable()) {
    std::promise<void> flushed;
    loop->Post([this, &flushed] {
      journal->Flush().IgnoreError();  // logged there
      flushed.set_value();
    });
    flushed.get_future().wait();
    loop->Stop();
    loop_thread.join();
  }
  if (!endpoint_file.empty()) unlink(endpoint_file.c_str());
  if (server) access::RemoveLocalSecrets(listen.port);
  jobs.reset();
  journal.reset();
  registry.reset();
  transport.reset();
}

Server::Server() : impl_(std::make_unique<Impl>()) {}
Server::~Server() = default;

void Server::Drain(std::chrono::seconds grace) { impl_->Drain(grace); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Flags& flags) {
  std::unique_ptr<Server> server(new Server());
  RETURN_IF_ERROR(server->impl_->Build(flags));
  RETURN_IF_ERROR(server->impl_->Serve(flags));
  return server;
}

}  // namespace coxswain
