// The Hub as a server on loopback: its API, its files, and a second server for what lies in LFS.
// What clients push is served from then on.
#ifndef COXSWAIN_TESTS_SUPPORT_HUB_SERVER_H_
#define COXSWAIN_TESTS_SUPPORT_HUB_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace coxswain::support {

// What it asks for and how it fails. A counted fault falls by one each time that it strikes.
struct HubBehaviour {
  std::string token;        // without it everything is 401; empty: everybody may read
  bool gated = false;       // files are 403 until their conditions are accepted
  bool says_token = false;  // errors repeat the Authorization header
  int page_entries = 1000;  // of a tree
  bool no_ranges = false;   // whole files, without their length
  bool xet = false;         // files in LFS are announced as Xet's, which have a plain way too
  std::string path = {};    // listed in place of the first file's
  int fail_api = 0, fail_files = 0, fail_cdn = 0;  // so many answer `status`
  int status = 503;
  std::string retry_after = {};  // of those
  std::string rate_limit = {};   // the header RateLimit of those
  int cut = 0;                   // so many bodies end after cut_after bytes
  int64_t cut_after = 0;
  int damage = 0;           // so many bodies begin with a wrong byte
  int64_t hold_after = -1;  // all bodies wait when so many bytes were sent in all; -1: never
  // Of what clients send:
  bool may_write = true;       // false: 403
  int64_t part_bytes = 0;      // contents above it come in parts of it; 0: none does
  int fail_uploads = 0;        // so many answer `status`
  int refuse_uploads = 0;      // so many answer 403, as where an address has expired
  int cut_uploads = 0;         // so many connections end after cut_after bytes of a content
  int lose_commits = 0;        // so many commits are made, and their answers are not sent
  int interfere = 0;           // so many commits find that another one came before
  int64_t hold_received = -1;  // a content waits when so many bytes of it came; -1: never
};

struct HubCounters {
  int api = 0, files = 0, cdn = 0;  // requests
  int64_t body_bytes = 0;           // of contents of files
  int open_bodies = 0;              // that are being sent
  int tokens = 0;                   // requests to the Hub that brought one
  int strayed_tokens = 0;           // requests to the second server that brought one
  int uploads = 0;                  // contents and parts that came whole
  int open_uploads = 0;             // that are being received
  int64_t received_bytes = 0;       // of contents, also in vain
  int commits = 0;                  // that clients made
};

// The folder is that of HubRepositories. With /-/counters and /-/set?NAME=VALUE&... another process
// reads the counters and changes the behaviour; /-/load reads the folder again. Throws
// std::runtime_error where it cannot start.
class HubServer {
 public:
  explicit HubServer(const std::string& folder);
  ~HubServer();

  const std::string& endpoint() const;  // "http://127.0.0.1:7180"
  void Change(const std::function<void(HubBehaviour*)>& change);
  HubCounters counters() const;
  void Load();  // the folder again
  std::string CommitOf(const std::string& repository, const std::string& revision = "main") const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_HUB_SERVER_H_
