// TLS of gRPC servers and channels from PEM files, which are read again when they change: a
// certificate that is replaced before it expires needs no restart.
#ifndef COXSWAIN_COMMON_NET_TLS_CREDENTIALS_H_
#define COXSWAIN_COMMON_NET_TLS_CREDENTIALS_H_

#include <memory>
#include <string>

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "absl/status/statusor.h"

namespace coxswain {

// PEM files. A server needs cert and key; with ca, which it needs off loopback, it also demands
// client certificates signed by it. A client needs ca; cert and key where the server demands them.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;
  bool empty() const { return cert.empty() && key.empty() && ca.empty(); }
  bool operator==(const TlsFiles&) const = default;
};

// Both read the files now and look at them every second afterwards. New connections use what the
// files hold then; open connections go on. Files that do not hold a valid pair at that moment leave
// what was read before in force. Errors name the file that cannot be read, or the pair that does
// not fit together.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsServerCredentials(
    const TlsFiles& files);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(
    const TlsFiles& files);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_TLS_CREDENTIALS_H_
