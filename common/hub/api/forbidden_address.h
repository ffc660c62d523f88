// Addresses to which no URL of a user may lead.
#ifndef COXSWAIN_COMMON_HUB_API_FORBIDDEN_ADDRESS_H_
#define COXSWAIN_COMMON_HUB_API_FORBIDDEN_ADDRESS_H_

#include <string>

struct sockaddr;

namespace coxswain::hub {

// Why `address` is forbidden, as "127.0.0.1 is an address of this machine"; empty: it is not.
// Forbidden are loopback, unspecified and link-local addresses, those of this machine's interfaces,
// and everything that is neither IPv4 nor IPv6. An IPv4 address in one of IPv6 (mapped, compatible,
// NAT64) counts as itself. Private networks are allowed. `own_machine` allows loopback.
// Source: RFC 6890; RFC 4291, section 2.5.5; RFC 6052, section 2.1.
std::string ForbiddenAddress(const sockaddr& address, bool own_machine);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_FORBIDDEN_ADDRESS_H_
