// "host:port" as flags take it.
#ifndef COXSWAIN_COMMON_NET_SOCKET_ADDRESS_H_
#define COXSWAIN_COMMON_NET_SOCKET_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain {

struct SocketAddress {
  std::string host;  // without brackets
  int port = 0;      // 0: an ephemeral port

  std::string text() const;  // IPv6 hosts in brackets
};

// InvalidArgument names `text` for anything but host:port with a port of 0-65535.
absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& text);

// "localhost", the addresses 127.0.0.0/8 and ::1. Any other name is not one, however it begins.
bool IsLoopback(const std::string& host);

// Why a TCP server cannot bind `address`, by trying: libraries that bind do not say.
std::string BindError(const SocketAddress& address);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_SOCKET_ADDRESS_H_
