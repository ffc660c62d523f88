#include "common/web/url_source.h"

#include <gtest/gtest.h>

#include <string>

namespace coxswain::web {
namespace {

std::string RefusalOf(const std::string& url, UrlKind kind = UrlKind::kFile) {
  const auto source = MakeUrlSource(kind, url);
  if (source.ok()) return "";
  EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(source.status().message());
}

bool Tells(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(UrlSourceTest, OnlyHttpsIsTakenAndTheRestIsToldWhatToDo) {
  EXPECT_EQ(RefusalOf("https://host/a.jsonl?sig=1"), "");
  EXPECT_EQ(RefusalOf("HTTPS://host:8443/a"), "");
  EXPECT_EQ(RefusalOf("https://host/models/", UrlKind::kModel), "");
  EXPECT_TRUE(Tells(RefusalOf("http://host/a"), "write https://"));
  EXPECT_TRUE(Tells(RefusalOf("s3://bucket/a"), "mount the bucket"));
  EXPECT_TRUE(Tells(RefusalOf("gs://bucket/a"), "mount the bucket"));
  for (const char* other :
       {"", "ftp://host/a", "file:///etc/passwd", "host/a", "https://", "a b"}) {
    EXPECT_TRUE(Tells(RefusalOf(other), "begins with https://")) << other;
  }
  EXPECT_TRUE(Tells(RefusalOf("https://host/folder/"), "each file"));
}

TEST(UrlSourceTest, AUserOrAPasswordIsRefusedAndNotShown) {
  const std::string refusal = RefusalOf("https://ann:s3cr3t@host/a?sig=t0ken");
  EXPECT_TRUE(Tells(refusal, "https://host/a has a user or a password")) << refusal;
  EXPECT_FALSE(Tells(refusal, "s3cr3t")) << refusal;
  EXPECT_FALSE(Tells(refusal, "t0ken")) << refusal;
  EXPECT_FALSE(Tells(NameOf(*MakeUrlSource(UrlKind::kFile, "https://h/a?sig=t0ken")), "t0ken"));
}

TEST(UrlSourceTest, AFileKeepsItsName) {
  EXPECT_EQ(FileNameOf("https://host/a/train.jsonl.gz?sig=1#x"), "train.jsonl.gz");
  EXPECT_EQ(FileNameOf("https://host/a/z%C3%BCrich%20a.csv"), "zürich a.csv");
  for (const char* none : {"https://host", "https://host/", "https://host/a/%2e%2e",
                           "https://host/%00", "https://host/a%0Ab", "https://host/%ff"}) {
    EXPECT_EQ(FileNameOf(none), "data") << none;
  }
  EXPECT_EQ(FileNameOf("https://host/a%2fb.csv"), "b.csv");
  const std::string cut = FileNameOf("https://host/" + std::string(300, 'n') + ".parquet");
  EXPECT_EQ(cut.size(), 200u);
  EXPECT_TRUE(cut.ends_with("n.parquet"));
}

TEST(UrlSourceTest, AFileOfAFolderKeepsTheQuery) {
  EXPECT_EQ(UrlIn("https://host/m", "config.json"), "https://host/m/config.json");
  EXPECT_EQ(UrlIn("https://host/m/?sig=a%2Fb", "config.json"),
            "https://host/m/config.json?sig=a%2Fb");
  EXPECT_EQ(UrlIn("https://host/m", "a b?.bin"), "https://host/m/a%20b%3f.bin");
}

}  // namespace
}  // namespace coxswain::web
