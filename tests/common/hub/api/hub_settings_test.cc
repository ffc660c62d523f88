#include "common/hub/api/hub_settings.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <type_traits>

#include "common/hub/api/url.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::hub {
namespace {

constexpr char kSecret[] = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz";

using Variables = std::map<std::string, std::string>;

absl::StatusOr<Settings> Read(Variables variables) {
  variables.insert({"HOME", "/home/ann"});
  return ReadSettings([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};

TEST(HubSettingsTest, WithoutVariablesTheyAreThoseOfHuggingfaceHub) {
  const Settings settings = *Read({});
  EXPECT_EQ(settings.endpoint, "https://huggingface.co");
  EXPECT_EQ(settings.cache, "/home/ann/.cache/huggingface/hub");
  EXPECT_TRUE(settings.token.empty());
  EXPECT_FALSE(settings.offline);
  EXPECT_EQ(settings.ca_file, "");
}

TEST(HubSettingsTest, TheCacheIsNamedByTheNearestVariable) {
  EXPECT_EQ(Read({{"XDG_CACHE_HOME", "/x"}})->cache, "/x/huggingface/hub");
  EXPECT_EQ(Read({{"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/h"}})->cache, "/h/hub");
  EXPECT_EQ(Read({{"HF_HOME", "/h"}, {"HUGGINGFACE_HUB_CACHE", "/old"}})->cache, "/old");
  EXPECT_EQ(Read({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/c/"}})->cache, "/c");
  EXPECT_EQ(Read({{"HF_HOME", "~/hf"}})->cache, "/home/ann/hf/hub");
  EXPECT_EQ(Read({{"HF_HUB_CACHE", "/data/$TEAM/${TEAM}/$NONE"}, {"TEAM", "nlp"}})->cache,
            "/data/nlp/nlp/$NONE");
  EXPECT_EQ(Read({{"HF_HUB_CACHE", ""}, {"HF_HOME", "/h"}})->cache, "/h/hub");
  EXPECT_TRUE(Read({{"HF_HUB_CACHE", "here"}})->cache.ends_with("/here"));
}

TEST(HubSettingsTest, TheTokenIsTheVariablesOrTheFiles) {
  const support::ScratchFolder folder;
  const std::string file = folder.Write("token", "from_file\n");
  const auto header = [](const absl::StatusOr<Settings>& settings) {
    return settings->token.AuthorizationHeader();
  };
  EXPECT_EQ(header(Read({{"HF_TOKEN", " a\n"}, {"HUGGING_FACE_HUB_TOKEN", "b"}})),
            "Authorization: Bearer a");
  EXPECT_EQ(header(Read({{"HUGGING_FACE_HUB_TOKEN", "b"}})), "Authorization: Bearer b");
  EXPECT_EQ(header(Read({{"HF_HOME", folder.path()}})), "Authorization: Bearer from_file");
  EXPECT_EQ(header(Read({{"HF_TOKEN_PATH", file}})), "Authorization: Bearer from_file");
  EXPECT_EQ(header(Read({{"HF_TOKEN", "a"}, {"HF_TOKEN_PATH", file}})), "Authorization: Bearer a");
  EXPECT_TRUE(Read({{"HF_TOKEN_PATH", folder.path() + "/none"}})->token.empty());
  EXPECT_TRUE(Read({{"HF_TOKEN_PATH", folder.Write("empty", " \n")}})->token.empty());
  EXPECT_TRUE(Read({{"HF_TOKEN", "a"}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}})->token.empty());
}

// Invariant hub-1.
TEST(HubSettingsTest, NoMessageHoldsOfTheTokenAndNothingPrintsIt) {
  static_assert(!Printable<Token>);
  static_assert(!std::is_convertible_v<Token, std::string>);
  const std::string broken = std::string(kSecret) + "\r\nX-Other: 1";
  for (const absl::Status& status :
       {Token::Parse(broken, "HF_TOKEN").status(), Read({{"HF_TOKEN", broken}}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.ToString().find("AbCdEf"), std::string::npos) << status;
    EXPECT_NE(status.ToString().find("HF_TOKEN"), std::string::npos) << status;
  }
  const Token token = *Token::Parse(kSecret, "HF_TOKEN");
  EXPECT_EQ(token.RemovedFrom(std::string("you sent Bearer ") + kSecret + "!"),
            "you sent Bearer [token]!");
  EXPECT_EQ(Token().RemovedFrom("text"), "text");
}

TEST(HubSettingsTest, WordsSayWhetherItIsOffline) {
  for (const char* word : {"1", "on", "YES", "True"}) {
    EXPECT_TRUE(Read({{"HF_HUB_OFFLINE", word}})->offline) << word;
  }
  for (const char* word : {"0", "off", "", "2"}) {
    EXPECT_FALSE(Read({{"HF_HUB_OFFLINE", word}})->offline) << word;
  }
  EXPECT_TRUE(Read({{"TRANSFORMERS_OFFLINE", "1"}})->offline);
}

TEST(HubSettingsTest, AnEndpointIsAUrlWithoutSecrets) {
  EXPECT_EQ(Read({{"HF_ENDPOINT", "http://127.0.0.1:80/hub/"}})->endpoint,
            "http://127.0.0.1:80/hub");
  for (const char* wrong : {"hub.example", "ftp://hub.example", "file:///etc", "https://",
                            "https://ann:pw@hub.example", "https://hub.example/?token=pw"}) {
    const absl::Status status = Read({{"HF_ENDPOINT", wrong}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find("HF_ENDPOINT"), std::string::npos) << status;
    EXPECT_EQ(status.message().find("pw"), std::string::npos) << status;
  }
}

TEST(HubUrlTest, AnOriginIsSchemeHostAndPort) {
  EXPECT_EQ(*OriginOf("https://Hub.Example/a?b"), "https://hub.example:443");
  EXPECT_EQ(*OriginOf("http://[::1]:8080/"), "http://[::1]:8080");
  EXPECT_NE(*OriginOf("http://hub.example"), *OriginOf("https://hub.example"));
  EXPECT_EQ(*OriginOf("https://evil@hub.example/"), "https://hub.example:443");
  EXPECT_FALSE(OriginOf("/a").ok());
}

TEST(HubUrlTest, AReferenceIsRelativeToItsPage) {
  EXPECT_EQ(*ResolveUrl("https://a/b/c?d", "/e?f=%2F"), "https://a/e?f=%2F");
  EXPECT_EQ(*ResolveUrl("https://a/b/c", "http://x:1/y"), "http://x:1/y");
  EXPECT_FALSE(ResolveUrl("https://a/b", "file:///etc/passwd").ok());
}

TEST(HubUrlTest, MessagesShowNoSecretOfAUrl) {
  EXPECT_EQ(PublicUrl("https://ann:pw@cdn.example/x?Signature=s#t"), "https://cdn.example/x");
  EXPECT_EQ(EscapePath("a b/ü#?.txt"), "a%20b/%C3%BC%23%3F.txt");
  EXPECT_EQ(EscapeSegment("refs/pr/1"), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace coxswain::hub
