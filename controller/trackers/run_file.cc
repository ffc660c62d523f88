#include "controller/trackers/run_file.h"

#include <zlib.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "trackers/run_file.pb.h"

namespace coxswain::trackers {
namespace {

constexpr int64_t kBlockBytes = 32768;
constexpr int64_t kHeadBytes = 7;  // of each fragment: CRC, length, kind
constexpr char kProject[] = "coxswain";
constexpr char kStepName[] = "train/global_step";

enum FragmentKind : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

FragmentKind KindOf(bool first, bool last) {
  if (first) return last ? kFull : kFirst;
  return last ? kLast : kMiddle;
}

std::string Fragment(FragmentKind kind, std::string_view data) {
  const auto kind_byte = static_cast<unsigned char>(kind);
  uLong crc = crc32(0, &kind_byte, 1);
  crc = crc32(crc, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  std::string out;
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(crc >> (8 * i) & 0xff));
  for (int i = 0; i < 2; ++i) out.push_back(static_cast<char>(data.size() >> (8 * i) & 0xff));
  out.push_back(static_cast<char>(kind_byte));
  return out.append(data);
}

template <typename Items>
void AddItem(std::string_view key, std::string value_json, Items* items) {
  RunFileItem& item = *items->Add();
  item.set_key(std::string(key));
  item.set_value_json(std::move(value_json));
}

double SecondsBetween(int64_t from_unix_ms, int64_t to_unix_ms) {
  return static_cast<double>(std::max<int64_t>(0, to_unix_ms - from_unix_ms)) / 1000.0;
}

// Appends records to bytes that stand at `offset`.
class Appender {
 public:
  Appender(int64_t* records, int64_t offset) : records_(records), offset_(offset) {}
  void Append(RunFileRecord record) {
    record.set_num(++*records_);
    bytes_ += LogRecord(offset_ + static_cast<int64_t>(bytes_.size()), record.SerializeAsString());
  }
  std::string Take() { return std::move(bytes_); }

 private:
  int64_t* const records_;
  const int64_t offset_;
  std::string bytes_;
};

}  // namespace

std::string RunFileIdent() { return std::string(":W&B\xe1\xbe\x00", kHeadBytes); }

std::string LogRecord(int64_t offset, std::string_view data) {
  std::string out;
  bool first = true;
  do {
    int64_t room = kBlockBytes - (offset + static_cast<int64_t>(out.size())) % kBlockBytes;
    if (room < kHeadBytes) {  // of no fragment: zeros up to the next block
      out.append(static_cast<size_t>(room), '\0');
      room = kBlockBytes;
    }
    const size_t size = std::min(data.size(), static_cast<size_t>(room - kHeadBytes));
    out += Fragment(KindOf(first, size == data.size()), data.substr(0, size));
    data.remove_prefix(size);
    first = false;
  } while (!data.empty());
  return out;
}

std::string RunRecords::Begin(const Run& run, const std::string& config_json, int64_t offset) {
  Appender out(&records_, offset);
  began_unix_ms_ = run.created_unix_ms;
  RunFileRecord header;
  header.mutable_header()->mutable_version_info()->set_producer("coxswain");
  header.mutable_header()->mutable_version_info()->set_min_consumer("0.12.0");
  out.Append(header);
  RunFileRecord record;
  RunFileRun& shown = *record.mutable_run();
  shown.set_run_id(run.id);
  shown.set_project(kProject);
  shown.set_display_name(run.name);
  shown.mutable_start_time()->set_seconds(run.created_unix_ms / 1000);
  shown.mutable_start_time()->set_nanos(
      static_cast<int32_t>(run.created_unix_ms % 1000 * 1'000'000));
  const auto config = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  for (const auto& [key, value] : config.items()) {
    if (config.is_object()) AddItem(key, value.dump(), shown.mutable_config()->mutable_update());
  }
  out.Append(record);
  RunFileRecord step;
  step.mutable_metric()->set_name(kStepName);
  out.Append(step);
  for (const std::string_view name : PointNames()) {
    RunFileRecord metric;
    metric.mutable_metric()->set_name(std::string(name));
    metric.mutable_metric()->set_step_metric(kStepName);
    out.Append(metric);
  }
  return out.Take();
}

std::string RunRecords::Add(const Point& point, int64_t offset) {
  RunFileRecord record;
  RunFileHistory& history = *record.mutable_history();
  for (const auto& [name, value] : point.values) {
    AddItem(name, JsonNumber(value), history.mutable_item());
  }
  AddItem(kStepName, std::to_string(point.place.step), history.mutable_item());
  AddItem("_timestamp", JsonNumber(static_cast<double>(point.unix_ms) / 1000.0),
          history.mutable_item());
  AddItem("_runtime", JsonNumber(SecondsBetween(began_unix_ms_, point.unix_ms)),
          history.mutable_item());
  AddItem("_step", std::to_string(points_), history.mutable_item());
  history.mutable_step()->set_num(points_++);
  Appender out(&records_, offset);
  out.Append(record);
  return out.Take();
}

std::string RunRecords::End(const Run& run, bool succeeded, int64_t unix_ms,
                            const std::map<std::string_view, double>& last, int64_t offset) {
  Appender out(&records_, offset);
  RunFileRecord summary;
  for (const auto& [name, value] : last) {
    AddItem(name, JsonNumber(value), summary.mutable_summary()->mutable_update());
  }
  out.Append(summary);
  RunFileRecord exit;
  exit.mutable_exit()->set_exit_code(succeeded ? 0 : 1);
  exit.mutable_exit()->set_runtime(
      static_cast<int32_t>(SecondsBetween(run.created_unix_ms, unix_ms)));
  out.Append(exit);
  return out.Take();
}

}  // namespace coxswain::trackers
