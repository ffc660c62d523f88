#include "tests/support/hub_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <httplib.h>

#include "tests/support/hub_repositories.h"
#include "tests/support/hub_uploads.h"

namespace coxswain::support {
namespace {

using httplib::Request;
using httplib::Response;
using Json = nlohmann::json;

constexpr size_t kChunkBytes = 1 << 20;
constexpr size_t kThreads = 64;  // each connection that is kept holds one

// The library lets five clients wait for a connection; the sixth tries again after a second.
class QueuingServer : public httplib::Server {
 public:
  int Bind() {
    const int port = bind_to_any_port("127.0.0.1");
    return port > 0 && ::listen(svr_sock_, 256) == 0 ? port : -1;
  }
};

// Ends the connection of a request from the outside: the library lets no handler do it.
void EndConnection(const Request& request) {
  for (int fd = 3; fd < 4096; ++fd) {
    sockaddr_in peer{};
    socklen_t length = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.sin_family == AF_INET && ntohs(peer.sin_port) == request.remote_port) {
      shutdown(fd, SHUT_RDWR);
    }
  }
}

// One port of loopback.
class Port {
 public:
  using Take = std::function<void(const Request&, Response&, const httplib::ContentReader&)>;

  // `take` is given what a POST or PUT brings, `answer` everything else.
  Port(std::function<void(const Request&, Response&)> answer, const Take& take) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_keep_alive_max_count(1'000'000);
    server_.set_keep_alive_timeout(1);
    server_.set_tcp_nodelay(true);
    server_.set_pre_routing_handler(
        [answer = std::move(answer)](const Request& request, Response& response) {
          if (request.method == "POST" || request.method == "PUT") {
            return httplib::Server::HandlerResponse::Unhandled;
          }
          answer(request, response);
          // An error has no range, whatever was asked for.
          if (response.status >= 400) const_cast<Request&>(request).ranges.clear();
          return httplib::Server::HandlerResponse::Handled;
        });
    server_.Post(".*", take);
    server_.Put(".*", take);
    const int port = server_.Bind();
    if (port <= 0) throw std::runtime_error("the test's Hub cannot bind a port");
    url_ = "http://127.0.0.1:" + std::to_string(port);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Port() {
    server_.stop();
    thread_.join();
  }
  const std::string& url() const { return url_; }

 private:
  QueuingServer server_;
  std::string url_;
  std::thread thread_;
};

void Error(Response& response, int status, const std::string& code, const std::string& message) {
  response.status = status;
  if (!code.empty()) response.set_header("X-Error-Code", code);
  response.set_header("X-Error-Message", message);
  response.set_content(Json{{"error", message}}.dump(), "application/json");
}

Json EntryOf(const ServedFile& file) {
  Json entry = {{"type", "file"}, {"oid", file.oid}, {"size", file.bytes}, {"path", file.path}};
  if (!file.sha256.empty()) {
    entry["lfs"] = {{"oid", file.sha256}, {"size", file.bytes}, {"pointerSize", 130}};
  }
  return entry;
}

struct Asked {
  std::string repository;  // "models/org/name"
  std::string verb;        // "revision", "tree", "resolve", or "" of the repository itself
  std::string rest;        // behind the verb
};

Asked Parse(const std::string& path) {
  const bool api = path.compare(0, 5, "/api/") == 0;
  std::string rest = path.substr(api ? 5 : 1);
  if (!api && rest.compare(0, 9, "datasets/") != 0) rest = "models/" + rest;
  for (const std::string verb : {"revision", "tree", "resolve"}) {
    const size_t at = rest.find("/" + verb + "/");
    if (at == std::string::npos) continue;
    return {rest.substr(0, at), verb, rest.substr(at + verb.size() + 2)};
  }
  return {rest, "", "main"};
}

// Every folder above the files [begin, end).
std::set<std::string> FoldersOf(const std::vector<ServedFile>& files, size_t begin, size_t end) {
  std::set<std::string> folders;
  for (size_t i = begin; i < end; ++i) {
    const std::string& path = files[i].path;
    for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      folders.insert(path.substr(0, at));
    }
  }
  return folders;
}

// The files of a folder of the repository, and of those below it.
ServedRevision Below(const ServedRevision& revision, const std::string& folder) {
  ServedRevision below{.commit = revision.commit, .files = {}};
  for (const ServedFile& file : revision.files) {
    if (file.path.starts_with(folder + "/")) below.files.push_back(file);
  }
  return below;
}

}  // namespace

struct HubServer::Impl {
  explicit Impl(std::string root)
      : folder(std::move(root)),
        uploads(
            folder, [this] { return Repositories(); }, [this] { Load(); }) {
    Load();
  }

  void Load() {
    auto fresh = std::make_shared<const HubRepositories>(folder);
    const std::lock_guard lock(mu);
    repositories = std::move(fresh);
  }
  std::shared_ptr<const HubRepositories> Repositories() const {
    const std::lock_guard lock(mu);
    return repositories;
  }

  void OnHub(const Request& request, Response& response);
  void OnCdn(const Request& request, Response& response);
  bool Refuse(const Request& request, Response& response, bool api);
  bool Fail(Response& response, int HubBehaviour::*left);
  void AnswerApi(const Request& request, Response& response);
  void AnswerTree(const Request& request, Response& response, const ServedRevision& revision);
  void AnswerFile(const Request& request, Response& response);
  void OnPost(const Request& request, Response& response, const httplib::ContentReader& body);
  void OnPut(const Request& request, Response& response, const httplib::ContentReader& body);
  bool Receive(const httplib::ContentReader& body, const std::string& file, bool cut);
  bool Strikes(int HubBehaviour::*left);
  void Interfere(const std::string& path);
  void AnswerControl(const Request& request, Response& response);
  void Send(const ServedFile& file, Response& response);
  bool SendChunk(int fd, size_t offset, size_t length, size_t begin, const HubBehaviour& strikes,
                 httplib::DataSink& sink);

  const std::string folder;
  HubUploads uploads;
  mutable std::mutex mu;
  std::condition_variable changed;
  std::shared_ptr<const HubRepositories> repositories;
  HubBehaviour behaviour;
  HubCounters counters;
  bool stopped = false;
  std::unique_ptr<Port> cdn, hub;  // the servers end before what they use
};

bool HubServer::Impl::Fail(Response& response, int HubBehaviour::*left) {
  const std::lock_guard lock(mu);
  if (behaviour.*left == 0) return false;
  --(behaviour.*left);
  Error(response, behaviour.status, "", "it fails as it was told");
  if (!behaviour.retry_after.empty()) response.set_header("Retry-After", behaviour.retry_after);
  if (!behaviour.rate_limit.empty()) response.set_header("RateLimit", behaviour.rate_limit);
  return true;
}

bool HubServer::Impl::Refuse(const Request& request, Response& response, bool api) {
  const std::string sent = request.get_header_value("Authorization");
  HubBehaviour now;
  {
    const std::lock_guard lock(mu);
    now = behaviour;
    ++(api ? counters.api : counters.files);
    if (!sent.empty()) ++counters.tokens;
  }
  const std::string said = now.says_token ? " You sent: " + sent : "";
  if (!now.token.empty() && sent != "Bearer " + now.token) {
    const bool nobody = sent.empty();
    Error(
        response, 401, nobody ? "RepoNotFound" : "",
        (nobody ? "Invalid username or password." : "Invalid credentials in Authorization header") +
            said);
    return true;
  }
  if (now.gated && !api) {
    Error(response, 403, "GatedRepo", "Access to this model is restricted." + said);
    return true;
  }
  return Fail(response, api ? &HubBehaviour::fail_api : &HubBehaviour::fail_files);
}

void HubServer::Impl::OnHub(const Request& request, Response& response) {
  if (request.path.compare(0, 3, "/-/") == 0) return AnswerControl(request, response);
  const bool api = request.path.compare(0, 5, "/api/") == 0 &&
                   request.path.find("/resolve/") == std::string::npos;
  if (Refuse(request, response, api)) return;
  if (api) {
    AnswerApi(request, response);
  } else {
    AnswerFile(request, response);
  }
}

void HubServer::Impl::AnswerApi(const Request& request, Response& response) {
  const Asked asked = Parse(request.path);
  const auto served = Repositories();
  if (served->Find(asked.repository) == nullptr) {
    return Error(response, 404, "RepoNotFound", "Repository not found");
  }
  const ServedRevision* revision = served->Find(asked.repository, asked.rest);
  const size_t slash = asked.rest.find('/');
  if (revision == nullptr && asked.verb == "tree" && slash != std::string::npos) {
    revision = served->Find(asked.repository, asked.rest.substr(0, slash));
    if (revision != nullptr) {
      return AnswerTree(request, response, Below(*revision, asked.rest.substr(slash + 1)));
    }
  }
  if (revision == nullptr) return Error(response, 404, "RevisionNotFound", "Invalid rev id");
  if (asked.verb == "tree") return AnswerTree(request, response, *revision);
  Json info = {{"id", asked.repository.substr(asked.repository.find('/') + 1)},
               {"sha", revision->commit},
               {"private", uploads.IsPrivate(asked.repository)},
               {"gated", false},
               {"disabled", false},
               {"downloads", 0},
               {"likes", 0},
               {"tags", Json::array()},
               {"siblings", Json::array()}};
  for (const ServedFile& file : revision->files) {
    info["siblings"].push_back({{"rfilename", file.path}});
  }
  response.set_content(info.dump(), "application/json");
}

void HubServer::Impl::AnswerTree(const Request& request, Response& response,
                                 const ServedRevision& revision) {
  size_t entries = 0;
  std::string path;
  {
    const std::lock_guard lock(mu);
    entries = static_cast<size_t>(behaviour.page_entries);
    path = behaviour.path;
  }
  const size_t begin = std::atoi(request.get_param_value("cursor").c_str());
  const size_t end = std::min(revision.files.size(), begin + entries);
  Json page = Json::array();
  for (size_t i = begin; i < end; ++i) page.push_back(EntryOf(revision.files[i]));
  if (begin == 0 && !path.empty()) page[0]["path"] = path;
  for (const std::string& folder : FoldersOf(revision.files, begin, end)) {
    page.push_back(Json{{"type", "directory"}, {"oid", "0"}, {"path", folder}, {"size", 0}});
  }
  if (end < revision.files.size()) {
    response.set_header("Link", "<" + hub->url() + request.path + "?recursive=true&cursor=" +
                                    std::to_string(end) + ">; rel=\"next\"");
  }
  response.set_content(page.dump(), "application/json");
}

// As the Hub does: what lies in LFS is fetched from elsewhere, the rest from another path.
void HubServer::Impl::AnswerFile(const Request& request, Response& response) {
  constexpr char kCache[] = "/api/resolve-cache/";
  const bool cached = request.path.compare(0, sizeof(kCache) - 1, kCache) == 0;
  const Asked asked =
      Parse(cached ? "/api/" + request.path.substr(sizeof(kCache) - 1) : request.path);
  const auto served = Repositories();
  const HubRepositories::Revisions* revisions = served->Find(asked.repository);
  if (revisions == nullptr) return Error(response, 404, "RepoNotFound", "Repository not found");
  const size_t slash = asked.rest.find('/');
  const ServedRevision* revision = served->Find(asked.repository, asked.rest.substr(0, slash));
  if (revision == nullptr) return Error(response, 404, "RevisionNotFound", "Invalid rev id");
  const std::string path = asked.rest.substr(slash + 1);
  const auto file = std::find_if(revision->files.begin(), revision->files.end(),
                                 [&](const ServedFile& one) { return one.path == path; });
  response.set_header("X-Repo-Commit", revision->commit);
  if (file == revision->files.end()) {
    return Error(response, 404, "EntryNotFound", "Entry not found");
  }
  response.set_header("ETag", "\"" + file->etag() + "\"");
  if (file->sha256.empty()) {
    if (cached) return Send(*file, response);
    const bool model = asked.repository.compare(0, 7, "models/") == 0;
    return response.set_redirect(
        kCache + asked.repository + "/resolve/" + revision->commit + "/" + path + "?download=true",
        model ? 307 : 302);
  }
  response.set_header("X-Linked-Etag", "\"" + file->sha256 + "\"");
  response.set_header("X-Linked-Size", std::to_string(file->bytes));
  {
    const std::lock_guard lock(mu);
    if (behaviour.xet) response.set_header("X-Xet-Hash", file->sha256);
  }
  response.set_redirect(cdn->url() + "/" + file->sha256 + "?Signature=s3cr3t", 302);
}

void HubServer::Impl::OnCdn(const Request& request, Response& response) {
  {
    const std::lock_guard lock(mu);
    ++counters.cdn;
    if (request.has_header("Authorization")) ++counters.strayed_tokens;
  }
  if (request.has_header("Authorization")) return Error(response, 400, "", "two authorizations");
  if (Fail(response, &HubBehaviour::fail_cdn)) return;
  const auto served = Repositories();
  const ServedFile* file = served->FindBlob(request.path.substr(1));
  if (file == nullptr) return Error(response, 404, "", "no such object");
  Send(*file, response);
}

void HubServer::Impl::Send(const ServedFile& file, Response& response) {
  HubBehaviour strikes;
  {
    const std::lock_guard lock(mu);
    strikes = behaviour;
    if (behaviour.cut > 0) --behaviour.cut;
    if (behaviour.damage > 0) --behaviour.damage;
    ++counters.open_bodies;
  }
  const int fd = open(file.on_disk.c_str(), O_RDONLY | O_CLOEXEC);
  const auto close_file = [this, fd](bool /*sent*/) {
    close(fd);
    const std::lock_guard lock(mu);
    --counters.open_bodies;
  };
  const auto begin = std::make_shared<size_t>(SIZE_MAX);
  if (strikes.no_ranges) {
    const auto bytes = static_cast<size_t>(file.bytes);
    response.status = 200;
    response.set_chunked_content_provider(
        "application/octet-stream",
        [this, fd, strikes, bytes](size_t offset, httplib::DataSink& sink) {
          if (offset < bytes) return SendChunk(fd, offset, bytes - offset, 0, strikes, sink);
          sink.done();
          return true;
        },
        close_file);
    return;
  }
  response.set_content_provider(
      static_cast<size_t>(file.bytes), "application/octet-stream",
      [this, fd, strikes, begin](size_t offset, size_t length, httplib::DataSink& sink) {
        if (*begin == SIZE_MAX) *begin = offset;
        return SendChunk(fd, offset, length, *begin, strikes, sink);
      },
      close_file);
}

// `begin`: where in the file the body begins.
bool HubServer::Impl::SendChunk(int fd, size_t offset, size_t length, size_t begin,
                                const HubBehaviour& strikes, httplib::DataSink& sink) {
  length = std::min(length, kChunkBytes);
  if (strikes.cut > 0) {
    const size_t end = begin + static_cast<size_t>(strikes.cut_after);
    if (offset >= end) return false;  // which closes the connection
    length = std::min(length, end - offset);
  }
  {
    std::unique_lock lock(mu);
    const auto open = [&] {
      return stopped || behaviour.hold_after < 0 || counters.body_bytes < behaviour.hold_after;
    };
    changed.wait(lock, open);
    if (stopped) return false;
    if (behaviour.hold_after >= 0) {
      length = std::min<size_t>(length, behaviour.hold_after - counters.body_bytes);
    }
    counters.body_bytes += static_cast<int64_t>(length);
  }
  thread_local std::vector<char> bytes(kChunkBytes);
  const ssize_t got = pread(fd, bytes.data(), length, static_cast<off_t>(offset));
  if (got <= 0) return false;
  if (strikes.damage > 0 && offset == begin) bytes[0] ^= 1;
  return sink.write(bytes.data(), static_cast<size_t>(got));
}

bool HubServer::Impl::Strikes(int HubBehaviour::*left) {
  const std::lock_guard lock(mu);
  if (behaviour.*left == 0) return false;
  --(behaviour.*left);
  return true;
}

// Somebody else commits a file of their own.
void HubServer::Impl::Interfere(const std::string& path) {
  const size_t models = path.find("/models/"), commit = path.find("/commit/");
  const std::string revision = path.substr(commit + 8);
  const std::string branch = folder + path.substr(models, commit - models) + "/@" + revision;
  std::ofstream(branch + "/theirs.txt", std::ios::app) << "theirs\n";
  Load();
}

void HubServer::Impl::OnPost(const Request& request, Response& response,
                             const httplib::ContentReader& body) {
  std::string text;
  body([&](const char* bytes, size_t count) {
    text.append(bytes, count);
    return true;
  });
  // The address of a list of parts is signed: clients bring no token there.
  const bool is_signed = request.path.compare(0, 14, "/api/complete/") == 0;
  if (!is_signed && Refuse(request, response, /*api=*/true)) return;
  const bool commits = request.path.find("/commit/") != std::string::npos;
  HubUploads::Places places{.hub = hub->url(), .cdn = cdn->url()};
  {
    const std::lock_guard lock(mu);
    places.part_bytes = behaviour.part_bytes;
    if (!behaviour.may_write) {
      return Error(response, 403, "", "You don't have the required permissions");
    }
  }
  if (commits && Strikes(&HubBehaviour::interfere)) Interfere(request.path);
  int made = 0;
  const HubReply reply = uploads.Post(request.path, text, places, &made);
  {
    const std::lock_guard lock(mu);
    counters.commits += made;
  }
  if (reply.status >= 300) {
    Error(response, reply.status, reply.code, reply.error);
    return response.set_content(reply.body, "application/json");
  }
  if (commits && Strikes(&HubBehaviour::lose_commits)) return EndConnection(request);
  response.set_content(reply.body, "application/json");
}

// False: the connection ended, or should.
bool HubServer::Impl::Receive(const httplib::ContentReader& body, const std::string& file,
                              bool cut) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  int64_t came = 0, most = INT64_MAX;
  {
    const std::lock_guard lock(mu);
    if (cut) most = behaviour.cut_after;
    ++counters.open_uploads;
  }
  const bool whole = body([&](const char* bytes, size_t count) {
    std::unique_lock lock(mu);
    changed.wait(lock, [&] {
      return stopped || behaviour.hold_received < 0 || came < behaviour.hold_received;
    });
    counters.received_bytes += static_cast<int64_t>(count);
    came += static_cast<int64_t>(count);
    out.write(bytes, static_cast<std::streamsize>(count));
    return !stopped && came < most;
  });
  const std::lock_guard lock(mu);
  --counters.open_uploads;
  return whole && out.good();
}

void HubServer::Impl::OnPut(const Request& request, Response& response,
                            const httplib::ContentReader& body) {
  const std::string file = uploads.NewFile();
  if (!Receive(body, file, Strikes(&HubBehaviour::cut_uploads))) {
    unlink(file.c_str());
    return EndConnection(request);
  }
  if (request.has_header("Authorization")) {
    const std::lock_guard lock(mu);
    ++counters.strayed_tokens;
    return Error(response, 400, "", "two authorizations");
  }
  if (Fail(response, &HubBehaviour::fail_uploads)) return;
  if (Strikes(&HubBehaviour::refuse_uploads))
    return Error(response, 403, "", "Request has expired");
  const HubReply reply = uploads.Put(request.path, file);
  if (reply.status >= 300) return Error(response, reply.status, reply.code, reply.error);
  response.set_header("ETag", reply.etag);
  const std::lock_guard lock(mu);
  ++counters.uploads;
}

void HubServer::Impl::AnswerControl(const Request& request, Response& response) {
  if (request.path == "/-/load") Load();
  const std::lock_guard lock(mu);
  const std::map<std::string, int HubBehaviour::*> counts = {
      {"fail_api", &HubBehaviour::fail_api},
      {"fail_files", &HubBehaviour::fail_files},
      {"fail_cdn", &HubBehaviour::fail_cdn},
      {"status", &HubBehaviour::status},
      {"cut", &HubBehaviour::cut},
      {"damage", &HubBehaviour::damage},
      {"page_entries", &HubBehaviour::page_entries},
      {"fail_uploads", &HubBehaviour::fail_uploads},
      {"refuse_uploads", &HubBehaviour::refuse_uploads},
      {"cut_uploads", &HubBehaviour::cut_uploads},
      {"lose_commits", &HubBehaviour::lose_commits},
      {"interfere", &HubBehaviour::interfere}};
  const std::map<std::string, int64_t HubBehaviour::*> sizes = {
      {"cut_after", &HubBehaviour::cut_after},
      {"hold_after", &HubBehaviour::hold_after},
      {"part_bytes", &HubBehaviour::part_bytes},
      {"hold_received", &HubBehaviour::hold_received}};
  const std::map<std::string, bool HubBehaviour::*> flags = {
      {"gated", &HubBehaviour::gated},
      {"says_token", &HubBehaviour::says_token},
      {"no_ranges", &HubBehaviour::no_ranges},
      {"xet", &HubBehaviour::xet},
      {"may_write", &HubBehaviour::may_write}};
  const std::map<std::string, std::string HubBehaviour::*> texts = {
      {"token", &HubBehaviour::token}, {"retry_after", &HubBehaviour::retry_after}};
  for (const auto& [name, value] : request.params) {
    if (counts.count(name) > 0) behaviour.*counts.at(name) = std::stoi(value);
    if (sizes.count(name) > 0) behaviour.*sizes.at(name) = std::stoll(value);
    if (flags.count(name) > 0) behaviour.*flags.at(name) = value == "1";
    if (texts.count(name) > 0) behaviour.*texts.at(name) = value;
  }
  changed.notify_all();
  response.set_content(Json{{"api", counters.api},
                            {"files", counters.files},
                            {"cdn", counters.cdn},
                            {"body_bytes", counters.body_bytes},
                            {"open_bodies", counters.open_bodies},
                            {"tokens", counters.tokens},
                            {"strayed_tokens", counters.strayed_tokens},
                            {"uploads", counters.uploads},
                            {"open_uploads", counters.open_uploads},
                            {"received_bytes", counters.received_bytes},
                            {"commits", counters.commits}}
                           .dump(),
                       "application/json");
}

HubServer::HubServer(const std::string& folder) : impl_(std::make_unique<Impl>(folder)) {
  Impl* impl = impl_.get();
  impl->cdn = std::make_unique<Port>(
      [impl](const Request& request, Response& response) { impl->OnCdn(request, response); },
      [impl](const Request& request, Response& response, const httplib::ContentReader& body) {
        impl->OnPut(request, response, body);
      });
  impl->hub = std::make_unique<Port>(
      [impl](const Request& request, Response& response) { impl->OnHub(request, response); },
      [impl](const Request& request, Response& response, const httplib::ContentReader& body) {
        impl->OnPost(request, response, body);
      });
}

HubServer::~HubServer() {
  {
    const std::lock_guard lock(impl_->mu);
    impl_->stopped = true;
  }
  impl_->changed.notify_all();
  impl_->hub.reset();
  impl_->cdn.reset();
}

const std::string& HubServer::endpoint() const { return impl_->hub->url(); }

void HubServer::Change(const std::function<void(HubBehaviour*)>& change) {
  {
    const std::lock_guard lock(impl_->mu);
    change(&impl_->behaviour);
  }
  impl_->changed.notify_all();
}

HubCounters HubServer::counters() const {
  const std::lock_guard lock(impl_->mu);
  return impl_->counters;
}

void HubServer::Load() { impl_->Load(); }

std::string HubServer::CommitOf(const std::string& repository, const std::string& revision) const {
  const auto served = impl_->Repositories();
  const ServedRevision* found = served->Find(repository, revision);
  if (found == nullptr) throw std::runtime_error(repository + " has no " + revision);
  return found->commit;
}

}  // namespace coxswain::support
