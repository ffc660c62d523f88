#include "controller/trackers/event_file.h"

#include <array>

#include "trackers/event_file.pb.h"

namespace coxswain::trackers {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kReversedCastagnoli = 0x82f63b78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedCastagnoli : 0);
    }
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

void AppendLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8; }

TensorBoardEvent EventAt(int64_t unix_ms, int64_t step) {
  TensorBoardEvent event;
  event.set_wall_time(static_cast<double>(unix_ms) / 1000.0);
  event.set_step(step);
  return event;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return crc ^ 0xffffffff;
}

std::string FramedRecord(std::string_view data) {
  std::string record;
  AppendLittleEndian(data.size(), 8, &record);
  AppendLittleEndian(Masked(Crc32c(record)), 4, &record);
  record += data;
  AppendLittleEndian(Masked(Crc32c(data)), 4, &record);
  return record;
}

std::string FirstEntry(int64_t unix_ms) {
  TensorBoardEvent event = EventAt(unix_ms, 0);
  event.set_file_version("brain.Event:2");
  return FramedRecord(event.SerializeAsString());
}

std::string PointEntry(const Point& point) {
  TensorBoardEvent event = EventAt(point.unix_ms, point.place.step);
  for (const auto& [name, value] : point.values) {
    TensorBoardSummary::Value& shown = *event.mutable_summary()->add_value();
    shown.set_tag(std::string(name));
    shown.set_simple_value(static_cast<float>(value));
  }
  return FramedRecord(event.SerializeAsString());
}

std::string TakenBackEntry(int64_t step, int64_t unix_ms) {
  TensorBoardEvent event = EventAt(unix_ms, step);
  event.mutable_session_log()->set_status(TensorBoardSession::START);
  return FramedRecord(event.SerializeAsString());
}

}  // namespace coxswain::trackers
