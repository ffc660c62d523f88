#include <gtest/gtest.h>

#include "controller/data/readers/bytes/file_kind.h"
#include "controller/data/readers/record_parser.h"

namespace coxswain::data {
namespace {

TEST(NotUtf8Test, Latin1IsNamedWithItsCharacterAndTheCommand) {
  EXPECT_EQ(
      NotUtf8Text("{\"text\": \"caf\xE9 au lait\"}"),
      "not UTF-8 at byte 0xE9 behind \"{\"text\": \"caf\", which is \"\u00e9\" in Latin-1; save "
      "the file as UTF-8: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW_FILE");
  EXPECT_NE(NotUtf8Text("\x93quoted\x94").find("iconv -f WINDOWS-1252"), std::string::npos);
  EXPECT_EQ(NotUtf8Text("caf\u00e9"), "");
  EXPECT_EQ(NotUtf8Text(""), "");
}

TEST(NotUtf8Test, ARecordIsRefusedWithIt) {
  RecordParser parser(config::DatasetFormat::kCompletion, {});
  const auto record = parser.Parse("{\"text\": \"caf\xE9\"}");
  EXPECT_NE(record.status().message().find("which is \"\u00e9\" in Latin-1"),
            absl::string_view::npos)
      << record.status();
}

}  // namespace

}  // namespace coxswain::data
