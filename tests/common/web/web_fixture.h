// An https server on loopback with a certificate of its own authority, and settings that trust it.
#ifndef COXSWAIN_TESTS_COMMON_WEB_WEB_FIXTURE_H_
#define COXSWAIN_TESTS_COMMON_WEB_WEB_FIXTURE_H_

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <httplib.h>

#include "common/hub/api/hub_settings.h"
#include "common/web/fetch_url.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::web {

// Bytes that repeat nowhere soon, by `seed`.
inline std::string WebNoise(size_t bytes, uint64_t seed) {
  std::string noise(bytes, '\0');
  for (char& c : noise) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(seed >> 56);
  }
  return noise;
}

struct WebFile {
  std::string content;
  std::string etag = "\"one\"";
  std::string modified = {};
  std::string leads_to = {};  // redirects there
  int status = 200;           // another: an error
  bool no_ranges = false;     // whole, always
  bool no_size = false;       // whole, without its length
};

struct WebCounters {
  int requests = 0;
  int64_t body_bytes = 0;
  int tokens = 0;  // requests with an Authorization header
};

class WebServer {
 public:
  WebServer() {
    const std::string made = "deploy/tls/make-certificates.sh " + tls_ + " >" + tls_ + ".log 2>&1";
    EXPECT_EQ(std::system(made.c_str()), 0) << support::ReadFile(tls_ + ".log");
    server_ = std::make_unique<httplib::SSLServer>((tls_ + "/controller/tls.crt").c_str(),
                                                   (tls_ + "/controller/tls.key").c_str());
    server_->new_task_queue = [] { return new httplib::ThreadPool(32); };
    server_->set_keep_alive_timeout(1);
    server_->set_pre_routing_handler([this](const auto& request, auto& response) {
      Answer(request, response);
      if (response.status >= 400) const_cast<httplib::Request&>(request).ranges.clear();
      return httplib::Server::HandlerResponse::Handled;
    });
    port_ = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();
  }
  ~WebServer() {
    HoldAfter(-1);
    server_->stop();
    thread_.join();
  }

  void Put(const std::string& path, WebFile file) {
    const std::lock_guard lock(mutex_);
    files_[path] = std::make_shared<const WebFile>(std::move(file));
  }
  void Remove(const std::string& path) {
    const std::lock_guard lock(mutex_);
    files_.erase(path);
  }
  // The next `bodies` end after `bytes`.
  void Cut(int bodies, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    cuts_ = bodies;
    cut_after_ = bytes;
  }
  // All bodies wait when so many bytes were sent in all; -1: none does.
  void HoldAfter(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    hold_after_ = bytes;
    released_.notify_all();
  }
  WebCounters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  std::string Url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(port_) + path;
  }

  // Quick to give up, with pieces of 64 KiB.
  hub::Settings settings() const {
    hub::Settings settings;
    settings.cache = folder_.path() + "/cache";
    settings.ca_file = tls_ + "/controller/ca.crt";
    settings.own_machine = true;
    settings.limits.piece_bytes = 64 << 10;
    settings.limits.first_delay = std::chrono::milliseconds(1);
    settings.limits.attempts = 3;
    return settings;
  }

 private:
  void Answer(const httplib::Request& request, httplib::Response& response) {
    std::shared_ptr<const WebFile> file;
    int64_t most = -1;
    {
      const std::lock_guard lock(mutex_);
      ++counters_.requests;
      if (request.has_header("Authorization")) ++counters_.tokens;
      const auto found = files_.find(request.path);
      if (found != files_.end()) file = found->second;
      if (file != nullptr && file->content.size() > 1 && cuts_ > 0 &&
          request.get_header_value("Range") != "bytes=0-0") {
        --cuts_;
        most = cut_after_;
      }
    }
    if (file == nullptr || file->status != 200) {
      response.status = file == nullptr ? 404 : file->status;
      return;
    }
    if (!file->leads_to.empty()) return response.set_redirect(file->leads_to);
    if (!file->etag.empty()) response.set_header("ETag", file->etag);
    if (!file->modified.empty()) response.set_header("Last-Modified", file->modified);
    if (file->no_ranges || file->no_size) const_cast<httplib::Request&>(request).ranges.clear();
    if (file->content.empty() && !request.ranges.empty()) {
      response.status = 416;
      response.set_header("Content-Range", "bytes */0");
      return;
    }
    Send(file, most, response);
  }
  void Send(const std::shared_ptr<const WebFile>& file, int64_t most, httplib::Response& response) {
    const auto begin = std::make_shared<size_t>(SIZE_MAX);
    const auto send = [this, file, most, begin](size_t offset, size_t length,
                                                httplib::DataSink& sink) {
      if (*begin == SIZE_MAX) *begin = offset;
      size_t end = std::min(offset + length, offset + (size_t{16} << 10));
      if (most >= 0) end = std::min(end, *begin + static_cast<size_t>(most));
      if (end <= offset) return false;  // which closes the connection
      {
        std::unique_lock lock(mutex_);
        released_.wait(lock,
                       [this] { return hold_after_ < 0 || counters_.body_bytes < hold_after_; });
        counters_.body_bytes += static_cast<int64_t>(end - offset);
      }
      return sink.write(file->content.data() + offset, end - offset);
    };
    const size_t bytes = file->content.size();
    if (!file->no_size) {
      response.set_content_provider(bytes, "application/octet-stream", send);
      return;
    }
    response.set_chunked_content_provider("application/octet-stream",
                                          [send, bytes](size_t offset, httplib::DataSink& sink) {
                                            if (offset < bytes)
                                              return send(offset, bytes - offset, sink);
                                            sink.done();
                                            return true;
                                          });
  }

  const support::ScratchFolder folder_;
  const std::string tls_ = folder_.path() + "/tls";
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const WebFile>> files_;
  std::condition_variable released_;
  int64_t hold_after_ = -1;
  int cuts_ = 0;
  int64_t cut_after_ = 0;
  WebCounters counters_;
  std::unique_ptr<httplib::SSLServer> server_;
  int port_ = 0;
  std::thread thread_;
};

// Resolves and fetches.
inline absl::StatusOr<UrlCopy> Bring(const hub::Settings& settings, UrlKind kind,
                                     const std::string& url, const UrlHooks& hooks = {}) {
  const absl::StatusOr<UrlSource> source = MakeUrlSource(kind, url);
  if (!source.ok()) return source.status();
  const absl::StatusOr<ResolvedUrl> resolved = ResolveUrl(settings, *source);
  if (!resolved.ok()) return resolved.status();
  return FetchUrl(settings, *source, resolved->revision, hooks);
}

}  // namespace coxswain::web

#endif  // COXSWAIN_TESTS_COMMON_WEB_WEB_FIXTURE_H_
