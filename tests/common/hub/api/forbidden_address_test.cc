#include "common/hub/api/forbidden_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <string>

namespace coxswain::hub {
namespace {

std::string Forbidden(const std::string& text, bool own_machine = false) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    return ForbiddenAddress(reinterpret_cast<const sockaddr&>(v6), own_machine);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  EXPECT_EQ(inet_pton(AF_INET, text.c_str(), &v4.sin_addr), 1) << text;
  return ForbiddenAddress(reinterpret_cast<const sockaddr&>(v4), own_machine);
}

TEST(ForbiddenAddressTest, ThisMachineAndItsLinkInEveryForm) {
  for (const char* own :
       {"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "::1", "::", "::ffff:127.0.0.1",
        "::ffff:0.0.0.0", "::127.0.0.1", "64:ff9b::127.0.0.1"}) {
    EXPECT_NE(Forbidden(own).find("an address of this machine"), std::string::npos) << own;
  }
  for (const char* link : {"169.254.169.254", "169.254.0.0", "fe80::1", "febf::1",
                           "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"}) {
    EXPECT_NE(Forbidden(link).find("link-local"), std::string::npos) << link;
  }
}

TEST(ForbiddenAddressTest, OtherMachinesAreAllowed) {
  for (const char* other : {"93.184.216.34", "192.0.2.7", "169.253.0.1", "169.255.0.1", "128.0.0.1",
                            "2001:db8::1", "fec0::1", "fd12::7", "::ffff:192.0.2.7"}) {
    EXPECT_EQ(Forbidden(other), "") << other;
  }
}

TEST(ForbiddenAddressTest, AnInterfaceOfThisMachineIsThisMachine) {
  ifaddrs* all = nullptr;
  ASSERT_EQ(getifaddrs(&all), 0);
  int seen = 0;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    EXPECT_NE(ForbiddenAddress(*one->ifa_addr, false), "");
    ++seen;
  }
  freeifaddrs(all);
  if (seen == 0) GTEST_SKIP() << "this machine has no address";
}

TEST(ForbiddenAddressTest, TestsMayReachLoopbackAndNothingElse) {
  EXPECT_EQ(Forbidden("127.0.0.1", true), "");
  EXPECT_EQ(Forbidden("::1", true), "");
  EXPECT_NE(Forbidden("0.0.0.0", true), "");
  EXPECT_NE(Forbidden("169.254.169.254", true), "");
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  EXPECT_NE(ForbiddenAddress(reinterpret_cast<const sockaddr&>(local), true), "");
}

}  // namespace
}  // namespace coxswain::hub
