#include "controller/sources/hub_access.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace coxswain::sources {
namespace {

class HubAccessTest : public testing::Test {
 protected:
  HubAccessTest() { setenv("HF_TOKEN", "hf_operators", 1); }
  ~HubAccessTest() override { unsetenv("HF_TOKEN"); }

  static std::string HeaderFor(const HubAccess& access, const std::string& owner) {
    const auto caller = CallerOf(access, owner);
    if (!caller.ok()) return std::string(caller.status().message());
    return caller->settings.token.empty() ? "none" : caller->settings.token.AuthorizationHeader();
  }
};

TEST_F(HubAccessTest, TheControllersTokenServesOperatorsAndNamedUsers) {
  const HubAccess access{.token_users = {"ann"}, .tokens_dir = ""};
  EXPECT_EQ(HeaderFor(access, ""), "Authorization: Bearer hf_operators");
  EXPECT_EQ(HeaderFor(access, "ann"), "Authorization: Bearer hf_operators");
  EXPECT_EQ(HeaderFor(access, "bob"), "none");
  EXPECT_FALSE(CallerOf(access, "ann")->must_ask);
  EXPECT_TRUE(CallerOf(access, "bob")->must_ask);
}

TEST_F(HubAccessTest, AUsersOwnTokenIsTheFileOfThatName) {
  const support::ScratchFolder folder;
  folder.Write("bob", "hf_bobs\n");
  folder.Write("eve", "two words");
  const HubAccess access{.token_users = {}, .tokens_dir = folder.path()};
  EXPECT_EQ(HeaderFor(access, "bob"), "Authorization: Bearer hf_bobs");
  EXPECT_EQ(HeaderFor(access, "dan"), "none");
  EXPECT_EQ(HeaderFor(access, ".."), "none");
  const std::string refusal = HeaderFor(access, "eve");
  EXPECT_NE(refusal.find("/eve"), std::string::npos) << refusal;
  EXPECT_EQ(refusal.find("two words"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace coxswain::sources
