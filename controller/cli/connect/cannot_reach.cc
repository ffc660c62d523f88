#include "controller/cli/connect/cannot_reach.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/net/socket_address.h"

namespace coxswain::cli {
namespace {

bool UsesTls(const Connection& connection) {
  const auto peer = ParseSocketAddress(connection.server);
  const bool loopback = peer.ok() && IsLoopback(peer->host);
  return !(loopback && (connection.tls.empty() || connection.insecure));
}

// Libraries of TLS write the same words with spaces, hyphens or underscores, in either case.
std::string Plain(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  std::replace(text.begin(), text.end(), '-', ' ');
  absl::AsciiStrToLower(&text);
  return text;
}

std::string OverTls(const Connection& connection, const std::string& reason) {
  if (absl::StrContains(reason, "certificate verify failed")) {
    return absl::StrCat("The CA in ", connection.tls.ca,
                        " did not sign the controller's certificate, or that has expired. Give the "
                        "right CA by --tls-ca, COXSWAIN_TLS_CA or a context");
  }
  if (absl::StrContains(reason, "hostname verification") ||
      absl::StrContains(reason, "peer name")) {
    return absl::StrCat("The controller's certificate is for another name than that in ",
                        connection.server, ". Give --server a name that it is for");
  }
  if (absl::StrContains(reason, "wrong version number")) {
    return "It does not speak TLS. Is it another port, or a controller without certificates? "
           "Plaintext needs --insecure and works on loopback only";
  }
  return connection.tls.cert.empty()
             ? "It may ask for a client's certificate: give --tls-cert and --tls-key, or a context "
               "that has them. Or it does not speak TLS"
             : absl::StrCat("It may not accept the certificate in ", connection.tls.cert,
                            " (another CA, or expired), or does not speak TLS");
}

std::string Advice(const Connection& connection, const std::string& reason) {
  if (absl::StrContains(reason, "connection refused")) {
    return "Nothing listens there. Start a controller with `cox up`, or name another by --server, "
           "COXSWAIN_SERVER or a context (cox config)";
  }
  if (absl::StrContains(reason, "dns resolution") || absl::StrContains(reason, "name resolution")) {
    return "No such host is known here. Correct --server, COXSWAIN_SERVER or the context";
  }
  if (absl::StrContains(reason, "http1") || absl::StrContains(reason, "http/1")) {
    return "That is a port of web pages. The controller's own is the one of --listen";
  }
  if (UsesTls(connection)) return OverTls(connection, reason);
  return "If the controller has ended, start it again (`cox up`). If it speaks TLS, give --tls-ca, "
         "and --tls-cert and --tls-key where it asks for them, or a context that has them";
}

}  // namespace

std::string CannotReach(const Connection& connection, const std::string& reason) {
  return absl::StrCat(
      "cannot reach the controller at ", connection.server,
      connection.context.empty() ? "" : absl::StrCat(" (context ", connection.context, ")"),
      UsesTls(connection) ? " over TLS: " : " in plaintext: ", reason, ". ",
      Advice(connection, Plain(reason)));
}

}  // namespace coxswain::cli
