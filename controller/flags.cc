#include "controller/flags.h"

#include <CLI/CLI.hpp>

#include "common/faults/fault_flag.h"
#include "common/host.h"
#include "common/identity.h"

namespace coxswain {

std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code) {
  Flags flags;
  flags.state_dir = StateDir() + "/controller";
  CLI::App app("Owns the global plan of every job and calls each training step.",
               "coxswain-controller");
  app.add_option("--listen", flags.listen,
                 "host:port of the gRPC services; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--metrics", flags.metrics,
                 "host:port of /metrics and the status page; empty switches them off")
      ->capture_default_str();
  app.add_option("--health", flags.health,
                 "host:port of grpc.health.v1 for probes, plaintext (default: off; it is served "
                 "on --listen too)");
  app.add_option("--state-dir", flags.state_dir, "database, lock, token cache and uploads")
      ->capture_default_str();
  app.add_option("--endpoint-file", flags.endpoint_file,
                 "where to write {grpc, metrics, pid} as JSON once serving");
  app.add_option("--log-file", flags.log_file, "also write log lines here");
  app.add_option("--hub-token-users", flags.hub_token_users,
                 "users, separated by commas, whose jobs use this controller's own token of the "
                 "Hugging Face Hub (HF_TOKEN); operators' jobs always do")
      ->delimiter(',');
  app.add_option("--hub-tokens-dir", flags.hub_tokens_dir,
                 "folder with the Hub tokens of other users: a file each, named like the user");
  app.add_option("--credits", flags.credits,
                 "least number of commands in flight per worker; 1: always exactly one")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--grace", flags.grace_seconds,
                 "seconds that running jobs have to stop with a checkpoint at SIGTERM; 0: they are "
                 "left as they are")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  app.add_option("--silence-seconds", flags.silence_seconds,
                 "a worker without a heartbeat for so long is lost, and its job goes on from its "
                 "last checkpoint; more where hosts stall for longer. A process that ends is "
                 "noticed at once")
      ->check(CLI::Range(3, 600))
      ->capture_default_str();
  app.add_option("--upload-gib", flags.upload_gib,
                 "GiB of files that each user, and the operators together, may keep in --state-dir "
                 "by cox upload; 0: none")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--tls-cert", flags.tls.cert, "PEM certificate of this server");
  app.add_option("--tls-key", flags.tls.key, "PEM key of --tls-cert");
  app.add_option(
      "--tls-ca", flags.tls.ca,
      "PEM file of the CA that must have signed the certificates of clients and workers");
  app.add_flag("--insecure", flags.insecure,
               "use plaintext on loopback even if certificates are given");
  app.add_option("--join-token-file", flags.join_token_file,
                 "file with the secret that workers, supervisors and this controller share; made "
                 "if it does not exist (default: join-token in --state-dir)");
  app.add_flag("--open-pages", flags.open_pages,
               "serve the status page and /metrics without a token; only for a port that a "
               "network policy guards");
  app.add_flag("--open", flags.open,
               "let anybody who reaches a port submit, cancel, register and read everything");
  app.add_option("--role-uri", flags.role_uri,
                 "beginning of the URI in a certificate that names a role; ROLE or ROLE/NAME "
                 "follows it")
      ->capture_default_str()
      ->check(access::RoleUriProblem);
  fault::AddListFlag(app, fault::Process::kController);
  app.set_version_flag("--version", std::string(BuildVersion()) + " " + std::string(BuildCommit()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  }
  return flags;
}

}  // namespace coxswain
