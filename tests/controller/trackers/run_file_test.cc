#include "controller/trackers/run_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "trackers/run_file.pb.h"

namespace coxswain::trackers {
namespace {

uint32_t LittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// What stands in the log `file`, read as its format says; a broken one gives fewer.
std::vector<std::string> ReadLog(const std::string& file) {
  std::vector<std::string> records;
  bool goes_on = false;
  for (size_t at = 7; at + 7 <= file.size();) {
    const size_t room = 32768 - at % 32768;
    if (room < 7) {
      at += room;
      continue;
    }
    const size_t size = LittleEndian(file.substr(at + 4, 2));
    const std::string checked = file.substr(at + 6, 1 + size);
    const auto crc =
        crc32(0, reinterpret_cast<const Bytef*>(checked.data()), static_cast<uInt>(checked.size()));
    if (crc != LittleEndian(file.substr(at, 4)) || 7 + size > room) return records;
    const int kind = checked[0];  // full, first, middle, last
    if (goes_on != (kind == 3 || kind == 4)) return records;
    if (!goes_on) records.emplace_back();
    records.back() += checked.substr(1);
    goes_on = kind == 2 || kind == 3;
    at += 7 + size;
  }
  return records;
}

TEST(RunFileTest, TheFileBeginsWithItsIdent) {
  EXPECT_EQ(RunFileIdent(), std::string(":W&B\xe1\xbe\0", 7));
}

// Records that end 0 to 8 bytes before the end of a block, and records over several blocks.
TEST(RunFileTest, RecordsOfEveryLengthAreRead) {
  for (const size_t first : {32747u, 32748u, 32749u, 32750u, 32751u, 32752u, 32753u, 32754u}) {
    std::string file = RunFileIdent();
    const std::vector<std::string> written = {std::string(first, 'a'), "b", "",
                                              std::string(100'000, 'c'), "d"};
    for (const std::string& data : written) {
      file += LogRecord(static_cast<int64_t>(file.size()), data);
    }
    EXPECT_EQ(ReadLog(file), written) << first;
  }
}

TEST(RunFileTest, ARunHasConfigPointsAndAnEnd) {
  const trackers::Run run{.id = "run-1", .name = "a run", .created_unix_ms = 1'700'000'000'500};
  std::string file = RunFileIdent();
  RunRecords records;
  file += records.Begin(run, R"({"spec":{"seed":7}})", static_cast<int64_t>(file.size()));
  const Point point{
      .place = {.step = 3}, .unix_ms = 1'700'000'002'500, .values = {{"train/loss", 0.25}}};
  file += records.Add(point, static_cast<int64_t>(file.size()));
  file += records.End(run, false, 1'700'000'010'500, {{"train/loss", 0.25}},
                      static_cast<int64_t>(file.size()));
  std::vector<RunFileRecord> read;
  for (const std::string& bytes : ReadLog(file)) {
    ASSERT_TRUE(read.emplace_back().ParseFromString(bytes));
    EXPECT_EQ(read.back().num(), static_cast<int64_t>(read.size()));
  }
  ASSERT_GT(read.size(), 4u);
  EXPECT_TRUE(read[0].has_header());
  EXPECT_EQ(read[1].run().run_id(), "run-1");
  EXPECT_EQ(read[1].run().display_name(), "a run");
  EXPECT_EQ(read[1].run().config().update(0).key(), "spec");
  EXPECT_EQ(read[1].run().config().update(0).value_json(), R"({"seed":7})");
  const RunFileHistory& history = read[read.size() - 3].history();
  EXPECT_EQ(history.step().num(), 0);
  std::string items;
  for (const RunFileItem& item : history.item()) {
    items += item.key() + "=" + item.value_json() + " ";
  }
  EXPECT_EQ(items,
            "train/loss=0.25 train/global_step=3 _timestamp=1700000002.5 _runtime=2.0 _step=0 ");
  EXPECT_EQ(read[read.size() - 2].summary().update(0).value_json(), "0.25");
  EXPECT_EQ(read.back().exit().exit_code(), 1);
  EXPECT_EQ(read.back().exit().runtime(), 10);
}

}  // namespace
}  // namespace coxswain::trackers
