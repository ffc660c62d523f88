// Command line of coxswain-controller.
#ifndef COXSWAIN_CONTROLLER_FLAGS_H_
#define COXSWAIN_CONTROLLER_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/access/principal.h"
#include "common/net/grpc_endpoint.h"

namespace coxswain {

struct Flags {
  std::string listen = "127.0.0.1:7070";
  std::string metrics = "127.0.0.1:7071";    // and status page; empty: neither
  std::string health;                        // empty: no health endpoint of its own
  std::string state_dir;                     // default: $XDG_STATE_HOME/coxswain/controller
  std::string endpoint_file;                 // empty: none is written
  std::string log_file;                      // empty: stderr only
  std::vector<std::string> hub_token_users;  // sources::HubAccess::token_users
  std::string hub_tokens_dir;                // sources::HubAccess::tokens_dir
  int credits = 2;
  int grace_seconds = 30;   // for running jobs to stop with a checkpoint, at SIGTERM
  int silence_seconds = 5;  // without a heartbeat, then a worker is lost
  int64_t upload_gib = 10;  // of each owner; 0: nobody uploads
  TlsFiles tls;
  bool insecure = false;
  std::string join_token_file;              // empty: state_dir/join-token
  bool open_pages = false;                  // whoever reaches --metrics reads them without a token
  bool open = false;                        // anybody who reaches a port may do everything
  std::string role_uri = access::kRoleUri;  // access::Door::Options::role_uri
};

// nullopt: the process ends with *exit_code (help was printed, or a message about a wrong flag).
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FLAGS_H_
